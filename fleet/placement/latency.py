"""Interface of latency models: prediction for co-located topics, as planners use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from _core.colocation.model import Candidates, Colocation
from agent.placement.headroom import NONE, Headroom


class Topic(Struct, frozen=True):
    """A topic as a latency model sees it."""

    service_s: float  # CPU time of a message
    rate: float  # messages a second of all publishers
    publishers: int = 0  # that publish periodically; 0: arrivals are Poisson
    objective_s: float = 1.0
    quantile: float = 0.9

    @property
    def load(self) -> float:
        """CPU-seconds a second."""
        return self.service_s * self.rate


class Run(Struct, frozen=True):
    """A measured configuration: topics that shared a master, and the quantile of each one's
    latencies in s."""

    topics: tuple[Topic, ...]
    latency_s: tuple[float, ...]


class LatencyModel(Protocol):
    """Predicts latencies of topics that share a master."""

    def latencies(self, topics: Sequence[Topic]) -> list[float]:
        """The quantile (s) of each topic's latencies, in the order of the topics."""


class Feasibility(Protocol):
    """The planners' question, about topics by their numbers."""

    def __call__(self, topics: Sequence[int], /) -> bool:
        """Whether each topic keeps its objective when these share a master."""


class ColocationModel:
    """A `Colocation` as a LatencyModel."""

    def __init__(self, model: Colocation) -> None:
        self.model = model

    def latencies(self, topics: Sequence[Topic]) -> list[float]:
        """See LatencyModel."""
        return candidates(self.model, topics).latencies(range(len(topics)))


def candidates(model: Colocation, topics: Sequence[Topic], headroom: Headroom = NONE) -> Candidates:
    """The topics for `model`, with headroom on their rates."""
    return Candidates(
        model,
        [topic.service_s for topic in topics],
        [headroom.raised(topic.rate, topic.publishers) for topic in topics],
        [topic.publishers for topic in topics],
        [topic.objective_s for topic in topics],
        [topic.quantile for topic in topics],
    )
