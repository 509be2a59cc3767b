"""Confidence intervals of 95 % for rates and shares; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from fleet.simulation import statistics

TAIL: Final = 0.025  # on either side


class Interval(Struct, frozen=True):
    """An estimate and its interval of 95 % confidence."""

    found: float
    low: float
    high: float


def rate(events: int, exposure: float) -> Interval:
    """Events per unit of exposure: the exact interval of a Poisson count (Garwood 1936)."""
    from scipy.special import gammaincinv  # the testbed does without

    low = gammaincinv(events, TAIL) if events else 0.0
    high = gammaincinv(events + 1, 1.0 - TAIL)
    return Interval(events / exposure, float(low) / exposure, float(high) / exposure)


def share(hits: int, n: int) -> Interval:
    """Hits of n: Wilson's interval."""
    z, p = 1.959964, hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # Rounding must not exclude a share of 0 or 1.
    return Interval(p, min(p, max(0.0, middle - half)), max(p, min(1.0, middle + half)))


def mean_text(values: Sequence[float], digits: int) -> str:
    """The mean of a few runs as `shown`."""
    return shown(statistics.interval(values), digits)


def shown(mean: statistics.Interval, digits: int, sign: str = "") -> str:
    """A mean as a table shows it, with half of its t-interval: 7.45 ± 0.08."""
    half = "" if mean.half_width is None else f" ± {mean.half_width:.{digits}f}"
    return f"{mean.mean:{sign}.{digits}f}{half}".replace("-", "−")
