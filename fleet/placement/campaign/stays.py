"""From records to runs: intervals in which the same topics shared a master.

A stay is a row of intervals with the same topics. The first of them does not count, because queues
were still settling. All others are runs of one configuration, its rates and CPU times those of the
whole stay: so the second run of a stay is a replicate of the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from _core.colocation.model_file import Discipline
from fleet.placement.latency import Run, Topic

# Messages of each topic, at least: fewer have no 90th percentile.
FEWEST: Final = 10
# Between the end of an interval and the start of the next.
GAP_S: Final = 1.0
OBJECTIVE_S: Final = 1.0


class Processed(Struct, frozen=True):
    """A topic's record of one interval, as far as it is about latency."""

    topic: str
    arrived: int
    processed: int
    cpu_ms: float | None
    latency_ms: float | None  # the quantile of the model
    slo_ms: float | None


class Interval(Struct, frozen=True):
    """All records of one master that began together, in the order of their topics."""

    iad: str
    start_s: float
    seconds: float
    cores: int
    workers: int
    topics: tuple[Processed, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The topics' names."""
        return tuple([each.topic for each in self.topics])

    @property
    def discipline(self) -> Discipline:
        """A worker a core is one queue for all; more workers share the cores as threads do."""
        return "shared-queue" if self.workers <= self.cores else "thread-a-topic"

    @property
    def counts(self) -> bool:
        """Whether there are latencies of all topics."""
        return all(
            each.processed >= FEWEST and (each.cpu_ms or 0.0) > 0.0 and (each.latency_ms or 0.0) > 0
            for each in self.topics
        )


def runs_of(intervals: Iterable[Interval], quantile: float) -> list[list[Run]]:
    """The runs of each stay, the stays in the order of time; a stay has one at least."""
    found = []
    for stay in _stays(intervals):
        counted = [each for each in stay[1:] if each.counts]
        # A short rest, before a processor came or went, has less in it than the others.
        longest_s = max((each.seconds for each in counted), default=0.0)
        counted = [each for each in counted if 2 * each.seconds > longest_s]
        if counted:
            topics = _topics(counted, quantile)
            found.append(
                [
                    Run(topics, tuple([each.latency_ms / 1e3 for each in one.topics]))  # type: ignore[operator]  # it counts
                    for one in counted
                ]
            )
    return found


def _stays(intervals: Iterable[Interval]) -> list[list[Interval]]:
    ordered = sorted(intervals, key=lambda each: (each.iad, each.start_s))
    stays = [ordered[:1]] if ordered else []
    for before, each in pairwise(ordered):
        end_s = before.start_s + before.seconds
        same = (before.iad, before.names, before.workers) == (each.iad, each.names, each.workers)
        if same and 0.0 <= each.start_s - end_s + GAP_S <= 2 * GAP_S:
            stays[-1].append(each)
        else:
            stays.append([each])
    return stays


def _topics(stay: Sequence[Interval], quantile: float) -> tuple[Topic, ...]:
    seconds = sum(each.seconds for each in stay)
    found = []
    for rows in zip(*(each.topics for each in stay), strict=True):
        processed = sum(row.processed for row in rows)
        cpu_ms = sum((row.cpu_ms or 0.0) * row.processed for row in rows) / processed
        slo_ms = rows[-1].slo_ms
        found.append(
            Topic(
                cpu_ms / 1e3,
                sum(row.arrived for row in rows) / seconds,
                objective_s=OBJECTIVE_S if slo_ms is None else slo_ms / 1e3,
                quantile=quantile,
            )
        )
    return tuple(found)
