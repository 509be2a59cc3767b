"""Bursts of a few queries: the fewest that can be late if everything is known, by exact search.

Nodes affect each other only in which queries are given up. A set of queries is in time if each
node can serve its members in time, one after the other; that is dynamic programming over subsets.
What is given up is served at the end, where it delays nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from _core.simulator import ServiceTimes, simulate_nodes
from lab.simulation.contenders import CONTENDERS
from lab.simulation.run import unloaded_s
from lab.simulation.table_v import CLASSES, COMMUNICATION_S, EXECUTION_S, Draw, Floats, Size, draw

Bools = npt.NDArray[np.bool_]

# One IAD as the middle one of the smallest fleet, so that queries share nodes.
SIZE: Final = Size(1, 10)
QUERIES: Final = 12
# A burst of 0.6 s, and nothing after it. So few queries are late only where nodes are slow: so many
# times as slow as the paper's.
LOAD_PER_S: Final = 20.0
SLOWER: Final = 2.5


class Burst(Struct, frozen=True):
    """A burst, drawn: [subtasks] execution and communication times in s, and x_u of each task."""

    draw: Draw
    execution_s: Floats
    communication_s: Floats
    unloaded_s: Floats

    @property
    def due_s(self) -> Floats:
        """[queries] When a query's last subtask has to end; a query is one task here."""
        arrived_s = self.draw.unit_arrival / LOAD_PER_S
        due_s: Floats = arrived_s + self.draw.budget_s - self.draw.aggregation_s
        return due_s


def burst(seed: int, queries: int = QUERIES, size: Size = SIZE) -> Burst:
    """A burst of Table V's queries; `size` has one IAD, so that each query is one task."""
    drawn = draw(size, reading="query", out_of_range="clip", queries=queries, seed=seed)
    random = np.random.default_rng((seed, *b"burst"))
    return Burst(
        drawn,
        SLOWER * random.exponential(EXECUTION_S, drawn.subtasks),
        SLOWER * random.exponential(COMMUNICATION_S, drawn.subtasks),
        SLOWER * unloaded_s(drawn, seed),
    )


def late(case: Burst, name: str) -> int:
    """How many queries are late under a contender without learnt advances."""
    contender = CONTENDERS[name]
    drawn = case.draw
    known_s = contender.known * case.execution_s
    unknown_s = SLOWER * ((1.0 - contender.known) * EXECUTION_S + COMMUNICATION_S)
    run = simulate_nodes(
        drawn.trace(LOAD_PER_S),
        [
            ServiceTimes.given(
                (case.execution_s + case.communication_s).data, (known_s + unknown_s).data
            )
        ],
        np.zeros(drawn.size.nodes, dtype=np.int32).data,
        policy=contender.policy,
        deadline_s=(drawn.enqueued_s(LOAD_PER_S) + drawn.budget_s - case.unloaded_s).data,
        demotion="never" if contender.demotion == "never" else "node",
    )
    slo_s = np.array([kind.slo_s for kind in CLASSES])[drawn.query_class]
    return int((np.asarray(run.query_latency_s) > slo_s).sum())


def fewest_late(case: Burst) -> int:
    """The fewest late queries of all schedules that do not interrupt: O(2^n n) for each node."""
    drawn = case.draw
    first = np.cumsum(drawn.node_fanout) - drawn.node_fanout
    released_s, due_s = drawn.enqueued_s(LOAD_PER_S), case.due_s
    service_s = case.execution_s + case.communication_s
    masks = np.arange(1 << drawn.queries)
    possible: Bools = np.ones(len(masks), dtype=np.bool_)
    for rank in range(drawn.size.nodes_per_iad):
        asked = np.flatnonzero(drawn.node_fanout > rank)
        # Each set of queries as a set of those that ask this node.
        local = sum(
            (((masks >> query) & 1) << place for place, query in enumerate(asked.tolist())),
            start=np.zeros_like(masks),
        )
        times_s = service_s[first[asked] + rank]
        possible &= feasible(released_s[asked], due_s[asked], times_s)[local]
    return drawn.queries - max(int(mask).bit_count() for mask in masks[possible])


def feasible(released_s: Floats, due_s: Floats, service_s: Sequence[float] | Floats) -> Bools:
    """[2^n] Which sets of jobs one server can serve in time without interruption.

    A set ends at the earliest with its last job, tried for all of its members: O(2^n n).
    """
    count = len(released_s)
    masks = np.arange(1 << count)
    sizes = sum(((masks >> job) & 1 for job in range(count)), start=np.zeros_like(masks))
    ends_s = np.full(len(masks), np.inf)
    ends_s[0] = -np.inf
    for size in range(1, count + 1):
        layer = masks[sizes == size]
        for job in range(count):
            chosen = layer[(layer >> job) & 1 == 1]
            end_s = np.maximum(ends_s[chosen ^ (1 << job)], released_s[job]) + service_s[job]
            end_s[end_s > due_s[job]] = np.inf
            ends_s[chosen] = np.minimum(ends_s[chosen], end_s)
    found: Bools = np.isfinite(ends_s) | (masks == 0)
    return found
