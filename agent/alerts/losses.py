"""What a publisher's spool had to give up, and what of it subscribers were told."""

from __future__ import annotations

import math
from typing import Final

from agent.alerts.spool_events import ForgetLost, SaveLost, SpoolInstruction, TellLost
from agent.runtime.back_off import BackOff
from agent.wire.overlay import Origin
from agent.wire.push import Lost

# What is given up within so long is told as one range; the next one of that history takes twice as
# long, and so on.
GATHER_LOST_S: Final = 5.0
MAX_LOST: Final = 1_024

Key = tuple[str, str]  # publisher, history


class _Loss:
    """Of one history. `telling` is under way and no word of it came; `more` is to be told then."""

    __slots__ = ("due_s", "more", "pauses", "telling")

    def __init__(self, more: Lost, due_s: float, longest_s: float) -> None:
        self.more: Lost | None = more
        self.telling: Lost | None = None
        self.due_s = due_s
        self.pauses = BackOff(2.0 * GATHER_LOST_S, longest_s)

    def whole(self) -> Lost | None:
        """All that not everybody was told."""
        if self.telling is None or self.more is None:
            return self.telling or self.more
        return _joined(self.telling, self.more)


class Losses:
    """Ranges by history. One notice of a history is under way at a time, told again until there is
    word of it; what is lost meanwhile is the next one. Pauses double up to `longest_s`. Of more
    than `MAX_LOST` histories the first is only counted. O(histories) when something is due."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._by_key: dict[Key, _Loss] = {}
        self.due_s = math.inf  # when `tell` has something to do, or nothing after all

    def __bool__(self) -> bool:
        """Whether there is anything that not everybody was told."""
        return any(loss.whole() for loss in self._by_key.values())

    def restore(self, lost: Lost, now: float) -> None:
        """Take in what was on disk."""
        self._by_key[lost.publisher, lost.history] = _Loss(lost, now, self._longest_s)
        self.due_s = now

    def add(self, origins: list[Origin], now: float) -> list[SpoolInstruction]:
        """These were given up."""
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
        """What is to be told now."""
        if now < self.due_s:
            return []
        instructions: list[SpoolInstruction] = []
        for key, loss in list(self._by_key.items()):
            if now < loss.due_s:
                continue
            if loss.telling is None:
                loss.telling, loss.more = loss.more, None
            if loss.telling is None:
                del self._by_key[key]  # quiet for a whole pause
                continue
            instructions.append(TellLost(loss.telling))
            loss.due_s = now + loss.pauses.next()
        self.due_s = min([loss.due_s for loss in self._by_key.values()], default=math.inf)
        return instructions

    def told(self, lost: Lost) -> list[SpoolInstruction]:
        """Everybody was told this."""
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
