"""Confidence intervals of 95 % for rates and shares; pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct

TAIL: Final = 0.025  # on either side


class Interval(Struct, frozen=True):
    """An estimate and its interval of 95 % confidence."""

    found: float
    low: float
    high: float


def rate(events: int, exposure: float) -> Interval:
    """Events per unit of exposure: the exact interval of a Poisson count (Garwood 1936)."""
    most = 10.0 * (events + 10)
    high = _solve(lambda mean: _at_most(events, mean) - TAIL, 0.0, most)
    low = 0.0
    if events:
        low = _solve(lambda mean: _at_most(events - 1, mean) - (1 - TAIL), 0.0, most)
    return Interval(events / exposure, low / exposure, high / exposure)


def share(hits: int, n: int) -> Interval:
    """Hits of n: Wilson's interval."""
    z, p = 1.959964, hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # Rounding must not exclude a share of 0 or 1.
    return Interval(p, min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half)))


def _at_most(events: int, mean: float) -> float:
    """P(N <= events) of a Poisson count with `mean`."""
    term = total = math.exp(-mean)
    for n in range(1, events + 1):
        term *= mean / n
        total += term
    return total


def _solve(falling: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a decreasing function."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2
