"""Plans for live masters: a planner by its name, what its moves gain, and the file of a plan."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from _core.colocation.model import Colocation
from agent.placement.price import Price
from agent.placement.view import View, congestion_of, model_of, named
from agent.placement.world import PlacementError
from agent.wire.placement import MAX_PLACED, PlannedMove

PLANNERS: Final = ("balanced", "ffd", "lfs", "lfs-ffd", "exact", "homes", "flows")
# What a planner needs besides the agent's own libraries: the extra `placement`.
LIBRARIES: Final = {
    "balanced": (),
    "ffd": (),
    "lfs": ("networkx", "scipy"),
    "lfs-ffd": ("networkx", "scipy"),
    "exact": ("networkx", "numpy", "scipy"),
    "homes": ("numpy", "scipy"),
    "flows": (),
}
MAX_BYTES: Final = 1 << 20
LEAST: Final = 3  # of the topics that LFS+FFD looks for together


class PlanError(ValueError):
    """A file that is no plan; one line says why."""


class Plan(Struct, frozen=True):
    """Moves, in order, and what the placement costs before and after them, in seconds of delay a
    second: None if an objective or a limit is not kept. `masters` counts those in use."""

    planner: str
    moves: tuple[PlannedMove, ...]
    cost: tuple[float | None, float | None]
    masters: tuple[int, int]
    infeasible: tuple[str, ...] = ()
    version: Literal[1] = 1


def missing(planner: str) -> list[str]:
    """The libraries that a planner needs and that are not installed."""
    return [each for each in LIBRARIES[planner] if find_spec(each) is None]


def plan(view: View, planner: str, model: Colocation | None = None, move_cost: float = 0.0) -> Plan:
    """What a planner would do. `model`: of latencies; by default one that nobody has trained.
    PlacementError, in one line, if there is no plan."""
    placement = view.placement.copy()
    world = placement.world
    infeasible: list[str] = []
    if planner == "homes":
        from fleet.placement.homes.planner import Homes

        moves = Homes(move_cost=move_cost).plan(placement)
    elif planner == "flows":
        from fleet.placement.flows import Flows

        moves = Flows(congestion_of(world), move_cost).plan(placement)
    else:
        from fleet.placement.processors import Packing

        cores = min((each.cores for each in world.masters), default=1)
        packing = Packing(model or model_of(cores), _packer(planner))
        moves = packing.plan(placement)
        infeasible = [
            f"topic {each.topic} is infeasible alone: it would get "
            f"p{each.objective.quantile * 100:g} = {each.latency_s:.3g} s, its objective is "
            f"{each.objective.seconds:g} s"
            for each in packing.infeasible_alone(placement)
        ]
    if len(moves) > MAX_PLACED:
        raise PlacementError(f"the plan has {len(moves)} moves, at most {MAX_PLACED} can be made")
    price = Price(placement, congestion_of(world))
    cost, masters = price.total(), _in_use(view)
    planned = []
    for move in moves:
        target = world.master(move.target)
        before, after = (
            price.at(move.unit, world.master(str(move.source))),
            price.at(move.unit, target),
        )
        gain = before - after if isfinite(before) and isfinite(after) else 0.0
        placement.move(move.unit, target)
        planned.append(PlannedMove(named(move.unit), str(move.source), move.target, round(gain, 9)))
    after_s = price.total()
    return Plan(
        planner,
        tuple(planned),
        (_finite(cost), _finite(after_s)),
        (masters, len({at for unit, at in placement.items() if unit in set(view.units())})),
        tuple(infeasible),
    )


def write(path: Path, made: Plan) -> None:
    """Write a plan's file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")


def read(path: Path) -> Plan:
    """Read a plan's file; PlanError in one line, or OSError."""
    data = path.read_bytes()
    if len(data) > MAX_BYTES:
        raise PlanError(f"{path} has {len(data)} bytes: no plan is as long")
    try:
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


def _in_use(view: View) -> int:
    return len({view.where(unit) for unit in view.units()})


def _finite(seconds: float) -> float | None:
    return round(seconds, 9) if isfinite(seconds) else None
