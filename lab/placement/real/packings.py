"""Random requests, their packings by each planner, and the sets of topics that are to be run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Final

from msgspec import Struct

from _core.colocation.model import Colocation
from agent.placement.headroom import POISSON
from fleet.placement.campaign.cases import FEWEST, SERVICES_MS, Case, Load
from fleet.placement.columns import fewest
from fleet.placement.latency import Topic
from lab.placement.real.outcomes import QUANTILE, TAU_S
from lab.placement.topics.packed import PLANNERS, ask

# The paper's k.
MOST: Final = 6
# A topic's load in cores, so that some six of them fill a master on two.
LEAST_SHARE: Final = 0.06
MAX_SHARE: Final = 0.45
# The exact planner may take so long for a request.
EXACT_S: Final = 4.0
EXACT: Final = "exact"
# Of sets that a model is trained on: topics, and load as a share of all cores. They go beyond what
# a master carries: packings end there, and where no run was the formulas are believed.
SIZES: Final = (3, 4, 5, 6)
LEAST_LOAD: Final = 0.55
MAX_LOAD: Final = 0.95

Set = tuple[int, tuple[int, ...]]


class Packing(Struct, frozen=True):
    """A planner's sets of a request's topics, both by their numbers."""

    request: int
    planner: str
    bins: tuple[tuple[int, ...], ...]

    @property
    def sets(self) -> list[Set]:
        """With the request, for topics of several requests have the same numbers."""
        return [(self.request, chosen) for chosen in self.bins]


def request(count: int, draw: Random) -> list[Topic]:
    """Topics to place."""
    return [_topic(draw) for _ in range(count)]


def training(count: int, cores: int, draw: Random) -> list[list[Topic]]:
    """Sets of such topics, around what a master carries, the sizes in turn."""
    found: list[list[Topic]] = []
    while len(found) < count:
        some = request(SIZES[len(found) % len(SIZES)], draw)
        if LEAST_LOAD <= sum(topic.load for topic in some) / cores <= MAX_LOAD:
            found.append(some)
    return found


def case_of(topics: Iterable[Topic]) -> Case:
    """The same for a campaign."""
    return tuple([Load(topic.service_s * 1e3, topic.rate) for topic in topics])


def packings(
    model: Colocation, requests: Sequence[Sequence[Topic]], say: Callable[[str], None]
) -> list[Packing]:
    """Each request packed by each planner, all with the headroom that masters have."""
    found = []
    for number, topics in enumerate(requests):
        problem = ask(model, topics, MOST, POISSON)
        bins = {name: plan(problem) for name, plan in PLANNERS.items()}
        bins[EXACT] = fewest(problem, EXACT_S).bins
        for name, each in bins.items():
            sets = sorted(tuple(sorted(chosen)) for chosen in each if chosen)
            found.append(Packing(number, name, tuple(sets)))
        counts = ", ".join(f"{name} {len(each)}" for name, each in bins.items())
        say(f"{len(topics)} topics on brokers: {counts}")
    return found


def distinct(found: Iterable[Packing]) -> list[Set]:
    """The sets of all packings, each once."""
    return list(dict.fromkeys(each for packing in found for each in packing.sets))


def _topic(draw: Random) -> Topic:
    cpu_ms = draw.choice(SERVICES_MS)
    rate = max(draw.uniform(LEAST_SHARE, MAX_SHARE) * 1e3 / cpu_ms, FEWEST)
    return Topic(cpu_ms / 1e3, rate, objective_s=TAU_S, quantile=QUANTILE)
