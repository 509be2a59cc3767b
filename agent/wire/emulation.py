"""Emulated hardware: named profiles of a pod's service time, for fleets larger than their host.

The profiles are lognormal with the means of DSSP's testbed; the shape is this project's assumption,
set so that FIFO sustains what the paper reports (docs/decisions/0008-service-time-shape.md).
Emulated time comes on top of the real retrieval and is announced by the node in its hello.
"""

from __future__ import annotations

import math
import random
from typing import Final, NamedTuple


class HardwareProfile(NamedTuple):
    """Service time of one subtask: lognormal with `mean_s` seconds and log-scale `sigma`."""

    mean_s: float
    sigma: float


SIGMA: Final = 0.66
PROFILES: Final = {
    "pi4": HardwareProfile(0.062, SIGMA),
    "pi4-powersave": HardwareProfile(0.075, SIGMA),
    "pi3": HardwareProfile(0.093, SIGMA),
    "pi3-boxed": HardwareProfile(0.102, SIGMA),
}


def service_time_s(profile: HardwareProfile, node: str, seed: int | None) -> float:
    """Draw a service time in seconds. The same (profile, node, seed) always draws the same, so a
    run can be repeated under another policy; without a seed the draw is random."""
    draw = random.Random(f"{node}/{seed}") if seed is not None else random
    mu = math.log(profile.mean_s) - profile.sigma**2 / 2
    return draw.lognormvariate(mu, profile.sigma)
