"""Local search of a placement by price: units move, one after another, to where they are cheapest.

It is the drift of live masters on a copy, so it ends where no unit would move by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agent.placement.congestion import Congestion
from agent.placement.drift import Drift
from agent.placement.moves import Move
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.told import is_fixed
from agent.placement.world import Unit

# Each move lowers the cost; without a cost of moving, rounding could do it for ever.
MAX_ROUNDS: Final = 100
LEAST_GAIN: Final = 1e-9


def improved(
    placement: Placement, congestion: Congestion, start: Iterable[Move], move_cost: float
) -> list[Move]:
    """The moves from `placement` to what the search finds from there after the moves of `start`; no
    move of the search gains less than `move_cost`, in seconds of delay a second.
    O(rounds · units · degree · masters)."""
    found = placement.copy()
    for move in start:
        found.move(move.unit, found.world.master(move.target))
    drift = Drift(Price(found, congestion), lambda _: max(move_cost, LEAST_GAIN))
    units = [unit for unit, _ in found.items() if not is_fixed(unit)]
    for _ in range(MAX_ROUNDS):
        moved = [unit for unit in units if _moved(found, drift, unit)]
        if not moved:
            break
    masters = found.world.masters
    moves = []
    for unit in sorted(units):
        before, after = placement.where(unit), found.where(unit)
        if before is not None and after is not None and before != after:
            moves.append(Move(unit, masters[before].name, masters[after].name))
    return moves


def _moved(placement: Placement, drift: Drift, unit: Unit) -> bool:
    move = drift.wanted(unit)
    if move is None:
        return False
    placement.move(unit, placement.world.master(move.target))
    return True
