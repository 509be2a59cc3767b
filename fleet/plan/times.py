"""Distributions of nodes' unloaded response times: measured per node or IAD, or assumed.

They are what the simulated pods take, and what fills the windows from which deadlines come.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from _core.simulator import ServiceTimes
from agent.wire.emulation import HardwareProfile
from fleet.plan.fleet import places
from fleet.plan.records import Measured
from fleet.simulation.layout import FleetLayout
from fleet.simulation.virtual import TESTBED_DELAYS

Floats: TypeAlias = npt.NDArray[np.float64]

# As many quantiles as a master's window has samples.
MAX_QUANTILES: Final = 10_000
# With fewer samples of its own a node is taken for a typical one of its IAD.
LEAST_SAMPLES: Final = 100
TAIL_FROM: Final = 0.9
# A pod takes some time, even if a clock saw none pass.
LEAST_S: Final = 1e-6
COMMUNICATION_S: Final = TESTBED_DELAYS.communication_s


class Times(Struct, frozen=True, eq=False):
    """A distribution: `quantiles_s` cut it into equally likely parts; below the first, q, it is
    uniform in [q/2, q], beyond the last an exponential of mean `tail_s` comes on top."""

    quantiles_s: Floats
    tail_s: float

    def simulated(self) -> ServiceTimes:
        """For the simulator."""
        return ServiceTimes.quantiles(self.quantiles_s.data, exponential_tail_s=self.tail_s)

    def at(self, shares: Floats) -> Floats:
        """Its quantile at each of `shares`, in (0, 1)."""
        n = len(self.quantiles_s)
        place = shares * (n + 1)
        known = np.concatenate(([self.quantiles_s[0] / 2.0], self.quantiles_s))
        beyond = np.maximum(place - n, 0.0)
        found: Floats = np.interp(place, np.arange(n + 1), known) - self.tail_s * np.log1p(-beyond)
        return found

    def window_s(self, samples: int = MAX_QUANTILES) -> Floats:
        """A window full of it: the middles of equally likely parts."""
        return self.at((np.arange(samples) + 0.5) / samples)

    @property
    def mean_s(self) -> float:
        """Its mean."""
        return float(self.window_s().mean())


def measured_times(samples_s: Sequence[float]) -> Times:
    """Samples as they are. The tail is the mean excess over their 90th percentile, the scale that
    the masters give to a tail that no window has seen (docs/understand/deadlines.md)."""
    ascending = np.maximum(np.sort(np.array(samples_s)), LEAST_S)
    start = np.quantile(ascending, TAIL_FROM)
    beyond = ascending[ascending > start]
    tail_s = float(beyond.mean() - start) if len(beyond) else 0.0
    if len(ascending) > MAX_QUANTILES:
        shares = np.arange(1, MAX_QUANTILES + 1) / (MAX_QUANTILES + 1)
        ascending = np.quantile(ascending, shares)
    return Times(ascending, tail_s)


def assumed_times(profile: HardwareProfile) -> Times:
    """A lognormal pod, and the testbed's communication."""
    normal = NormalDist()
    mu = math.log(profile.mean_s) - profile.sigma**2 / 2.0
    steps = [normal.inv_cdf(i / (MAX_QUANTILES + 1)) for i in range(1, MAX_QUANTILES + 1)]
    pod_s = np.exp(mu + profile.sigma * np.array(steps))
    # Mean excess of a lognormal over its last quantile.
    beyond = normal.cdf(profile.sigma - steps[-1]) / normal.cdf(-steps[-1])
    return Times(pod_s + COMMUNICATION_S, float(profile.mean_s * beyond - pod_s[-1]))


class NodeTimes(Struct, frozen=True, eq=False):
    """The distributions of a fleet: `kind` says which of `kinds` is a node's. Of how many nodes
    they were measured, and of how many taken from their IAD's pool; the others are `assumed`, told
    by profile."""

    kinds: tuple[Times, ...]
    kind: tuple[int, ...]
    measured: int
    pooled: int
    assumed: dict[str, int]


def node_times(
    plan: FleetLayout, measured: Measured, profiles: Mapping[str, HardwareProfile]
) -> NodeTimes:
    """Measured where there are `LEAST_SAMPLES`, else those of the IAD together, else the profile's.

    `profiles` has every profile that a node of the plan may have.
    """
    pools: dict[str, list[float]] = {iad.name: [] for iad in plan.iads}
    for (iad, _), samples_s in measured.unloaded_s.items():
        pools.setdefault(iad, []).extend(samples_s)
    sources = []
    for (iad, node), planned in zip(places(plan), plan.nodes, strict=True):
        if len(measured.unloaded_s.get((iad, node), ())) >= LEAST_SAMPLES:
            sources.append(("node", iad, node))
        elif len(pools[iad]) >= LEAST_SAMPLES:
            sources.append(("iad", iad, ""))
        else:
            sources.append(("profile", planned.profile, ""))

    def made(source: str, name: str, node: str) -> Times:
        if source == "profile":
            return assumed_times(profiles[name])
        return measured_times(measured.unloaded_s[name, node] if node else pools[name])

    numbers = {source: number for number, source in enumerate(dict.fromkeys(sources))}
    count = Counter(source for source, _, _ in sources)
    return NodeTimes(
        tuple(made(*source) for source in numbers),
        tuple(numbers[source] for source in sources),
        count["node"],
        count["iad"],
        dict(Counter(name for source, name, _ in sources if source == "profile")),
    )
