"""Moves of units between masters, and what makes a list of them a plan."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, Literal

from msgspec import Struct

from agent.placement.placement import Placement
from agent.placement.world import PlacementError, Unit

Reason = Literal["pin", "drain", "arrival", "delegate", "plan", "drift"]

# The word of a reason against another: a move for a greater one wins over one under way.
PRECEDENCE: Final[dict[Reason, int]] = {
    "drift": 0,
    "arrival": 1,
    "delegate": 1,  # an arrival that no other master has room for
    "plan": 2,
    "drain": 3,
    "pin": 4,
}


class Move(Struct, frozen=True):
    """A unit goes from `source` (None: it is nowhere yet) to `target`.

    `epoch` fences: the owner's outputs carry it, and a later move has a greater one. Planners leave
    it at 0; the master that executes the move sets it. `gain` is by how much the move lowers the
    cost, in seconds of delay a second.
    """

    unit: Unit
    source: str | None
    target: str
    epoch: int = 0
    gain: float = 0.0
    reason: Reason = "plan"


def check_plan(placement: Placement, moves: Iterable[Move]) -> list[Move]:
    """The plan's moves, if it fits what there is now: PlacementError in one line if a master or
    unit is gone, a unit is moved twice or lives elsewhere than the plan thinks, a pin says
    otherwise, or a master is frozen, draining or out of the client's reach. O(moves)."""
    seen: set[Unit] = set()
    checked = []
    for move in moves:
        _check(placement, move)
        if move.unit in seen:
            raise PlacementError(f"the plan moves {move.unit} twice")
        seen.add(move.unit)
        checked.append(move)
    return checked


def _check(placement: Placement, move: Move) -> None:
    world = placement.world
    world.require(move.unit)
    what = f"{move.unit} is to move to {move.target}"
    target = world.master(move.target)
    source = None if move.source is None else world.master(move.source)
    if placement.where(move.unit) != source:
        now = placement.where(move.unit)
        place = "nowhere" if now is None else f"at {world.masters[now].name}"
        raise PlacementError(
            f"{what} from {move.source or 'nowhere'}, but it is {place}: plan anew"
        )
    if source == target:
        raise PlacementError(f"{what}, where it is")
    pinned = world.pins.get(move.unit)
    if pinned is not None and pinned != target:
        raise PlacementError(f"{what}, but it is pinned to {world.masters[pinned].name}")
    if target in world.draining:
        raise PlacementError(f"{what}, which is draining")
    for at in (target, source):
        if at is not None and at in world.frozen:
            raise PlacementError(f"{what}, but {world.masters[at].name} is frozen")
    if move.unit.kind == "home" and world.reach[move.unit.name][target] == inf:
        raise PlacementError(f"{what}, which the client cannot reach")
