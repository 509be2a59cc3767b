"""The fewest masters by column generation, and a lower bound.

A column is a feasible set. The linear program covers each topic once at the price 1 a set; its
duals are what a topic is worth, and a set worth more than 1 is a column that helps. If no set is
worth more than v, then LP / max(1, v) bounds every packing from below (Farley). The search for v
extends feasible sets only, so the bound is proven where every part of a feasible set is feasible.
The formulas of the latency model are such; its trees need not be. HiGHS solves the linear programs
and, over the columns found, the integer one.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from math import ceil
from typing import Any, Final

from msgspec import Struct

from fleet.placement.latency import Feasibility
from fleet.placement.packing import Bins, Problem, balanced, ffd, first_fit, largest_sets, lfs

TINY: Final = 1e-6
COLUMNS_A_ROUND: Final = 40
TRIES: Final = 90  # random fillings a round
PATIENCE: Final = 8  # rounds in which the program's value must fall by STALLED
STALLED: Final = 0.01


class Exact(Struct, frozen=True):
    """A packing, the least number of masters that any has, and the number of columns made."""

    bins: Bins
    bound: int
    columns: int

    @property
    def proven(self) -> bool:
        """Whether no packing has fewer masters."""
        return len(self.bins) <= self.bound


def fewest(
    problem: Problem, seconds: float = 8.0, clock: Callable[[], float] = time.monotonic
) -> Exact:
    """The fewest sets, as far as `seconds` reach; never more than the other planners have."""
    if not problem.topics:
        return Exact([], 0, 0)
    end = clock() + seconds
    most, feasible = problem.most, problem.feasible
    columns = _Columns(problem)
    columns.add([(topic,) for topic in problem.topics])
    known = [ffd(problem), balanced(problem), lfs(problem)]
    known.append(largest_sets(problem.slowest_first(), most, feasible))
    for bins in (*known, first_fit(problem.heaviest_first()[::-1], most, feasible)):
        columns.add(map(tuple, bins))
    best = min(known, key=len)
    bound = ceil(len(problem.topics) / most)
    while bound < len(best) and clock() < end:
        value, worth = columns.improve(lambda: clock() < end - 0.4 * seconds)
        least = ceil(value - TINY)
        if least < len(best):
            found = _partition(columns.whole(max(0.4 * (end - clock()), 0.1)), feasible)
            best = min(best, found or best, key=len)
        # If no set is worth more than this, no packing has fewer masters than `least`.
        enough = max(value / (least - 1.0 + TINY), 1.0 + TINY)
        dear, complete = columns.dearest(worth, enough, lambda: clock() < end)
        if complete and not dear:
            bound = max(bound, least)
        if not columns.add(dear):
            break
    return Exact(best, bound, len(columns.sets))


def exact(problem: Problem) -> Bins:
    """`fewest` as a planner."""
    return fewest(problem).bins


class _Columns:
    """The columns so far, and the questions about them."""

    def __init__(self, problem: Problem) -> None:
        self.topics = problem.topics
        self.load = problem.load
        self.most = problem.most
        self.feasible = problem.feasible
        self.row = {topic: number for number, topic in enumerate(problem.topics)}
        self.sets: dict[tuple[int, ...], None] = {}
        self.draw = random.Random(1)

    def add(self, sets: Iterable[tuple[int, ...]]) -> bool:
        """Whether any of them is new."""
        before = len(self.sets)
        self.sets.update(dict.fromkeys(tuple(sorted(each)) for each in sets))
        return len(self.sets) > before

    def improve(self, in_time: Callable[[], bool]) -> tuple[float, dict[int, float]]:
        """Add sets until that helps no longer; the linear program's value and what topics are
        worth."""
        values: list[float] = []
        while True:
            value, worth = self.relaxed()
            values.append(value)
            stalled = len(values) > PATIENCE and value > values[-PATIENCE] - STALLED
            if stalled or not in_time() or not self.add(self.greedy(worth)):
                return value, worth

    def relaxed(self) -> tuple[float, dict[int, float]]:
        """The linear program's value, and what each topic is worth."""
        from scipy.optimize import linprog

        solved = linprog(
            [1.0] * len(self.sets),
            A_ub=-self._matrix(),
            b_ub=[-1.0] * len(self.topics),
            method="highs",
        )
        worth = -solved.ineqlin.marginals
        return float(solved.fun), {t: max(float(worth[n]), 0.0) for t, n in self.row.items()}

    def whole(self, seconds: float) -> list[tuple[int, ...]]:
        """The fewest of the columns that cover all topics, as far as HiGHS gets in the time."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp

        count = len(self.sets)
        solved = milp(
            np.ones(count),
            integrality=np.ones(count),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(self._matrix(), lb=1.0),
            options={"time_limit": seconds},
        )
        if solved.x is None:
            return []
        return [each for each, x in zip(self.sets, solved.x, strict=True) if x > 0.5]

    def _matrix(self) -> Any:
        from scipy.sparse import csc_array

        rows = [self.row[topic] for each in self.sets for topic in each]
        ends = [0, *accumulate(len(each) for each in self.sets)]
        return csc_array(([1.0] * len(rows), rows, ends), shape=(len(self.topics), len(self.sets)))

    def dearest(
        self, worth: dict[int, float], enough: float, in_time: Callable[[], bool]
    ) -> tuple[list[tuple[int, ...]], bool]:
        """Feasible sets that are worth more than `enough`, none if there is none, and whether the
        search came to its end. Depth first by falling worth; what fits and is dearest bounds."""
        best = enough
        found: list[tuple[int, ...]] = []
        complete = True

        def grow(prefix: tuple[int, ...], value: float, rest: list[int]) -> None:
            nonlocal best, complete
            room = self.most - len(prefix)
            complete = complete and in_time()
            if not complete or value + sum(worth[t] for t in rest[:room]) <= best:
                return
            fit = [topic for topic in rest if self.feasible((*prefix, topic))]
            sums = [0.0, *accumulate(worth[topic] for topic in fit)]
            for place, topic in enumerate(fit):
                if value + sums[min(place + room, len(fit))] - sums[place] <= best:
                    return
                longer = (*prefix, topic)
                if value + worth[topic] > best:
                    best = value + worth[topic]
                    found.append(tuple(sorted(longer)))
                if room > 1:
                    grow(longer, value + worth[topic], fit[place + 1 :])

        grow((), 0.0, sorted((t for t in self.topics if worth[t] > TINY), key=lambda t: -worth[t]))
        return found, complete

    def greedy(self, worth: dict[int, float]) -> list[tuple[int, ...]]:
        """Sets worth more than 1, the dearest of many that are filled first fit in random orders
        which favour what is dear, or dear for its load, and then improved by swaps."""
        topics = [topic for topic in self.topics if worth[topic] > TINY]
        sets: dict[tuple[int, ...], float] = {}
        for turn in range(TRIES):
            power = turn % 3 / 2.0
            key = {
                t: worth[t] / max(self.load[t], TINY) ** power * self.draw.lognormvariate(0.0, 0.4)
                for t in topics
            }
            order = sorted(topics, key=key.__getitem__, reverse=True)
            chosen: list[int] = []
            for topic in order:
                if len(chosen) == self.most:
                    break
                if self.feasible([*chosen, topic]):
                    chosen.append(topic)
            self._swap(chosen, topics, worth)
            value = sum(worth[topic] for topic in chosen)
            if value > 1.0 + TINY:
                sets[tuple(sorted(chosen))] = value
        return sorted(sets, key=lambda each: -sets[each])[:COLUMNS_A_ROUND]

    def _swap(self, chosen: list[int], topics: Sequence[int], worth: dict[int, float]) -> None:
        """Replace topics of the set by dearer ones that fit, once round."""
        for place in range(len(chosen)):
            rest = chosen[:place] + chosen[place + 1 :]
            for topic in topics:
                dearer = worth[topic] > worth[chosen[place]] + TINY
                if dearer and topic not in rest and self.feasible([*rest, topic]):
                    chosen[place] = topic


def _partition(cover: Sequence[tuple[int, ...]], feasible: Feasibility) -> Bins | None:
    """The cover with each topic once; None where a set would not stay feasible without one, which
    a learned model does not rule out."""
    bins = [list(each) for each in cover]
    times = Counter(topic for each in bins for topic in each)
    for topic in [topic for topic, count in times.items() if count > 1]:
        for each in sorted((each for each in bins if topic in each), key=len, reverse=True):
            rest = [other for other in each if other != topic]
            if times[topic] > 1 and (not rest or feasible(rest)):
                each.remove(topic)
                times[topic] -= 1
        if times[topic] > 1:
            return None
    return [each for each in bins if each]
