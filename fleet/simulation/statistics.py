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
    low, high = 0.0, 1.0
    while _within(high, degrees) < confidence:
        high *= 2.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return high


def _within(t: float, degrees: int) -> float:
    """P(|T| <= t) of `degrees` degrees of freedom (Abramowitz & Stegun 26.7.3-4)."""
    theta = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(theta)
    odd = degrees % 2
    term = math.sin(theta) * (cosine if odd else 1.0)
    total = 0.0 if degrees == 1 else term
    for i in range(2 + odd, degrees - 1, 2):
        term *= cosine * cosine * (i - 1) / i
        total += term
    return 2.0 / math.pi * (theta + total) if odd else total
