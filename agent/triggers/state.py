"""Trigger state machine: raises and clears a node's triggers from one sensor's readings.

At every reading a trigger's condition holds, is clear, lies between (hysteresis), or is unknown:

- it **holds** if the condition does
- it is **clear** if it does not hold and the `clear` condition does, or, without one, if it is
  known not to hold
- it is **unknown** if the readings do not decide it (`agent.triggers.condition`)

| is | finds | for | is then |
|---|---|---|---|
| not raised | holds | `for_s` | raised |
| raised | clear | `clear_for_s` | not raised |
| raised | unknown | `unknown_s` | not raised |

Everything else changes nothing. "For" is counted from the first of consecutive readings that all
find it, with no two farther apart than a value stays valid: unobserved time is not counted.

Pure: readings and the monotonic time in seconds go in, changes come out. A change takes effect when
the caller confirms that it is stored, and is repeated until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from agent.triggers.condition import Value, comparisons, condition
from agent.triggers.expression import Expression
from agent.triggers.readings import Readings

Verdict = Literal["holds", "clear", "between", "unknown"]
# A value is unknown after this many intervals without a good one.
STALE_INTERVALS: Final = 5.0


class Trigger(Struct, frozen=True):
    """Definition of a trigger: raised when `condition` has held for `for_s`, cleared when `clear`
    has held for `clear_for_s` (None: when the condition has not held for that long). Rates are over
    `window_s`. It is also cleared after `unknown_s` in which it was unknown. Times are in
    seconds."""

    name: str
    condition: Expression
    clear: Expression | None = None
    for_s: float = 0.0
    clear_for_s: float = 0.0
    window_s: float = 60.0
    unknown_s: float = 300.0


class TriggerTransition(Struct, frozen=True):
    """A trigger is to be raised or cleared. `channel`, its `value` and any `rate` per second are
    those of the first comparison that caused it; `value` is None if it is unknown by now. `after_s`
    is how long the condition held, or the trigger was raised; None if since before the start."""

    trigger: str
    raised: bool
    verdict: Verdict
    channel: str
    value: float | None
    rate: float | None
    after_s: float | None


class _State:
    """The state of one trigger."""

    __slots__ = (
        "_clear",
        "_condition",
        "_known_s",
        "_raised_s",
        "_readings",
        "found_s",
        "holds",
        "raised",
        "trigger",
    )

    def __init__(self, trigger: Trigger, readings: Readings, now: float) -> None:
        self.trigger = trigger
        self.raised = False
        self._readings = readings
        self._condition = condition(trigger.condition, readings, trigger.window_s)
        self.holds = self._condition.holds
        self._clear = (
            None if trigger.clear is None else condition(trigger.clear, readings, trigger.window_s)
        )
        self._raised_s: float | None = None
        self.found_s: float | None = None  # since when the finding holds that would change it
        self._known_s = now  # when it was not unknown; of interest while it is raised

    def look(self, now: float, unseen_s: float) -> TriggerTransition | None:
        """The change caused by the latest reading, taken now, if any; the one before was taken
        `unseen_s` earlier. To be called for each reading that finds it raised or holding."""
        verdict: Verdict = "holds"
        if self.raised:
            if (verdict := self._verdict(now)) != "unknown":
                self._known_s = now
            if verdict != "clear":
                self.found_s = None
                return self._unknown(now)
        if self.found_s is None or unseen_s > self._readings.stale_s:
            self.found_s = now
        held_s = now - self.found_s
        if held_s < (self.trigger.clear_for_s if self.raised else self.trigger.for_s):
            return None
        return self._change(verdict, now, held_s)

    def tick(self, now: float) -> TriggerTransition | None:
        """The change caused by the absence of readings, if any."""
        if self._verdict(now) != "unknown":
            self._known_s = now
        return self._unknown(now)

    def took(self, now: float, *, raised: bool) -> None:
        """Confirm a change: it is raised, or not, from now on."""
        self.raised = raised
        self._raised_s = now if raised else None
        self._known_s = now
        self.found_s = None

    def restore(self, now: float) -> None:
        """It was raised before the start."""
        self.raised = True
        self._known_s = now

    def _unknown(self, now: float) -> TriggerTransition | None:
        if not self.raised or now - self._known_s < self.trigger.unknown_s:
            return None
        return self._change("unknown", now, 0.0)

    def _verdict(self, now: float) -> Verdict:
        holds = self.holds(now)
        if holds:
            return "holds"
        clear = (None if holds is None else True) if self._clear is None else self._clear.holds(now)
        if clear:
            return "clear"
        return "unknown" if holds is None or clear is None else "between"

    def _change(self, verdict: Verdict, now: float, held_s: float) -> TriggerTransition:
        cause = self._cause(verdict, now)
        latest = self._readings.channels[cause.channel]
        known = now - latest.at_s <= self._readings.stale_s
        after_s = held_s if not self.raised else None
        if self.raised and self._raised_s is not None:
            after_s = now - self._raised_s
        return TriggerTransition(
            self.trigger.name,
            not self.raised,
            verdict,
            cause.channel,
            latest.value if known else None,
            cause.rate() if known else None,
            after_s,
        )

    def _cause(self, verdict: Verdict, now: float) -> Value:
        """The first comparison that supports the verdict."""
        told = self._condition
        wanted: bool | None = {"holds": True, "clear": False}.get(verdict)
        if verdict == "clear" and self._clear is not None:
            told, wanted = self._clear, True
        found = list(comparisons(told))
        return next((each for each in found if each.holds(now) is wanted), found[0])


class SensorTriggers:
    """The triggers of one sensor, read every `interval_s`; O(comparisons) per reading."""

    def __init__(
        self, triggers: Iterable[Trigger], channels: Sequence[str], interval_s: float, now: float
    ) -> None:
        self._readings = Readings(channels, STALE_INTERVALS * interval_s)
        self._states = {each.name: _State(each, self._readings, now) for each in triggers}
        self._in_order = tuple(self._states.values())
        self._looked_s = now

    @property
    def raised(self) -> tuple[str, ...]:
        """The names of the raised triggers."""
        return tuple([name for name, state in self._states.items() if state.raised])

    def restore(self, raised: Iterable[str]) -> None:
        """Restore triggers raised before the start: they are not raised again until cleared."""
        for name in raised:
            self._states[name].restore(self._looked_s)

    def take(
        self, now: float, values: Sequence[float], quality: Sequence[int]
    ) -> list[TriggerTransition]:
        """Process a reading, as for `Readings.take`; times never go back."""
        self._readings.take(now, values, quality)
        unseen_s, self._looked_s = now - self._looked_s, now
        changes = []
        for state in self._in_order:
            # Most triggers are neither raised nor about to be: for them this is all.
            if not state.raised and not state.holds(now):
                state.found_s = None
            elif (change := state.look(now, unseen_s)) is not None:
                changes.append(change)
        return changes

    def tick(self, now: float) -> list[TriggerTransition]:
        """Time has passed and the sensor may be silent; call it periodically."""
        return [change for s in self._states.values() if (change := s.tick(now)) is not None]

    def took(self, change: TriggerTransition, now: float) -> None:
        """Confirm that a change is stored; it takes effect now."""
        self._states[change.trigger].took(now, raised=change.raised)
