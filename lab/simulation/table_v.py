"""The workload of DSSP's large-scale simulation (Tables III and V) as simulator traces.

The paper's fanouts (μ, σ) are read as per mille of the tier's size. Two things it leaves open are
options: whether a query's tasks share one node fanout, and what happens to a draw outside the tier.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from _core.deadlines.order_statistics import task_percentile
from _core.simulator import Trace

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int32]
Reading = Literal["query", "task"]
"""Of the node fanout k_t: drawn once a query and shared by its tasks, or anew for each task."""
OutOfRange = Literal["clip", "resample"]
"""Of a fanout outside [1, size]: moved to the nearer end, or drawn again."""


class Size(Struct, frozen=True):
    """A fleet of `iads` IADs with `nodes_per_iad` edge nodes each, one pod a node."""

    iads: int
    nodes_per_iad: int

    @property
    def nodes(self) -> int:
        """Edge nodes of the fleet."""
        return self.iads * self.nodes_per_iad


class QueryClass(Struct, frozen=True):
    """A class of queries: its share, its SLO as p99 latency, and both fanouts in per mille."""

    share: float
    slo_s: float
    iad_mean: float
    iad_deviation: float
    node_mean: float
    node_deviation: float


# The rows of Table VI.
SIZES: Final = (Size(4, 25), Size(20, 50), Size(40, 100), Size(60, 200), Size(60, 300))
CLASSES: Final = (
    QueryClass(0.10, 1.2, 100, 100, 100, 50),
    QueryClass(0.40, 1.8, 300, 50, 300, 100),
    QueryClass(0.30, 2.4, 500, 200, 500, 200),
    QueryClass(0.20, 3.0, 700, 200, 700, 300),
)
SLO_PERCENTILE: Final = 99.0
# Table III, means of exponentials.
QUERY_EVALUATION_S: Final = 0.00257
TASK_EVALUATION_S: Final = 0.00133
COMMUNICATION_S: Final = 0.00287
EXECUTION_S: Final = 0.09764
AGGREGATION_S: Final = 0.00031
# The busiest node is part of every query: from this load on, queries/s, its queue grows for good.
CAPACITY_PER_S: Final = 1.0 / (COMMUNICATION_S + EXECUTION_S)

# One stream of random numbers for each quantity: those that two readings share are the same.
ARRIVALS, KINDS, IAD_FANOUT, NODE_FANOUT, QUERY_EVALUATION, TASK_EVALUATION, AGGREGATION = range(7)


class Draw(Struct, frozen=True):
    """Everything that a seed determines, whatever the load: a trace at another load is the same
    trace with scaled interarrival times."""

    size: Size
    unit_arrival: Floats  # [queries] ascending, for one query a second
    query_class: Ints  # [queries]
    iad_fanout: Ints  # [queries] k_q
    task_query: Ints  # [tasks]
    task_iad: Ints  # [tasks]
    node_fanout: Ints  # [tasks] k_t
    evaluation_s: Floats  # [tasks] from the query's arrival until its subtasks are enqueued
    aggregation_s: Floats  # [tasks]
    budget_s: Floats  # [tasks] x_t
    percentile: Floats  # [tasks] p_t

    @property
    def queries(self) -> int:
        """Queries of the trace."""
        return len(self.unit_arrival)

    @property
    def subtasks(self) -> int:
        """Subtasks of the trace."""
        return int(self.node_fanout.sum(dtype=np.int64))

    def enqueued_s(self, load_per_s: float) -> Floats:
        """[tasks] When the subtasks of each task are enqueued."""
        return (self.unit_arrival / load_per_s)[self.task_query] + self.evaluation_s

    def trace(self, load_per_s: float) -> Trace:
        """The trace with Poisson arrivals of `load_per_s` queries a second."""
        iads, width = self.size.iads, self.size.nodes_per_iad
        nodes = np.arange(self.size.nodes, dtype=np.int32)
        by_iad = nodes.reshape(iads, width)[:, middle_outwards(width)]  # a set for each IAD
        # `.data` is the buffer of an array.
        return Trace(
            node_iad=(nodes // np.int32(width)).data,
            node_pods=np.ones(self.size.nodes, dtype=np.int32).data,
            set_first=(np.arange(iads + 1, dtype=np.int64) * width).data,
            set_nodes=by_iad.ravel().data,
            task_set=self.task_iad.data,
            task_size=self.node_fanout.data,
            query_arrived_s=(self.unit_arrival / load_per_s).data,
            query_class=self.query_class.data,
            task_query=self.task_query.data,
            task_enqueued_s=self.enqueued_s(load_per_s).data,
            task_budget_s=self.budget_s.data,
            task_percentile=self.percentile.data,
            task_after_s=self.aggregation_s.data,
        )


def draw(
    size: Size, *, reading: Reading, out_of_range: OutOfRange, queries: int, seed: int
) -> Draw:
    """Draw a trace. Each seed gives a different trace; O(tasks)."""
    streams = [np.random.default_rng((seed, stream)) for stream in range(AGGREGATION + 1)]
    shares = [kind.share for kind in CLASSES]
    kinds = streams[KINDS].choice(len(CLASSES), queries, p=shares).astype(np.int32)

    def of_class(field: str, members: Ints) -> Floats:
        return np.array([getattr(kind, field) for kind in CLASSES])[members]

    def fanouts(stream: int, tier: str, members: Ints, most: int) -> Ints:
        means = of_class(f"{tier}_mean", members) * (most / 1000)
        deviations = of_class(f"{tier}_deviation", members) * (most / 1000)
        return _fanouts(streams[stream], means, deviations, most, out_of_range)

    iad_fanout = fanouts(IAD_FANOUT, "iad", kinds, size.iads)
    task_query = np.repeat(np.arange(queries, dtype=np.int32), iad_fanout)
    tasks = len(task_query)
    # A task's rank within its query: the position of its IAD from the middle outwards.
    place = np.arange(tasks) - np.repeat(np.cumsum(iad_fanout) - iad_fanout, iad_fanout)
    if reading == "query":
        node_fanout = fanouts(NODE_FANOUT, "node", kinds, size.nodes_per_iad)[task_query]
    else:
        node_fanout = fanouts(NODE_FANOUT, "node", kinds[task_query], size.nodes_per_iad)
    query_evaluation_s = streams[QUERY_EVALUATION].exponential(QUERY_EVALUATION_S, queries)
    task_evaluation_s = streams[TASK_EVALUATION].exponential(TASK_EVALUATION_S, tasks)
    percentiles = [task_percentile(SLO_PERCENTILE, k_q) for k_q in range(1, size.iads + 1)]
    return Draw(
        size=size,
        unit_arrival=np.cumsum(streams[ARRIVALS].exponential(1.0, queries)),
        query_class=kinds,
        iad_fanout=iad_fanout,
        task_query=task_query,
        task_iad=middle_outwards(size.iads)[place],
        node_fanout=node_fanout,
        evaluation_s=query_evaluation_s[task_query] + task_evaluation_s,
        aggregation_s=streams[AGGREGATION].exponential(AGGREGATION_S, tasks),
        budget_s=of_class("slo_s", kinds)[task_query],
        percentile=np.array(percentiles)[iad_fanout - 1][task_query],
    )


def middle_outwards(size: int) -> Ints:
    """0 … size - 1 from the middle to both sides in turn, the upper neighbour first."""
    middle = (size - 1) // 2
    step = np.arange(size, dtype=np.int32)
    return np.where(step % 2 == 1, middle + (step + 1) // 2, middle - step // 2).astype(np.int32)


def _fanouts(
    stream: np.random.Generator, means: Floats, deviations: Floats, most: int, rule: OutOfRange
) -> Ints:
    drawn = np.rint(stream.normal(means, deviations))
    if rule == "clip":
        return np.clip(drawn, 1, most).astype(np.int32)
    while len(outside := np.flatnonzero((drawn < 1) | (drawn > most))):
        drawn[outside] = np.rint(stream.normal(means[outside], deviations[outside]))
    return drawn.astype(np.int32)
