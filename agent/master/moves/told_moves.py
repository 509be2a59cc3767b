"""The moves of a master as its operator is told them."""

from __future__ import annotations

import math
from collections.abc import Collection

from agent.master.moves.movable import Mover, MoveStatus
from agent.placement.moves import Move
from agent.placement.placer import Placer
from agent.placement.view import named
from agent.placement.world import Unit
from agent.wire.placement import MAX_TOLD_MOVES, MoveTold


class ToldMoves:
    """The mover's report of them, with their expected gains, and those that still wait."""

    def __init__(self, iad: str, mover: Mover, placer: Placer) -> None:
        self._iad = iad
        self._mover = mover
        self._placer = placer
        self._last: dict[Unit, Move] = {}  # by unit

    def begun(self, move: Move) -> None:
        """This one begins."""
        self._last[move.unit] = move

    def told(self, begun: Collection[Unit]) -> tuple[MoveTold, ...]:
        """The last ones, the newest last, then those that wait. `begun`: units whose move is not
        over."""
        moves = self._mover.moves
        units = {each.unit for each in moves}
        self._last = {unit: move for unit, move in self._last.items() if unit in units}
        found = [
            MoveTold(
                named(each.unit),
                each.source,
                each.target,
                each.reason,
                each.state,
                each.pause_ms,
                each.trouble[:512],
                self._gain(each),
            )
            for each in moves
        ]
        for unit, target, reason in self._placer.waiting:
            if unit not in begun:
                trouble = self._placer.troubles.get(unit, "")[:512]
                found.append(
                    MoveTold(named(unit), self._iad, target, reason, "waiting", None, trouble)
                )
        return tuple(found[-MAX_TOLD_MOVES:])

    def _gain(self, status: MoveStatus) -> float | None:
        move = self._last.get(status.unit)
        if move is None or (move.target, move.reason) != (status.target, status.reason):
            return None
        return round(move.gain, 9) if move.gain and math.isfinite(move.gain) else None
