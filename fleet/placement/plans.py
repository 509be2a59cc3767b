"""Plans for live masters: a planner by its name, what its moves gain, and the file of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from msgspec import Struct

from agent.placement.congestion import DELEGATED_S
from agent.placement.latency_model import untrained
from agent.placement.moves import Move
from agent.placement.price import Price
from agent.placement.view import View, named, net, processors_at
from agent.placement.world import PlacementError, Unit
from agent.wire.placement import MAX_PLACED, PlannedMove
from fleet.common import files

if TYPE_CHECKING:
    from fleet.placement.processors import Packing

PLANNERS: Final = (
    "balanced",
    "ffd",
    "lfs",
    "lfs-ffd",
    "exact",
    "homes",
    "price",
    "flows",
    "repair",
)
# What a planner needs besides the agent's own libraries: the extra `placement`.
LIBRARIES: Final = {
    "balanced": (),
    "ffd": (),
    "lfs": ("networkx", "scipy"),
    "lfs-ffd": ("networkx", "scipy"),
    "exact": ("networkx", "numpy", "scipy"),
    "homes": ("numpy", "scipy"),
    "price": (),
    "flows": (),
    "repair": (),
}
# Packings that the search by price begins from, besides the placement as it is.
PACKED: Final = ("ffd", "balanced")
MAX_BYTES: Final = 1 << 20
LEAST: Final = 3  # of the topics that LFS+FFD looks for together


class PlanError(ValueError):
    """A file that is no plan; one line says why."""


class Plan(Struct, frozen=True):
    """Moves, in order, and what the placement costs before and after them, in seconds of delay a
    second: None if an objective or a limit is not kept. `masters` counts those in use,
    `delegated` the processors at the delegate."""

    planner: str
    moves: tuple[PlannedMove, ...]
    cost: tuple[float | None, float | None]
    masters: tuple[int, int]
    infeasible: tuple[str, ...] = ()
    delegated: tuple[int, int] = (0, 0)
    version: Literal[1] = 1


def missing(planner: str) -> list[str]:
    """The libraries that a planner needs and that are not installed."""
    return [each for each in LIBRARIES[planner] if find_spec(each) is None]


def plan(view: View, planner: str, move_cost: float = 0.0) -> Plan:
    """A planner's plan, by the latency model of the view. PlacementError, in one line, if
    there is no plan."""
    if planner == "price":
        return least_price(view, move_cost)
    placement = view.placement
    if planner == "homes":
        from fleet.placement.homes.planner import Homes

        homes = Homes(_delegate_s(view), move_cost)
        return _costed(view, planner, homes.plan(placement.copy()))
    if planner == "flows":
        from fleet.placement.flows import Flows

        moves = Flows(view.congestion(), move_cost).plan(placement)
        return _costed(view, planner, moves)
    if planner == "repair":
        from fleet.placement.feedback import Repair

        return _costed(view, planner, Repair(view).plan())
    packing = _packing(view, planner)
    return _costed(view, planner, packing.plan(placement.copy()), infeasible(view, packing))


def least_price(view: View, move_cost: float = 0.0) -> Plan:
    """The cheapest placement that local search by price finds, from the placement as it is and from
    packings; a move has to gain more than `move_cost`, so a plan of many moves for little does not
    win. PlacementError as for `plan`."""
    from fleet.placement.local import improved

    packing = _packing(view, "ffd")
    named_alone = infeasible(view, packing)
    starts: list[Sequence[Move]] = [()]
    for planner in PACKED:
        # Too few masters for all objectives: what there is may still be bettered.
        with suppress(PlacementError):
            starts.append(_packing(view, planner).plan(view.placement.copy()))
    found = [
        _costed(
            view,
            "price",
            improved(view.placement, view.congestion(), start, move_cost),
            named_alone,
        )
        for start in starts
    ]

    def cost(made: Plan) -> float:
        after = made.cost[1]
        gross = inf if after is None else after + DELEGATED_S * made.delegated[1]
        return gross + move_cost * len(made.moves)

    return min(found, key=lambda made: (cost(made), len(made.moves)))


def fewest_masters(view: View) -> int:
    """How many masters keep the objectives of all topics, by the packings that need no library.
    PlacementError if all of them do not."""
    needed = []
    for planner in PACKED:
        after = view.placement.copy()
        for move in _packing(view, planner).plan(view.placement.copy()):
            after.move(move.unit, after.world.master(move.target))
        needed.append(len({at for unit, at in after.items() if unit.kind == "processor"}))
    return min(needed)


def infeasible(view: View, packing: Packing) -> list[str]:
    """The topics that miss their objectives even alone, a line each."""
    return [
        f"topic {each.topic} is infeasible alone: it would get "
        f"p{each.objective.quantile * 100:g} = {each.latency_s:.3g} s, its objective is "
        f"{each.objective.seconds:g} s"
        for each in packing.infeasible_alone(view.placement.copy())
    ]


def _packing(view: View, planner: str) -> Packing:
    from fleet.placement.processors import Packing

    cores = min((each.cores for each in view.world.masters), default=1)
    return Packing(view.model or untrained(cores), _packer(planner), delegate=view.delegate)


def _delegate_s(view: View) -> float | None:
    """The longest delay from a master to the delegate; None without one."""
    if not view.delegate:
        return None
    at = view.world.master(view.delegate)
    return max(row[at] for row in view.world.between)


def _costed(
    view: View, planner: str, moves: Sequence[Move], infeasible: Sequence[str] = ()
) -> Plan:
    """The plan of these moves, with what it costs before and after them."""
    if len(moves) > MAX_PLACED:
        raise PlacementError(f"the plan has {len(moves)} moves, at most {MAX_PLACED} can be made")
    placement = view.placement.copy()
    world = placement.world
    price = Price(placement, view.congestion())
    units = view.units()
    cost, masters = _total(price, units), _in_use(view)
    delegated = processors_at(placement, view.delegate)
    planned = []
    for move in moves:
        target = world.master(move.target)
        before, after = (
            price.at(move.unit, world.master(str(move.source))),
            price.at(move.unit, target),
        )
        gain = before - after if isfinite(before) and isfinite(after) else 0.0
        gain = 0.0 if abs(gain) >= DELEGATED_S / 2 else gain  # To or from the delegate.
        placement.move(move.unit, target)
        planned.append(PlannedMove(named(move.unit), str(move.source), move.target, round(gain, 9)))
    after_delegated = processors_at(placement, view.delegate)
    return Plan(
        planner,
        tuple(planned),
        (_finite(net(cost, delegated)), _finite(net(_total(price, units), after_delegated))),
        (masters, len({placement.where(unit) for unit in units})),
        tuple(infeasible),
        (delegated, after_delegated),
    )


def write(path: Path, made: Plan) -> None:
    """Write a plan's file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")


def read(path: Path) -> Plan:
    """Read a plan's file; PlanError in one line, or OSError."""
    try:
        data = files.read(path, MAX_BYTES)
        made = msgspec.json.decode(data, type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"{path} is no plan: {error}") from None
    if not made.moves:
        raise PlanError(f"{path} has no moves: there is nothing to do")
    return made


def _packer(planner: str) -> Callable[..., list[list[int]]]:
    from fleet.placement.packing import balanced, ffd, hybrid, lfs

    if planner == "exact":
        from fleet.placement.columns import exact

        return exact
    return {"balanced": balanced, "ffd": ffd, "lfs": lfs, "lfs-ffd": hybrid(LEAST)}[planner]


def _total(price: Price, units: Sequence[Unit]) -> float:
    """The cost of a placement; infinite if a unit could not come to where it is, for a limit or an
    objective: `Price.total` asks for neither."""
    placement = price.placement
    for unit in units:
        at = placement.where(unit)
        if at is not None and price.at(unit, at) == inf and at not in placement.world.draining:
            return inf
    return price.total()


def _in_use(view: View) -> int:
    return len({view.where(unit) for unit in view.units()})


def _finite(seconds: float) -> float | None:
    return round(seconds, 9) if isfinite(seconds) else None
