"""Percentiles and rates as people read them."""

from __future__ import annotations

import math

# From here on, rates are written without fractions, and in groups of three digits.
LARGE = 10_000.0


def percentile_in_words(percentile: float) -> str:
    """``99``, ``99.75``, ``99.9999``: two digits of the distance to 100 or to 0, so that it never
    becomes one of these."""
    distance = min(percentile, 100.0 - percentile)
    if distance <= 0.0:
        return f"{percentile:g}"
    decimals = max(2, 1 - math.floor(math.log10(distance)))
    return f"{percentile:.{decimals}f}".rstrip("0").rstrip(".")


def rate_in_words(rate_per_s: float) -> str:
    """``20``, ``0.25``, ``200,000``."""
    return f"{rate_per_s:.4g}" if rate_per_s < LARGE else f"{rate_per_s:,.0f}"
