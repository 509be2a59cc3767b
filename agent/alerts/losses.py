"""Notifications that a publisher's spool dropped, and the loss notices sent to subscribers."""

from __future__ import annotations

import math
from typing import Final

from agent.alerts.spool_events import ForgetLost, SaveLost, SpoolInstruction, TellLost
from agent.runtime.back_off import BackOff
from agent.wire.overlay import Origin
from agent.wire.push import Lost

# Losses within this time are reported as one range. For the next range of the same history the time
# doubles, and so on.
GATHER_LOST_S: Final = 5.0
MAX_LOST: Final = 1_024

Key = tuple[str, str]  # publisher, history


class _Loss:
    """The losses of one history. The notice of `telling` is in flight and not confirmed; `more` is
    reported after it."""

    __slots__ = ("due_s", "more", "pauses", "telling")

    def __init__(self, more: Lost, due_s: float, longest_s: float) -> None:
        self.more: Lost | None = more
        self.telling: Lost | None = None
        self.due_s = due_s
        self.pauses = BackOff(2.0 * GATHER_LOST_S, longest_s)

    def whole(self) -> Lost | None:
        """All losses that are not yet confirmed as reported to every subscriber."""
        if self.telling is None or self.more is None:
            return self.telling or self.more
        return _joined(self.telling, self.more)


class Losses:
    """Ranges of lost notifications by history. At most one notice per history is in flight; it is
    repeated until it is confirmed, and losses meanwhile go into the next one. Pauses double up to
    `longest_s`. Beyond `MAX_LOST` histories the oldest is only counted. O(histories) when something
    is due."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._by_key: dict[Key, _Loss] = {}
        self.due_s = math.inf  # when to call `tell`, which may find nothing to do

    def __bool__(self) -> bool:
        """Whether some loss is not yet reported to every subscriber."""
        return any(loss.whole() for loss in self._by_key.values())

    def restore(self, lost: Lost, now: float) -> None:
        """Take in what was on disk."""
        self._by_key[lost.publisher, lost.history] = _Loss(lost, now, self._longest_s)
        self.due_s = now

    def add(self, origins: list[Origin], now: float) -> list[SpoolInstruction]:
        """Record dropped notifications."""
        grown: dict[Key, None] = {}
        for origin in origins:
            key = (origin.publisher, origin.history)
            one = Lost(*key, origin.sequence, origin.sequence, 1)
            loss = self._by_key.get(key)
            if loss is None:
                self._by_key[key] = loss = _Loss(one, now + GATHER_LOST_S, self._longest_s)
            else:
                loss.more = one if loss.more is None else _joined(loss.more, one)
            self.due_s = min(self.due_s, loss.due_s)
            grown[key] = None
        wholes = [self._by_key[key].whole() for key in grown]
        instructions: list[SpoolInstruction] = [SaveLost(each) for each in wholes if each]
        for key in list(self._by_key)[: max(0, len(self._by_key) - MAX_LOST)]:
            del self._by_key[key]
            instructions.append(ForgetLost(*key))
        return instructions

    def tell(self, now: float) -> list[SpoolInstruction]:
        """The notices to send now."""
        if now < self.due_s:
            return []
        instructions: list[SpoolInstruction] = []
        for key, loss in list(self._by_key.items()):
            if now < loss.due_s:
                continue
            if loss.telling is None:
                loss.telling, loss.more = loss.more, None
            if loss.telling is None:
                del self._by_key[key]  # no loss for a whole pause
                continue
            instructions.append(TellLost(loss.telling))
            loss.due_s = now + loss.pauses.next()
        self.due_s = min([loss.due_s for loss in self._by_key.values()], default=math.inf)
        return instructions

    def told(self, lost: Lost) -> list[SpoolInstruction]:
        """This notice has reached every subscriber."""
        loss = self._by_key.get((lost.publisher, lost.history))
        if loss is None or loss.telling != lost:
            return []
        loss.telling = None
        if loss.more is not None:
            return [SaveLost(loss.more)]
        return [ForgetLost(lost.publisher, lost.history)]

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert len(self._by_key) <= MAX_LOST
        due_s = min([loss.due_s for loss in self._by_key.values()], default=math.inf)
        assert self.due_s <= due_s


def _joined(a: Lost, b: Lost) -> Lost:
    return Lost(
        a.publisher, a.history, min(a.first, b.first), max(a.last, b.last), a.count + b.count
    )
