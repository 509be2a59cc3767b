"""Finds the highest sustainable rate of each policy, and its latency curve; means over seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Final

import numpy as np
from msgspec import Struct

from agent.wire.base import Policy
from fleet.plan.case import NEXT_GUESS, Case, Point
from fleet.simulation.statistics import Interval, interval

CURVE_POINTS: Final = 12
CURVE_SEEDS: Final = 3


class Highest(Struct, frozen=True):
    """A policy's highest rate in queries/s; there, each class's percentile latency / SLO, the class
    that binds (its number), the busiest node (its number) and that node's utilisation."""

    policy: Policy
    rate_per_s: Interval
    ratios: tuple[float, ...]
    binding: int
    busiest: int
    utilisation: float


def highest_rate(
    cases: Sequence[Case], policy: Policy, start_per_s: float | None = None
) -> Highest:
    """Search with every seed; `start_per_s` is a guess."""
    points: list[Point] = []
    for case in cases:
        points.append(case.search(policy, start_per_s))
        start_per_s = NEXT_GUESS * points[-1].rate_per_s or start_per_s
    ratios = mean_ratios(points)
    return Highest(
        policy,
        interval([point.rate_per_s for point in points]),
        ratios,
        binding(ratios),
        Counter(point.busiest for point in points).most_common(1)[0][0],
        fmean(point.utilisation for point in points),
    )


def mean_ratios(points: Sequence[Point]) -> tuple[float, ...]:
    """Of each class, over seeds."""
    return tuple(map(fmean, zip(*(point.ratios for point in points), strict=True)))


def binding(ratios: Sequence[float]) -> int:
    """The class that is nearest to its SLO, or farthest beyond."""
    return max(range(len(ratios)), key=ratios.__getitem__)


class Curve(Struct, frozen=True):
    """The largest of the classes' percentile latency / SLO by rate."""

    policy: Policy
    rates_per_s: tuple[float, ...]
    ratios: tuple[float, ...]


def curve(cases: Sequence[Case], policy: Policy, most_per_s: float) -> Curve:
    """At rates up to `most_per_s`, the first seeds only."""
    rates_per_s = (np.arange(1, CURVE_POINTS + 1) / CURVE_POINTS * most_per_s).tolist()
    ratios = [
        max(mean_ratios([case.point(policy, rate) for case in cases[:CURVE_SEEDS]]))
        for rate in rates_per_s
    ]
    return Curve(policy, tuple(rates_per_s), tuple(ratios))
