"""The moves from one master: those that wait, those under way, and the last that ended."""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

from agent.master.moves.movable import MoveStatus
from agent.placement.handover.source import Source
from agent.placement.moves import Reason
from agent.placement.world import Unit
from agent.wire.handover import UnitMove
from agent.wire.records import MoveRecord

MAX_AT_ONCE: Final = 2
MAX_WAITING: Final = 1_000
KEPT: Final = 64  # that have ended


class Move(Struct, eq=False):
    """A move from this master; `source` decides once it has begun. `pause_ms` and `idle_ms` as in
    `MoveStatus`."""

    unit: Unit
    target: str
    reason: Reason
    since_s: float
    asked_s: float  # by the monotonic clock
    source: Source | None = None
    paused_s: float | None = None
    pause_ms: float | None = None
    idle_ms: float | None = None
    over: bool = False
    trouble: str = ""

    @property
    def state(self) -> str:
        """Of the source's side of the handover."""
        if self.source is None:
            return "aborted" if self.over else "planned"
        if self.source.state == "settled" and not self.over:
            return "handed"  # The target is not told yet.
        return self.source.state

    def works_again(self, now: float) -> None:
        """Messages are worked on again, here or there."""
        if self.paused_s is not None and self.idle_ms is None:
            self.idle_ms = (now - self.paused_s) * 1e3

    def puts_out_again(self, now: float) -> None:
        """Outputs may leave again, here or there."""
        self.works_again(now)
        if self.paused_s is not None and self.pause_ms is None:
            self.pause_ms = (now - self.paused_s) * 1e3


class MoveList:
    """Moves in the order in which they were asked for."""

    def __init__(self, iad: str) -> None:
        self._iad = iad
        self._moves: deque[Move] = deque()
        self._waiting: deque[Move] = deque()
        self.counters = {"moves_settled": 0, "moves_aborted": 0}

    @property
    def full(self) -> bool:
        """Whether no more may wait."""
        return len(self._waiting) >= MAX_WAITING

    def has(self, unit: Unit) -> bool:
        """Whether the unit waits for its move, or is being moved. O(moves)."""
        return any(each.unit == unit and not each.over for each in self._moves)

    def add(self, move: Move, *, waits: bool) -> None:
        """One more, which waits or is under way."""
        self._moves.append(move)
        if waits:
            self._waiting.append(move)

    def next(self) -> Move | None:
        """The one that is to begin now, if there are not too many under way."""
        under_way = sum(not each.over for each in self._moves) - len(self._waiting)
        return self._waiting.popleft() if self._waiting and under_way < MAX_AT_ONCE else None

    def over(self, move: Move, trouble: str, now: float) -> MoveRecord:
        """It has ended; returns its record."""
        move.over = True
        settled = move.state == "settled"
        self.counters["moves_settled" if settled else "moves_aborted"] += 1
        move.trouble = "" if settled else trouble
        ended = [each for each in self._moves if each.over]
        for each in ended[: max(0, len(ended) - KEPT)]:
            self._moves.remove(each)
        return MoveRecord(
            self._iad,
            round(move.since_s * 1e3),
            move.asked_s,
            move.unit.kind,
            move.unit.name,
            self._iad,
            move.target,
            move.state,
            move.reason,
            move.pause_ms,
            (now - move.asked_s) * 1e3,
        )

    @property
    def statuses(self) -> list[MoveStatus]:
        """The newest last."""
        return [
            MoveStatus(
                each.unit,
                self._iad,
                each.target,
                each.reason,
                each.state,
                each.since_s,
                each.pause_ms,
                each.idle_ms,
                each.trouble,
            )
            for each in self._moves
        ]


def told(status: MoveStatus) -> UnitMove:
    """A move as the operator is told of it."""
    return UnitMove(
        status.unit.kind,
        status.unit.name,
        status.source,
        status.target,
        # Operators of earlier versions do not know the word.
        "arrival" if status.reason == "delegate" else status.reason,
        status.state,
        round(status.since_s * 1e3),
        status.pause_ms,
        status.idle_ms,
        status.trouble[:512],
    )
