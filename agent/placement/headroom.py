"""Admission by a latency model, the same for live masters and planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from _core.colocation.model import Candidates
from agent.placement.world import Objective


class Headroom(Struct, frozen=True):
    """How much larger than told rates are taken to be: by this share, and where arrivals are
    Poisson by so many standard deviations of what comes in a window."""

    share: float = 0.0
    deviations: float = 0.0
    window_s: float = 120.0

    def raised(self, rate: float, publishers: int = 0) -> float:
        """The rate of a topic with headroom; `publishers` that send periodically, 0: Poisson."""
        by_chance = 0.0 if publishers else (rate / self.window_s) ** 0.5
        return rate * (1.0 + self.share) + self.deviations * by_chance

    def part(self, of: float) -> Headroom:
        """This part of the headroom."""
        return Headroom(self.share * of, self.deviations * of, self.window_s)


# By `fleet lab placement-topics` with other seeds than those that it reports: with less, more
# topics miss their objectives than the goals allow.
PERIODIC: Final = Headroom(0.02)
POISSON: Final = Headroom(0.0, 2.25)
NONE: Final = Headroom()


def keep_objectives(
    model: Candidates, goals: Sequence[Objective | None], topics: Sequence[int]
) -> bool:
    """Whether these topics, by their numbers, keep their objectives together. One without an
    objective takes its time from the others, and has nothing to keep."""
    if model.feasible(topics):
        return True
    wanted = [goals[number] for number in topics]
    return None in wanted and all(
        goal is None or latency_s <= goal.seconds
        for goal, latency_s in zip(wanted, model.latencies(topics), strict=True)
    )
