"""The alerts that an output has not delivered yet, in order, read from the log by its cursor.

An alert is behind the cursor only when its receiver has confirmed it, so a crash of either side
causes repetitions, and no loss. What the filter does not let through counts as delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from agent.runtime.retrying import Answered, Retrying, Verdict
from agent.wire.overlay import Notification

BATCH: Final = 100  # entries read at a time, and kept in memory
# Sessions in which a receiver took other messages, and which it ended upon the same alert.
MAX_CUTS: Final = 5


class Entry(Protocol):
    """Entry at a position of the log."""

    @property
    def position(self) -> int:
        """From 1 on, in order."""

    @property
    def notification(self) -> Notification | None:
        """The alert; None: a loss stands there."""

    @property
    def loss(self) -> object | None:
        """Lost alerts."""


E = TypeVar("E", bound=Entry)


class AlertLine(Generic[E]):
    """`now` is monotonic seconds. All O(1) an entry.

    `window` alerts at most are attempted at a time. The caller reads what `to_read` asks for,
    attempts what `next` returns, and reports each with `answered`.
    """

    def __init__(
        self,
        cursor: int,
        retrying: Retrying,
        wanted: Callable[[Notification], bool],
        window: int = 1,
    ) -> None:
        self.cursor = cursor
        self.retrying = retrying
        self.delivered = self.failed = self.given_up = 0
        self.is_gone = False
        self.last_error = ""
        self._wanted = wanted
        self._most = window
        self._took = False  # the receiver has confirmed an alert in this session
        self._cuts = 0
        self.is_doubtful = False  # the receiver may be unable to take the first in line
        self._line: deque[E] = deque()
        self._under_way: set[int] = set()
        self._done: set[int] = set()
        self._read_to = cursor
        self._reading = False
        self._more = True  # there may be more in the log

    @property
    def waiting(self) -> int:
        """How many of those that were read are not confirmed."""
        return len(self._line)

    @property
    def due_s(self) -> float | None:
        """When `next` has something, or None: not before something else happens."""
        if self.is_gone or len(self._line) == len(self._under_way) + len(self._done):
            return None
        return None if self._under_way and self._window == 1 else self.retrying.again_s

    @property
    def _window(self) -> int:
        return 1 if self.is_doubtful else self._most

    # --- the log -------------------------------------------------------------------------------

    def grew(self) -> None:
        """There may be more in the log."""
        self._more = True

    def to_read(self) -> tuple[int, int] | None:
        """After which position to read, and how many; None: nothing now."""
        if self._reading or self.is_gone or not self._more or len(self._line) > BATCH // 2:
            return None
        self._reading = True
        return self._read_to, BATCH

    def read(self, entries: Sequence[E]) -> None:
        """Entries that were found there."""
        self._reading, self._more = False, bool(entries)
        for each in entries:
            if each.position <= self._read_to:
                # Only the loss of a log that has begun anew stands there.
                self.cursor = self._read_to = each.position - 1
            self._read_to = each.position
            self._line.append(each)
            if each.notification is not None and not self._wanted(each.notification):
                self._done.add(each.position)
        self._move()

    # --- the receiver --------------------------------------------------------------------------

    def next(self, now: float, most: int = BATCH) -> list[E]:
        """Those to be attempted now, in order."""
        room = min(self._window - len(self._under_way), most)
        if room <= 0 or self.is_gone or now < self.retrying.again_s:
            return []
        found = [e for e in self._line if e.position not in self._under_way | self._done][:room]
        self._under_way.update(each.position for each in found)
        return found

    def answered(self, position: int, answered: Answered, now: float) -> str:
        """An attempt has ended; returns a line for the operator, or nothing. After a failure all
        that were attempted are attempted again."""
        if position not in self._under_way:
            return ""
        verdict = self.retrying.answered(answered, now)
        said = self.retrying.said
        match verdict:
            case Verdict.DONE:
                self.delivered += 1
                self.last_error = ""
                self._took, self.is_doubtful, self._cuts = True, False, 0
            case Verdict.GIVEN_UP:
                self.given_up += 1
                said = f"gave up alert {position}, refused for too long: {answered.line}"
            case Verdict.AGAIN:
                return self._again(answered, said)
            case Verdict.GONE:
                self.is_gone = True
                said = f"ended until the gateway is started again: {answered.line}"
                return self._again(answered, said)
        self._under_way.discard(position)
        self._done.add(position)
        self._move()
        return said

    def refused_together(self) -> None:
        """The receiver will not have all that were attempted, as one message: any of them may be
        why. The first is attempted alone, so that one is given up only for its own sake."""
        self.is_doubtful = True

    def ended(self, why: str, now: float, *, took_others: bool) -> str:
        """The receiver has ended the session; returns a line for the operator, or nothing.
        Deliveries under way may have arrived or not: they are attempted again. If none was
        confirmed, the first may be what the receiver cannot take: it is attempted alone, after a
        pause, and given up if the session always ends upon it while `took_others`."""
        under_way, took, self._took = min(self._under_way, default=0), self._took, False
        alone = len(self._under_way) == 1
        self._under_way.clear()
        if not under_way or took:
            return ""
        self.is_doubtful = True
        self._cuts += alone and took_others
        if self._cuts < MAX_CUTS:
            self.retrying.answered(Answered(0, why), now)
            return ""
        self._cuts = 0
        self.given_up += 1
        self._done.add(under_way)
        self._move()
        return f"gave up alert {under_way}, upon which the receiver ends the session: {why}"

    def _again(self, answered: Answered, said: str) -> str:
        self.failed += 1
        self.last_error = answered.line
        self._under_way.clear()
        return said

    def _move(self) -> None:
        while self._line and self._line[0].position in self._done:
            self.cursor = self._line.popleft().position
            self._done.discard(self.cursor)

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        positions = [each.position for each in self._line]
        assert positions == sorted(set(positions))
        assert not self._under_way & self._done
        assert self._under_way | self._done <= set(positions)
        assert all(self.cursor < each <= self._read_to for each in positions)
