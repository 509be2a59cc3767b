"""Search for the highest load with a measured ratio below 1, in few measurements; pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from msgspec import Struct

# Width of the bracket around the answer, as a share of the load.
TOLERANCE: Final = 0.02
MAX_MEASUREMENTS: Final = 24
# After this many steps in a row that fall short within the bracket, it is halved.
MAX_SHORT: Final = 1
# Factor by which the step grows after one that fell short.
STRETCH: Final = 3
# How far beyond the expected answer to measure, as a share of the distance.
BEYOND: Final = 0.3
# A load below this share of the limit counts as none.
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
    """Load at which `ratio`, which rises with the load, passes 1; 0 if it is above 1 at all loads.

    `limit` is a load at which it surely is above 1, `start` a first guess below. The answer is
    interpolated between two measured loads (or one and the limit) at most `tolerance` apart.
    Queueing times go about as 1 / (limit - load), so 1 / ratio is about linear in the load: false
    position on it takes three to five measurements. A policy that demotes keeps the ratio just
    below 1 and then loses hold: there it is steps, each longer than the last, and then halves.
    """
    low: _End | None = None
    high = _End(limit, -1.0)
    guess = start
    short = 0  # number of consecutive answers on the same side
    sustained: bool | None = None  # the last load
    for _ in range(MAX_MEASUREMENTS):
        end = _End(guess, 1.0 / ratio(guess) - 1.0)
        short = short + 1 if sustained is (end.slack >= 0.0) else 0
        sustained = end.slack >= 0.0
        if sustained:
            low = end
        else:
            high = end
        if low is None:
            if guess < LEAST_SHARE * limit:
                return 0.0
            guess = _below(end, limit, tolerance * STRETCH**short)
            continue
        root = _crossing(low, high)
        if high.load - low.load <= tolerance * root:
            return root
        if short > MAX_SHORT and high.load < limit:
            guess = (low.load + high.load) / 2.0
        else:
            guess = _beyond(low, high, tolerance, STRETCH**short)
    return 0.0 if low is None else _crossing(low, high)


def _crossing(low: _End, high: _End) -> float:
    """Zero of the line through both ends."""
    return low.load + (high.load - low.load) * low.slack / (low.slack - high.slack)


def _beyond(low: _End, high: _End, tolerance: float, stretch: float) -> float:
    """A point slightly beyond the crossing as seen from the nearer end, within the bracket, so that
    both ends move."""
    root = _crossing(low, high)
    nearer = low if root - low.load < high.load - root else high
    step = stretch * max(BEYOND * abs(root - nearer.load), tolerance / 3.0 * root)
    inside = min(tolerance / 3.0 * root, (high.load - low.load) / 4.0)
    guess = root + math.copysign(step, root - nearer.load)
    return min(max(guess, low.load + inside), high.load - inside)


def _below(end: _End, limit: float, margin: float) -> float:
    """A load that should be sustained where `end` is not: along the line to the limit, with slack
    -1 there; a little further down, at most by half."""
    rise = max(1.0 + end.slack, 1e-9) / (limit - end.load)
    return max((end.load + end.slack / rise) * max(1.0 - margin / 3.0, 0.0), end.load / 2.0)
