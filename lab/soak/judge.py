"""Whether something grows: the slope of a series, with its interval; pure.

Measurements of one process follow each other closely, and do not err independently. So a series is
cut into equal parts of time, and the means of the parts are regressed on time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final, Literal

from msgspec import Struct

from fleet.simulation.statistics import student_t

DAY_S: Final = 86_400.0
CONFIDENCE: Final = 0.95
PARTS: Final = 20
FEWEST_PARTS: Final = 5
# The first half of a run warms up, at most so much: caches of nodes take that long to fill.
WARM_UP_S: Final = 3_600.0
# Nothing is said against a process by less than this: caches fill, and SQLite's files reach their
# size, within half an hour.
SHORTEST_S: Final = 1_800.0

Verdict = Literal["passed", "failed", "not shown"]


class Slope(Struct, frozen=True):
    """Growth in percent of the mean a day, and its interval of 95 % confidence."""

    percent_a_day: float
    low: float
    high: float


def warm(points: Sequence[tuple[float, float]], run_s: float) -> list[tuple[float, float]]:
    """What was measured after the warm-up of a run of so many seconds."""
    from_s = min(WARM_UP_S, run_s / 2.0)
    return [(at_s, value) for at_s, value in points if at_s >= from_s]


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """The least-squares slope of values at times, in seconds; None of too few, or of zeros. A
    series that never changes grows by exactly nothing. O(n)."""
    means = _parts(points)
    n = len(means)
    if n < FEWEST_PARTS or not (level := fmean(value for _, value in means)):
        return None
    middle = fmean(at for at, _ in means)
    squares = sum((at - middle) ** 2 for at, _ in means)
    found = sum((at - middle) * (value - level) for at, value in means) / squares
    rest = sum((value - level - found * (at - middle)) ** 2 for at, value in means)
    half = student_t(CONFIDENCE, n - 2) * math.sqrt(rest / (n - 2) / squares)
    scale = 100.0 * DAY_S / level
    return Slope(found * scale, (found - half) * scale, (found + half) * scale)


def _parts(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    if not points or points[-1][0] <= points[0][0]:
        return []
    first_s, length_s = points[0][0], (points[-1][0] - points[0][0]) / PARTS
    parts: dict[int, list[tuple[float, float]]] = {}
    for at_s, value in points:
        part = min(PARTS - 1, int((at_s - first_s) / length_s))
        parts.setdefault(part, []).append((at_s, value))
    return [(fmean(at for at, _ in each), fmean(v for _, v in each)) for each in parts.values()]


def judge(found: Slope | None, lasted_s: float, limit_percent: float) -> Verdict:
    """Passed if the whole interval is within the limit, failed if all of it is beyond and the
    series was long enough; else nothing is shown, as of a short run."""
    if found is None:
        return "not shown"
    if found.high <= limit_percent:
        return "passed"
    return "failed" if found.low > limit_percent and lasted_s >= SHORTEST_S else "not shown"
