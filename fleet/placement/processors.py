"""Plans for the processors of topics: packings of a world, as moves.

Pins and frozen masters are kept: what must stay somewhere is filled up first, and the rest is
packed by a planner and goes to those masters where most of it lives already.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from msgspec import Struct

from _core.colocation.model import Colocation
from agent.placement.moves import Move, Reason
from agent.placement.placement import Placement
from agent.placement.world import Objective, PlacementError, Unit
from fleet.placement import latency
from fleet.placement.packing import Bins, Planner, Problem, ffd, first_fit
from fleet.placement.repair import repaired

MOST: Final = 32  # processors that the model takes
NO_WORK_S: Final = 1e-6  # the service time of a processor that has none


class Alone(Struct, frozen=True):
    """A topic that misses its objective even on a master of its own."""

    topic: str
    latency_s: float
    objective: Objective


class _Case(Struct, frozen=True):
    """The processors of a world as a problem: topics by number, and the masters that take some."""

    names: list[str]
    problem: Problem
    keep: latency.Feasibility  # for who stays: a third of the headroom
    open: list[int]
    kept: dict[int, list[int]]  # master → topics that stay there whatever is planned


class Packing:
    """Plans the fewest masters on which all processors keep their objectives."""

    def __init__(
        self,
        model: Colocation,
        planner: Planner = ffd,
        headroom: float = 0.08,
        *,
        periodic: bool = False,
    ) -> None:
        """`headroom` is on loads. `periodic`: publishers send at fixed intervals; it takes less."""
        self.model = model
        self.planner = planner
        self.headroom = headroom
        self.periodic = periodic

    def plan(self, placement: Placement) -> list[Move]:
        """The moves that lead to a new packing; PlacementError if the masters are too few."""
        case = self._case(placement)
        problem = case.problem
        target = {topic: at for at, topics in case.kept.items() for topic in topics}
        free = [topic for topic in problem.topics if topic not in target]
        kept = [at for at in case.kept if at in case.open]
        bins = [case.kept[at] for at in kept]
        rest = []
        for topic in sorted(free, key=lambda number: -problem.load[number]):
            found = first_fit([topic], problem.most, problem.feasible, bins)
            if len(found) > len(bins):
                rest.append(topic)
            else:
                bins = found
        planned = self.planner(_only(problem, rest))
        target |= {topic: kept[at] for at, topics in enumerate(bins) for topic in topics}
        places = [at for at in case.open if at not in case.kept]
        target.update(_assigned(placement, case, planned, places))
        return _moves(placement, case, target, "plan")

    def repair(self, placement: Placement) -> list[Move]:
        """The fewest moves after which all processors that are placed keep their objectives again,
        by what is measured now; those of full masters go where they fit, else to an empty one. What
        is pinned stays."""
        case = self._case(placement)
        places = list(range(len(placement.world.masters)))
        bins: Bins = [[] for _ in places]
        for number, name in enumerate(case.names):
            at = placement.where(Unit("processor", name))
            if at is not None:
                bins[at].append(number)
        problem = case.problem
        found, moved = repaired(
            [bins[at] for at in case.open],
            problem.load,
            problem.most,
            problem.feasible,
            case.keep,
            frozenset(topic for topics in case.kept.values() for topic in topics),
        )
        if len(found) > len(case.open):
            raise _too_few(sum(map(bool, found)), "masters", len(case.open))
        target = {topic: case.open[at] for at, topics in enumerate(found) for topic in topics}
        return _moves(placement, case, {topic: target[topic] for topic in moved}, "drift")

    def infeasible_alone(self, placement: Placement) -> list[Alone]:
        """The topics that no placement helps, with the latency that each would get."""
        case = self._case(placement)
        problem = case.problem
        return [
            Alone(
                case.names[number],
                problem.latency_alone[number],
                placement.world.topics[case.names[number]].objective or Objective(),
            )
            for number in problem.infeasible_alone()
        ]

    def _case(self, placement: Placement) -> _Case:
        world = placement.world
        topics = [topic for topic in world.topics.values() if topic.processor]
        goals = [topic.objective or Objective() for topic in topics]
        seen = [
            latency.Topic(
                max(topic.service_s, NO_WORK_S),
                world.rates[topic.name],
                len(topic.publishers) if self.periodic else 0,
                goal.seconds,
                goal.quantile,
            )
            for topic, goal in zip(topics, goals, strict=True)
        ]
        free = [at for at in range(len(world.masters)) if at not in world.frozen | world.draining]
        if not free:
            raise PlacementError("no master takes processors: all are frozen or draining")
        compute = min(world.masters[at].compute for at in free)
        most = min([MOST, *(world.masters[at].max_processors for at in free)])
        load = [topic.load for topic in seen]
        asked = latency.candidates(self.model, seen, self.headroom)
        staying = latency.candidates(self.model, seen, self.headroom / 3)

        def within(chosen: Sequence[int]) -> bool:
            return sum(load[number] for number in chosen) <= compute

        names = [topic.name for topic in topics]
        kept: dict[int, list[int]] = {}
        for number, name in enumerate(names):
            unit = Unit("processor", name)
            at = world.pins.get(unit)
            where = placement.where(unit)
            if at is None and where in world.frozen:
                at = where
            if at is not None:
                kept.setdefault(at, []).append(number)
        numbers = list(range(len(topics)))
        return _Case(
            names,
            Problem(
                numbers,
                [asked.latencies([number])[0] for number in numbers],
                load,
                max(most, 1),
                lambda chosen: within(chosen) and asked.feasible(chosen),
            ),
            lambda chosen: within(chosen) and staying.feasible(chosen),
            free,
            kept,
        )


def _only(problem: Problem, topics: Sequence[int]) -> Problem:
    return Problem(
        sorted(topics), problem.latency_alone, problem.load, problem.most, problem.feasible
    )


def _assigned(
    placement: Placement, case: _Case, bins: Bins, places: Sequence[int]
) -> dict[int, int]:
    """The master of each topic: bins go where most of their topics live; then cheap masters."""
    if len(bins) > len(places):
        raise _too_few(len(bins), "masters without pinned ones", len(places))
    masters = placement.world.masters
    here = [placement.where(Unit("processor", name)) for name in case.names]
    dearest = max([1.0, *(masters[at].opening_cost for at in places)])
    cost = [
        [
            masters[at].opening_cost / (dearest * (len(bins) + 1))
            - sum(here[topic] == at for topic in topics)
            for at in places
        ]
        for topics in bins
    ]
    return {
        topic: places[column] for row, column in enumerate(assigned(cost)) for topic in bins[row]
    }


def assigned(cost: Sequence[Sequence[float]]) -> list[int]:
    """A column of its own for each row, at the least cost of all together: the Hungarian method.
    O(rows² · columns). SciPy has it too, but FFD has to work where only the agent's libraries
    are."""
    rows, columns = len(cost), len(cost[0]) if cost else 0
    # Row and column 0 stand for none.
    of_row, of_column = [0.0] * (rows + 1), [0.0] * (columns + 1)
    row_at = [0] * (columns + 1)
    for row in range(1, rows + 1):
        row_at[0], column = row, 0
        least, before, done = [inf] * (columns + 1), [0] * (columns + 1), [False] * (columns + 1)
        while row_at[column]:
            done[column] = True
            here, step, nearest = row_at[column], inf, 0
            for each in range(1, columns + 1):
                if done[each]:
                    continue
                reduced = cost[here - 1][each - 1] - of_row[here] - of_column[each]
                if reduced < least[each]:
                    least[each], before[each] = reduced, column
                if least[each] < step:
                    step, nearest = least[each], each
            for each in range(columns + 1):
                if done[each]:
                    of_row[row_at[each]] += step
                    of_column[each] -= step
                else:
                    least[each] -= step
            column = nearest
        while column:
            row_at[column] = row_at[before[column]]
            column = before[column]
    found = [0] * rows
    for column, row in enumerate(row_at[1:]):
        if row:
            found[row - 1] = column
    return found


def _too_few(needed: int, what: str, there: int) -> PlacementError:
    return PlacementError(f"the processors need {needed} {what}, {there} can take them")


def _moves(placement: Placement, case: _Case, target: dict[int, int], reason: Reason) -> list[Move]:
    masters = placement.world.masters
    moves = []
    for number, at in sorted(target.items()):
        unit = Unit("processor", case.names[number])
        source = placement.where(unit)
        if source != at:
            place = None if source is None else masters[source].name
            why: Reason = "pin" if unit in placement.world.pins else reason
            moves.append(Move(unit, place, masters[at].name, reason=why))
    return moves
