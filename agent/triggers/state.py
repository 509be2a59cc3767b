"""Triggers at the node: raised and cleared, each once, out of the readings of one sensor.

At every reading a trigger's condition holds, is clear, lies between (hysteresis), or is unknown:

- it **holds** if the condition does
- it is **clear** if it does not hold and the `clear` condition does, or, without one, if it is
  known not to hold
- it is **unknown** if that cannot be said of what is known (`agent.triggers.condition`)

| is | finds | for | is then |
|---|---|---|---|
| not raised | holds | `for_s` | raised |
| raised | clear | `clear_for_s` | not raised |
| raised | unknown | `unknown_s` | not raised |

All else changes nothing. "For" is from the first of readings on end that all find it, no two of
them farther apart than a value counts: what nobody saw is not taken for granted.

Pure: readings and the monotonic time in seconds go in, changes come out. A change counts when the
caller says that it is stored, and is said again until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from agent.triggers.condition import Value, comparisons, condition
from agent.triggers.expression import Expression
from agent.triggers.readings import Readings

Verdict = Literal["holds", "clear", "between", "unknown"]
# After so many intervals without a good value nobody knows what it is.
STALE_INTERVALS: Final = 5.0


class Trigger(Struct, frozen=True):
    """What a trigger is: raised when `condition` has held for `for_s`, cleared when `clear` has for
    `clear_for_s` (None: when the condition has not held so long). Rates are over `window_s`. After
    `unknown_s` of not knowing, it is not raised any more. Times are in seconds."""

    name: str
    condition: Expression
    clear: Expression | None = None
    for_s: float = 0.0
    clear_for_s: float = 0.0
    window_s: float = 60.0
    unknown_s: float = 300.0


class Change(Struct, frozen=True):
    """A trigger is to be raised, or cleared. `channel`, its `value` and perhaps its `rate` a second
    are those of the first comparison that did it; `value` is None where it is not known any more.
    `after_s` is how long it held, or was raised; None if that was before the start."""

    trigger: str
    raised: bool
    verdict: Verdict
    channel: str
    value: float | None
    rate: float | None
    after_s: float | None


class _State:
    """One trigger."""

    __slots__ = (
        "_clear",
        "_condition",
        "_found_s",
        "_known_s",
        "_looked_s",
        "_raised_s",
        "_readings",
        "raised",
        "trigger",
    )

    def __init__(self, trigger: Trigger, readings: Readings, now: float) -> None:
        self.trigger = trigger
        self.raised = False
        self._readings = readings
        self._condition = condition(trigger.condition, readings, trigger.window_s)
        self._clear = (
            None if trigger.clear is None else condition(trigger.clear, readings, trigger.window_s)
        )
        self._raised_s: float | None = None
        self._found_s: float | None = None  # since when it finds what would change it
        self._looked_s = self._known_s = now

    def look(self, now: float) -> Change | None:
        """What the latest reading, taken now, changes."""
        verdict = self._verdict(now)
        if verdict != "unknown":
            self._known_s = now
        if now - self._looked_s > self._readings.stale_s:
            self._found_s = None
        self._looked_s = now
        if verdict != ("clear" if self.raised else "holds"):
            self._found_s = None
            return self._unknown(now)
        if self._found_s is None:
            self._found_s = now
        held_s = now - self._found_s
        if held_s < (self.trigger.clear_for_s if self.raised else self.trigger.for_s):
            return None
        return self._change(verdict, now, held_s)

    def tick(self, now: float) -> Change | None:
        """What follows from there being no reading."""
        if self._verdict(now) != "unknown":
            self._known_s = now
        return self._unknown(now)

    def took(self, now: float, *, raised: bool) -> None:
        """It is raised, or not, from now on."""
        self.raised = raised
        self._raised_s = now if raised else None
        self._found_s = None

    def restore(self) -> None:
        """It was raised before the start."""
        self.raised = True

    def _unknown(self, now: float) -> Change | None:
        if not self.raised or now - self._known_s < self.trigger.unknown_s:
            return None
        return self._change("unknown", now, 0.0)

    def _verdict(self, now: float) -> Verdict:
        holds = self._condition.holds(now)
        if holds:
            return "holds"
        clear = (None if holds is None else True) if self._clear is None else self._clear.holds(now)
        if clear:
            return "clear"
        return "unknown" if holds is None or clear is None else "between"

    def _change(self, verdict: Verdict, now: float, held_s: float) -> Change:
        cause = self._cause(verdict, now)
        latest = self._readings.channels[cause.channel]
        known = now - latest.at_s <= self._readings.stale_s
        after_s = held_s if not self.raised else None
        if self.raised and self._raised_s is not None:
            after_s = now - self._raised_s
        return Change(
            self.trigger.name,
            not self.raised,
            verdict,
            cause.channel,
            latest.value if known else None,
            cause.rate() if known else None,
            after_s,
        )

    def _cause(self, verdict: Verdict, now: float) -> Value:
        """The first comparison that found it."""
        told = self._condition
        wanted: bool | None = {"holds": True, "clear": False}.get(verdict)
        if verdict == "clear" and self._clear is not None:
            told, wanted = self._clear, True
        found = list(comparisons(told))
        return next((each for each in found if each.holds(now) is wanted), found[0])


class SensorTriggers:
    """The triggers of one sensor, which is read every `interval_s`; O(comparisons) a reading."""

    def __init__(
        self, triggers: Iterable[Trigger], channels: Sequence[str], interval_s: float, now: float
    ) -> None:
        self._readings = Readings(channels, STALE_INTERVALS * interval_s)
        self._states = {each.name: _State(each, self._readings, now) for each in triggers}

    @property
    def raised(self) -> tuple[str, ...]:
        """The names of those that are raised."""
        return tuple([name for name, state in self._states.items() if state.raised])

    def restore(self, raised: Iterable[str]) -> None:
        """These were raised before the start: they are not raised again without being cleared."""
        for name in raised:
            self._states[name].restore()

    def take(self, now: float, values: Sequence[float], quality: Sequence[int]) -> list[Change]:
        """A reading, as `Readings.take` wants it; times never go back."""
        self._readings.take(now, values, quality)
        return [change for s in self._states.values() if (change := s.look(now)) is not None]

    def tick(self, now: float) -> list[Change]:
        """Time has passed, and the sensor may be silent; now and then."""
        return [change for s in self._states.values() if (change := s.tick(now)) is not None]

    def took(self, change: Change, now: float) -> None:
        """A change is stored: it counts."""
        self._states[change.trigger].took(now, raised=change.raised)
