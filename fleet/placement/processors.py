"""Plans for the processors of topics: packings of a world, as moves.

Pins and frozen masters are kept: what must stay somewhere is filled up first, and the rest is
packed by a planner and goes to those masters where most of it lives already. Masters of different
limits are packed as they are, the largest first, so that few are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import inf
from typing import Final

from msgspec import Struct

from _core.colocation.model import Candidates, Colocation
from agent.placement.congestion import ROUNDING
from agent.placement.headroom import PERIODIC, POISSON, Headroom, keep_objectives
from agent.placement.moves import Move, Reason
from agent.placement.placement import Placement
from agent.placement.world import Objective, PlacementError, Unit
from fleet.placement import latency
from fleet.placement.packing import Planner, Problem, either

MAX_PROCESSORS: Final = 32  # processors that the model takes
NO_WORK_S: Final = 1e-6  # the service time of a processor that has none


class Alone(Struct, frozen=True):
    """A topic that misses its objective even on a master of its own."""

    topic: str
    latency_s: float
    objective: Objective


class Case(Struct, frozen=True):
    """The processors of a world as a problem: topics by number, and the masters that take some."""

    names: list[str]
    numbers: list[int]
    load: list[float]
    asked: Candidates
    goals: list[Objective | None]
    most: list[int]  # topics, by master
    compute: list[float]  # that homes and clones leave, by master
    open: list[int]
    usual: list[int]  # of these all but the delegate
    kept: dict[int, list[int]]  # master → topics that stay there whatever is planned

    def fits(self, at: int, chosen: Sequence[int]) -> bool:
        """Whether these keep limits and objectives at a master."""
        load = sum(self.load[number] for number in chosen)
        return (
            len(chosen) <= self.most[at]
            and load <= self.compute[at] * (1 + ROUNDING)
            and keep_objectives(self.asked, self.goals, chosen)
        )

    def problem(self, at: int, topics: Sequence[int]) -> Problem:
        """To pack these onto masters with the limits of that one."""
        return Problem(
            sorted(topics),
            [self.asked.latencies([number])[0] for number in self.numbers],
            self.load,
            max(self.most[at], 1),
            lambda chosen: self.fits(at, chosen),
        )


class Packing:
    """Plans the fewest masters on which all processors keep their objectives."""

    def __init__(
        self,
        model: Colocation,
        planner: Planner = either,
        headroom: Headroom | None = None,
        *,
        periodic: bool = False,
        delegate: str = "",
    ) -> None:
        """`periodic`: publishers send at fixed intervals; that takes less headroom by default.
        `delegate`: a master that gets only what the others have no room for."""
        self.model = model
        self.planner = planner
        self.headroom = headroom or (PERIODIC if periodic else POISSON)
        self.periodic = periodic
        self.delegate = delegate

    def plan(self, placement: Placement) -> list[Move]:
        """The moves that lead to a new packing; PlacementError if the masters are too few."""
        case = self.case(placement)
        fixed = {topic for topics in case.kept.values() for topic in topics}
        bins = {at: list(topics) for at, topics in case.kept.items()}
        rest: list[int] = []
        for topic in sorted(set(case.numbers) - fixed, key=lambda each: (-case.load[each], each)):
            takes = (at for at in bins if at in case.usual and case.fits(at, [*bins[at], topic]))
            at = next(takes, None)
            (rest if at is None else bins[at]).append(topic)
        target = {topic: at for at, topics in bins.items() for topic in topics}
        target.update(self._packed(placement, case, rest))
        return moves_of(placement, case, target)

    def _packed(self, placement: Placement, case: Case, topics: Sequence[int]) -> dict[int, int]:
        """The master of each of these, on masters that keep nothing: those with the greatest limits
        are filled first. Of more bins than masters the fullest are taken, before these any with a
        topic that no smaller master takes."""

        def size(at: int) -> tuple[float, int]:
            return case.compute[at], case.most[at]

        places = sorted((at for at in case.usual if at not in case.kept), key=size, reverse=True)
        rest = list(topics)
        needed = 0
        chosen: list[tuple[list[int], list[int]]] = []  # a bin, and masters of its size
        for _, alike in groupby(places, key=size):
            group = list(alike)
            smaller = places[places.index(group[-1]) + 1 :]
            must = {t for t in rest if not any(case.fits(at, [t]) for at in smaller)}
            planned = self.planner(case.problem(group[0], rest)) if rest else []
            if smaller:
                planned.sort(key=lambda each: (must.isdisjoint(each), -_sum(case.load, each)))
            needed = len(chosen) + len(planned)
            chosen += [(each, group) for each in planned[: len(group)]]
            rest = [topic for each in planned[len(group) :] for topic in each]
        if not rest:
            return _assigned(placement, case, chosen, places)
        at = next((at for at in case.open if at not in case.usual), None)
        if at is None or not case.fits(at, [*case.kept.get(at, ()), *rest]):
            raise _too_few(max(needed, 1), "masters without pinned ones", len(places))
        found = _assigned(placement, case, chosen, places) if chosen else {}
        return found | dict.fromkeys(rest, at)

    def infeasible_alone(self, placement: Placement) -> list[Alone]:
        """The topics that no placement helps, with the latency that each would get."""
        case = self.case(placement)
        return [
            Alone(
                case.names[number],
                case.asked.latencies([number])[0],
                goal,
            )
            for number, goal in zip(case.numbers, case.goals, strict=True)
            if goal is not None and not any(case.fits(at, [number]) for at in case.open)
        ]

    def case(self, placement: Placement, headroom: Headroom | None = None) -> Case:
        """The processors of a placement; `headroom`: another one than that of plans."""
        world = placement.world
        topics = [topic for topic in world.topics.values() if topic.processor]
        # In the queue one without an objective is taken for one with the usual one.
        goals = [topic.objective or Objective() for topic in topics]
        seen = [
            latency.Topic(
                max(topic.service_s, NO_WORK_S),
                world.processed(topic.name),
                len(topic.publishers) if self.periodic else 0,
                goal.seconds,
                goal.quantile,
            )
            for topic, goal in zip(topics, goals, strict=True)
        ]
        free = [at for at in range(len(world.masters)) if at not in world.frozen | world.draining]
        if not free:
            raise PlacementError("no master takes processors: all are frozen or draining")
        kept: dict[int, list[int]] = {}
        for number, topic in enumerate(topics):
            unit = Unit("processor", topic.name)
            at, where = world.pins.get(unit), placement.where(unit)
            if at is None and where in world.frozen:
                at = where
            if at is not None:
                kept.setdefault(at, []).append(number)
        others = [
            account.load
            - sum(world.load_of(Unit("processor", name)) for name in account.processors)
            for account in placement.accounts
        ]
        return Case(
            [topic.name for topic in topics],
            list(range(len(topics))),
            [topic.load for topic in seen],
            latency.candidates(self.model, seen, headroom or self.headroom),
            [topic.objective for topic in topics],
            [min(MAX_PROCESSORS, master.max_processors) for master in world.masters],
            [
                max(master.compute - load, 0.0)
                for master, load in zip(world.masters, others, strict=True)
            ],
            free,
            [at for at in free if world.masters[at].name != self.delegate],
            kept,
        )


def _sum(load: Sequence[float], topics: Sequence[int]) -> float:
    return sum(load[topic] for topic in topics)


def _assigned(
    placement: Placement,
    case: Case,
    chosen: Sequence[tuple[list[int], list[int]]],
    places: Sequence[int],
) -> dict[int, int]:
    """The master of each topic: bins go where most of their topics live; then to cheap masters.
    Beside those that a bin was planned for it may go wherever it fits."""
    masters = placement.world.masters
    here = [placement.where(Unit("processor", name)) for name in case.names]
    dearest = max([1.0, *(masters[at].opening_cost for at in places)])
    cost = [
        [
            masters[at].opening_cost / (dearest * (len(chosen) + 1))
            - sum(here[topic] == at for topic in topics)
            if at in group or case.fits(at, topics)
            else inf
            for at in places
        ]
        for topics, group in chosen
    ]
    return {
        topic: places[column]
        for row, column in enumerate(assigned(cost))
        for topic in chosen[row][0]
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


def moves_of(placement: Placement, case: Case, target: dict[int, int]) -> list[Move]:
    """The moves of topics, by number, that are not at their targets."""
    masters = placement.world.masters
    moves = []
    for number, at in sorted(target.items()):
        unit = Unit("processor", case.names[number])
        source = placement.where(unit)
        if source != at:
            place = None if source is None else masters[source].name
            why: Reason = "pin" if unit in placement.world.pins else "plan"
            moves.append(Move(unit, place, masters[at].name, reason=why))
    return moves
