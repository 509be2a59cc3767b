"""Feedback: when topics miss their objectives, the fewest moves that mend that.

The CPU times and rates are those that masters measured, and so are the latencies that say which
masters are too full: a model that takes one for feasible is not believed against them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.placement.headroom import POISSON
from agent.placement.latency_model import untrained
from agent.placement.moves import Move, check_plan
from agent.placement.view import View
from agent.placement.world import PlacementError, Unit
from fleet.placement.processors import Case, Packing, moves_of
from fleet.placement.repair import repaired

# Of the headroom, for topics that stay where they are: who stays is measured, who comes predicted.
KEEP: Final = 1 / 3


class Missed(Struct, frozen=True):
    """A topic whose measured latency is longer than its objective."""

    topic: str
    iad: str
    latency_ms: float
    percentile: float
    slo_ms: float

    def __str__(self) -> str:
        return (
            f"topic {self.topic} misses its objective at {self.iad}: p{self.percentile:g} = "
            f"{self.latency_ms:.0f} ms of {self.slo_ms:g} ms"
        )


def missed(view: View) -> list[Missed]:
    """The topics that miss their objectives where they live, as measured, and that another place
    may help: those that would miss them on a master of their own are not among them."""
    found = []
    for iad, facts in view.facts.items():
        for each in facts.topics:
            unit, goal = Unit("processor", each.name), each.slo
            if goal is None or each.latency_ms is None or each.latency_ms <= goal.latency_ms:
                continue
            if view.where(unit) == iad and not view.infeasible(unit):
                latency_ms, percentile = each.latency_ms, goal.percentile
                found.append(Missed(each.name, iad, latency_ms, percentile, goal.latency_ms))
    return sorted(found, key=lambda each: (-each.latency_ms / each.slo_ms, each.topic))


class Repair:
    """The planner `repair`: of each master where topics miss objectives, by measurement or by the
    model, the fewest topics go, to masters in use if those take them. Nothing else moves."""

    def __init__(self, view: View) -> None:
        cores = min((each.cores for each in view.world.masters), default=1)
        self._packing = Packing(view.model or untrained(cores), delegate=view.delegate)
        self._placement = view.placement
        self._missing = {view.world.number[each.iad] for each in missed(view)}

    def plan(self) -> list[Move]:
        """The moves; none if all objectives are kept. PlacementError if no master takes what has to
        go."""
        case, keep, fixed = self._cases()
        # What lives at the delegate or at a closed master is left there.
        places = case.usual
        bins = [self._topics(case, at) for at in places]
        now = [set(each) for each in bins]

        def kept_by(which: Case, place: int, topics: Sequence[int]) -> bool:
            at = places[place]
            measured = at not in self._missing or now[place] != set(topics)
            return measured and which.fits(at, topics)

        def fits(place: int, topics: Sequence[int]) -> bool:
            return place < len(places) and kept_by(case, place, topics)

        after, moved = repaired(
            bins, case.load, fits, lambda place, topics: kept_by(keep, place, topics), fixed
        )
        target: dict[int, int] = {}
        left: list[int] = []
        for place, topics in enumerate(after):
            came = [number for number in topics if number in moved]
            if came and fits(place, topics):
                target.update(dict.fromkeys(came, places[place]))
            else:
                left += came
        target.update(self._delegated(case, left))
        return check_plan(self._placement, moves_of(self._placement, case, target))

    def _cases(self) -> tuple[Case, Case, frozenset[int]]:
        """Limits by which topics may come to a master, or stay, and the topics that stay where
        they are. Those whose objectives no master keeps have none here, so that they do not drive
        others away."""
        case = self._packing.case(self._placement)
        hopeless = [n for n in case.numbers if not any(case.fits(at, [n]) for at in case.open)]
        goals = [None if n in hopeless else goal for n, goal in enumerate(case.goals)]
        keep = self._packing.case(self._placement, POISSON.part(KEEP))
        fixed = {number for kept in case.kept.values() for number in kept}
        return (
            replace(case, goals=goals),
            replace(keep, goals=goals),
            frozenset(fixed.union(hopeless)),
        )

    def _delegated(self, case: Case, left: list[int]) -> dict[int, int]:
        """The topics that no master takes, at the delegate."""
        if not left:
            return {}
        at = next((at for at in case.open if at not in case.usual), None)
        if at is None or not case.fits(at, [*self._topics(case, at), *left]):
            raise PlacementError(f"no master has room for processor {case.names[left[0]]}")
        return dict.fromkeys(left, at)

    def _topics(self, case: Case, at: int) -> list[int]:
        here = self._placement.accounts[at].processors
        return [number for number, name in enumerate(case.names) if name in here]
