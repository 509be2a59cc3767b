"""Hardware emulation: named profiles of a pod's service time, for fleets larger than their host.

The profiles are lognormal with the means of DSSP's testbed; the shape is this project's assumption,
chosen so that FIFO sustains the load that the paper reports
(docs/decisions/0008-service-time-shape.md). "<name>-sized" has the same mean, but most of its
variation comes from the length of the request's window. Emulated time is added to the real
retrieval and announced in the node's hello.
"""

from __future__ import annotations

import math
import random
from typing import Final, NamedTuple


class HardwareProfile(NamedTuple):
    """Service time of one subtask: lognormal with `mean_s` seconds and log-scale `sigma`.

    A share `by_size` of it, 0..1, is proportional to the window's length, up to `MAX_WINDOW_S`;
    `mean_s` is then the mean over windows of uniform length, and `sigma` that of the noise.
    """

    mean_s: float
    sigma: float
    by_size: float = 0.0

    def expected_s(self, window_s: float) -> float:
        """The mean service time for a window of this length, in seconds."""
        longest = min(window_s, MAX_WINDOW_S) / MAX_WINDOW_S
        return self.mean_s * ((1.0 - self.by_size) + self.by_size * 2.0 * longest)


MAX_WINDOW_S: Final = 10_800.0
SIGMA: Final = 0.66
# Sigma of the noise around the size-dependent part, so that FIFO sustains the same load as with
# SIGMA.
SIGMA_SIZED: Final = 0.53
BY_SIZE: Final = 0.8
SIZED: Final = "-sized"
_BLIND: Final = {
    "pi4": HardwareProfile(0.062, SIGMA),
    "pi4-powersave": HardwareProfile(0.075, SIGMA),
    "pi3": HardwareProfile(0.093, SIGMA),
    "pi3-boxed": HardwareProfile(0.102, SIGMA),
}
PROFILES: Final = _BLIND | {
    f"{name}{SIZED}": HardwareProfile(profile.mean_s, SIGMA_SIZED, BY_SIZE)
    for name, profile in _BLIND.items()
}


def service_time_s(profile: HardwareProfile, node: str, seed: int | None, window_s: float) -> float:
    """Draw the service time, in seconds, of a request for a window of `window_s` seconds. The same
    (profile, node, seed, window_s) always draws the same, so a run can be repeated under another
    policy; without a seed the draw is random."""
    draw = random.Random(f"{node}/{seed}") if seed is not None else random
    mu = math.log(profile.expected_s(window_s)) - profile.sigma**2 / 2
    return draw.lognormvariate(mu, profile.sigma)
