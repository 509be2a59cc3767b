"""Latency models as masters take them: a trained one from a file's bytes, or the untrained; and the
latencies that they give the topics of a world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from _core.colocation.model import Candidates
from _core.colocation.model import Colocation as LatencyModel
from _core.colocation.model_file import MAX_BYTES, ModelError, decode
from agent.placement.headroom import POISSON, keep_objectives
from agent.placement.world import Master, Objective, World

__all__ = ["LatencyModel", "ModelError", "Tail", "trained", "untrained"]

# One more is too many, and is refused.
MAX_READ_BYTES: Final = MAX_BYTES + 1
MAX_TOGETHER: Final = 32  # topics
OVERHEAD_S: Final = 0.0005


def trained(data: bytes) -> LatencyModel:
    """The model in a file that `fleet placement train` has written; ModelError in one line."""
    return decode(data)[1]


def untrained(cores: int) -> LatencyModel:
    """The latency of processors that share one queue by deadline, with a worker a core; a topic's
    messages go one at a time. Not trained: `fleet placement train` makes better ones."""
    return LatencyModel(
        shared=True, serial=True, cores=float(cores), interference=0.0, overhead_s=OVERHEAD_S
    )


class Tail:
    """A latency model: the trained one, or the untrained with the masters' cores; one set of
    numbers for each number of cores."""

    def __init__(self, world: World, model: LatencyModel | None = None) -> None:
        self._model = model
        self._names = {name: n for n, name in enumerate(world.topics)}
        self._topics = list(world.topics.values())
        self._goals = [each.objective for each in self._topics]
        # As planners take them, so that what they plan is admitted.
        self._rates = [POISSON.raised(world.processed(each.name)) for each in self._topics]
        self._by_cores: dict[int, Candidates] = {}

    def feasible(self, master: Master, topics: Sequence[str]) -> bool:
        """Whether all these keep their objectives on that master."""
        if len(topics) > MAX_TOGETHER:
            return False
        numbers = [self._names[each] for each in topics]
        return keep_objectives(self._of(master), self._goals, numbers)

    def latency_s(self, master: Master, topic: str) -> float:
        """The latency of a topic alone."""
        return self._of(master).latencies([self._names[topic]])[0]

    def _of(self, master: Master) -> Candidates:
        if (found := self._by_cores.get(master.cores)) is None:
            goals = [goal or Objective() for goal in self._goals]
            found = self._by_cores[master.cores] = Candidates(
                self._model or untrained(master.cores),
                [max(each.service_s, 1e-6) for each in self._topics],
                self._rates,
                [0] * len(self._topics),
                [each.seconds for each in goals],
                [each.quantile for each in goals],
            )
        return found
