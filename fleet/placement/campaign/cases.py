"""Configurations of a campaign: topics that share a master, each with its CPU time and rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from msgspec import Struct

SERVICES_MS: Final = (5.0, 10.0, 20.0, 40.0)
# Of all topics together, of the cores: from idle to what still has a latency.
LEAST_LOAD: Final = 0.15
# One topic's messages are processed one after another: it has a core at most.
MAX_OF_A_CORE: Final = 0.85
FEWEST: Final = 3.0  # messages a second


class Load(Struct, frozen=True):
    """A topic of a configuration: CPU time of a message, messages a second."""

    cpu_ms: float
    rate: float

    @property
    def cores(self) -> float:
        """CPU-seconds a second."""
        return self.cpu_ms * self.rate / 1e3


Case = tuple[Load, ...]


def cases(count: int, sizes: Sequence[int], cores: int, most_load: float, seed: int) -> list[Case]:
    """`count` configurations, the sizes in turn, with loads up to the share `most_load` of the
    cores. The same for the same seed."""
    draw = Random(seed)
    return [_case(draw, sizes[number % len(sizes)], cores, most_load) for number in range(count)]


def arrivals(case: Case, seconds: float, draw: Random) -> Iterator[tuple[float, int]]:
    """When messages of Poisson publishers are sent, in seconds, and the topic of each."""
    rates = [load.rate for load in case]
    total = sum(rates)
    at_s = draw.expovariate(total)
    while at_s < seconds:
        yield at_s, draw.choices(range(len(case)), rates)[0]
        at_s += draw.expovariate(total)


def _case(draw: Random, size: int, cores: int, most_load: float) -> Case:
    whole = draw.uniform(LEAST_LOAD, most_load) * min(cores, size)
    parts = [draw.uniform(0.25, 1.0) for _ in range(size)]
    found = []
    for part in parts:
        cpu_ms = draw.choice(SERVICES_MS)
        share = min(whole * part / sum(parts), MAX_OF_A_CORE)
        found.append(Load(cpu_ms, max(share * 1e3 / cpu_ms, FEWEST)))
    return tuple(found)
