"""Means over seeds with 95 % intervals (Student's t), and paired gains per seed; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final

from msgspec import Struct

CONFIDENCE: Final = 0.95


class Interval(Struct, frozen=True):
    """A mean over seeds, and half the width of its 95 % confidence interval; None of one seed."""

    mean: float
    half_width: float | None


class Spread(Struct, frozen=True):
    """The mean of a few values, and their range."""

    mean: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The spread of values too few for an interval."""
    return Spread(fmean(values), min(values), max(values))


def interval(values: Sequence[float]) -> Interval:
    """The mean of independent, roughly normal values, with its t-interval."""
    n = len(values)
    if n < 2:
        return Interval(fmean(values), None)
    return Interval(fmean(values), student_t(CONFIDENCE, n - 1) * stdev(values) / math.sqrt(n))


def gain_percent(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """How much `ours` exceed `theirs`, in percent; both from the same seeds in the same order."""
    return interval([100.0 * (a / b - 1.0) for a, b in zip(ours, theirs, strict=True)])


def student_t(confidence: float, degrees: int) -> float:
    """t such that |T| <= t with probability `confidence`, T of Student's t distribution."""
    from scipy.special import stdtrit  # slow to import; virtual time alone does without

    return float(stdtrit(degrees, (1.0 + confidence) / 2.0))
