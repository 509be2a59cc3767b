"""The highest load at which a measured ratio stays below 1, in few measurements; pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct

# The bracket around the answer, as a share of the load.
TOLERANCE: Final = 0.005
MOST_MEASUREMENTS: Final = 24
# After so many measurements within a bracket the next one halves it, whatever the line says.
HALVE_EVERY: Final = 4
# How far beyond the expected answer to measure, as a share of the way to it.
BEYOND: Final = 0.3
# A load below this share of the limit is taken to be none.
LEAST_SHARE: Final = 1e-3


class _End(Struct, frozen=True):
    """One end of the bracket. `slack` is 1 / ratio - 1: positive where the load is sustained."""

    load: float
    slack: float


def highest_load(
    ratio: Callable[[float], float],
    *,
    start: float,
    limit: float,
    tolerance: float = TOLERANCE,
) -> float:
    """Where `ratio`, which rises with the load, passes 1; 0 if it is above 1 at all loads.

    `limit` is a load at which it surely is above 1, `start` a first guess below. The answer is
    interpolated between two measured loads (or one and the limit) at most `tolerance` apart.
    Queueing times go about as 1 / (limit - load), so 1 / ratio is about linear in the load: false
    position on it takes three to five measurements.
    """
    low: _End | None = None
    high = _End(limit, -1.0)
    guess = start
    for count in range(1, MOST_MEASUREMENTS + 1):
        end = _End(guess, 1.0 / ratio(guess) - 1.0)
        if end.slack >= 0.0:
            low = end
        else:
            high = end
        if low is None:
            if guess < LEAST_SHARE * limit:
                return 0.0
            guess = _below(end, limit, tolerance)
            continue
        root = _crossing(low, high)
        if high.load - low.load <= tolerance * root:
            return root
        guess = (
            (low.load + high.load) / 2.0
            if count % HALVE_EVERY == 0
            else _beyond(low, high, tolerance)
        )
        guess = min(
            max(guess, low.load * (1.0 + tolerance / 4.0)), high.load * (1.0 - tolerance / 4.0)
        )
    return 0.0 if low is None else _crossing(low, high)


def _crossing(low: _End, high: _End) -> float:
    """Where the line through both ends crosses zero."""
    return low.load + (high.load - low.load) * low.slack / (low.slack - high.slack)


def _beyond(low: _End, high: _End, tolerance: float) -> float:
    """A little beyond the crossing as seen from the nearer end: so that both ends move."""
    root = _crossing(low, high)
    nearer = min(low.load, high.load, key=lambda load: abs(load - root))
    step = max(BEYOND * abs(root - nearer), tolerance / 3.0 * root)
    return root + math.copysign(step, root - nearer)


def _below(end: _End, limit: float, tolerance: float) -> float:
    """A load that should be sustained where `end` is not: along the line to the limit, with slack
    -1 there; a little further down, at most by half."""
    rise = max(1.0 + end.slack, 1e-9) / (limit - end.load)
    return max((end.load + end.slack / rise) * (1.0 - tolerance / 3.0), end.load / 2.0)
