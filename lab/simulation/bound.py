"""A load that no policy passes which cannot know how long a subtask takes; by linear programs.

Service times are exponential, so that the past of a subtask says nothing about its rest: a busy pod
ends at the next *epoch* of a Poisson process of its node, whatever it serves. Whoever serves hands
epochs out to subtasks, with interruptions or without. A query is in time only if it gets an epoch
of its own at each of its nodes before it is due. Of the queries that arrive after a and are due at
b, no more can be kept than the node has epochs in (a, b] (Hall). How few must be given up is a
covering problem over all nodes. Its relaxation, a linear program whose rows are added where they
are violated, errs on the safe side. So do epochs that are known in advance, communication that
takes no time, and nodes that are left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import scipy.optimize
import scipy.sparse
from msgspec import Struct

from fleet.simulation.run_policy import WARM_UP_SHARE
from lab.simulation.table_v import (
    CAPACITY_PER_S,
    CLASSES,
    EXECUTION_S,
    SLO_PERCENTILE,
    Draw,
    Floats,
    Ints,
)

LEAST_VIOLATION: Final = 1e-6
LOAD_STEP_PER_S: Final = 0.05
MAX_ROUNDS: Final = 60


class Node(Struct, frozen=True):
    """What a node is asked: `queries` by arrival, and its epochs in s, ascending."""

    queries: Ints
    epochs_s: Floats


class Row(Struct, frozen=True):
    """At least `excess` of `queries` are late, since their node has too few epochs for them."""

    queries: tuple[int, ...]
    excess: int


class Instance(Struct, frozen=True):
    """When queries arrive and are due, in s, their class, how many of each class may be late, and
    the nodes. Queries of class -1 are not counted."""

    arrived_s: Floats
    due_s: Floats
    query_class: Ints
    allowed: tuple[int, ...]
    nodes: tuple[Node, ...]


def instance(draw: Draw, load_per_s: float, nodes: int, seed: int) -> Instance:
    """The trace at a load, seen by the `nodes` of the fleet that most queries ask."""
    arrived_s = draw.unit_arrival / load_per_s
    slo_s = np.array([kind.slo_s for kind in CLASSES])[draw.query_class]
    counted = np.arange(draw.queries) >= WARM_UP_SHARE * draw.queries
    query_class = np.where(counted, draw.query_class, -1).astype(np.int32)
    allowed = tuple(
        # As the nearest rank has it.
        (n := int((query_class == k).sum())) - math.ceil(n * SLO_PERCENTILE / 100.0)
        for k in range(len(CLASSES))
    )
    horizon_s = float(arrived_s[-1]) + max(kind.slo_s for kind in CLASSES)
    return Instance(
        arrived_s,
        arrived_s + slo_s,
        query_class,
        allowed,
        tuple(
            Node(queries, _epochs_s(horizon_s, (seed, number)))
            for number, queries in enumerate(_busiest(draw, nodes))
        ),
    )


def _epochs_s(horizon_s: float, seed: Sequence[int]) -> Floats:
    random = np.random.default_rng((*seed, *b"epochs"))
    count = int(horizon_s / EXECUTION_S * 1.05) + 1_000
    epochs_s: Floats = np.cumsum(random.exponential(EXECUTION_S, count))
    return epochs_s[epochs_s <= horizon_s]


def _busiest(draw: Draw, nodes: int) -> list[Ints]:
    """The queries of each of the `nodes` that most queries ask. Fanout grows from the middle, so
    that a node is its IAD and its rank there."""
    found: list[Ints] = []
    for iad in range(draw.size.iads):
        tasks = np.flatnonzero(draw.task_iad == iad)
        found += [
            draw.task_query[tasks[draw.node_fanout[tasks] > rank]]
            for rank in range(min(nodes, draw.size.nodes_per_iad))
        ]
    return sorted(found, key=len, reverse=True)[:nodes]


def violated(case: Instance, node: Node, kept: Floats) -> list[Row]:
    """Rows that shares `kept` of the queries break at a node; none if all of it can be served.

    Earliest deadline first hands the epochs out, each for one whole query or parts that add up to
    one; where something is left at its deadline, too much was asked since the last epoch that
    somebody due later, or nobody, got. O(n log n) and the lengths of the rows.
    """
    due_s, arrived_s, epochs_s = case.due_s, case.arrived_s, node.epochs_s
    asked = node.queries.tolist()
    waiting: list[tuple[float, int, float]] = []
    latest_served_s: list[float] = []  # by epoch; infinite where capacity was left over
    rows: list[Row] = []
    next_one = 0
    for epoch_s in [*epochs_s.tolist(), math.inf]:
        while next_one < len(asked) and arrived_s[asked[next_one]] < epoch_s:
            query = asked[next_one]
            if kept[query] > LEAST_VIOLATION:
                heapq.heappush(waiting, (float(due_s[query]), query, float(kept[query])))
            next_one += 1
        while waiting and waiting[0][0] < epoch_s:
            end_s, _, left = heapq.heappop(waiting)
            if left > LEAST_VIOLATION:
                row = _row(case, node, latest_served_s, end_s)
                if row.excess - sum(1.0 - kept[list(row.queries)]) > LEAST_VIOLATION:
                    rows.append(row)
        capacity, latest_s = 1.0, -math.inf
        while waiting and capacity > 0.0:
            latest_s, query, left = heapq.heappop(waiting)
            if left > capacity:
                heapq.heappush(waiting, (latest_s, query, left - capacity))
            capacity -= min(left, capacity)
        latest_served_s.append(math.inf if capacity > LEAST_VIOLATION else latest_s)
    return rows


def _row(case: Instance, node: Node, latest_served_s: Sequence[float], end_s: float) -> Row:
    first = len(latest_served_s)
    while first > 0 and latest_served_s[first - 1] <= end_s:
        first -= 1
    begin_s = float(node.epochs_s[first - 1]) if first > 0 else -math.inf
    low = np.searchsorted(case.arrived_s[node.queries], begin_s)
    high = np.searchsorted(case.arrived_s[node.queries], end_s, side="right")
    inside = node.queries[low:high]
    inside = inside[case.due_s[inside] <= end_s]
    last = int(np.searchsorted(node.epochs_s, end_s, side="right"))
    return Row(tuple(inside.tolist()), len(inside) - (last - first))


def least_late(case: Instance, *, enough: float = math.inf) -> float:
    """The least t so that at most t times what is allowed are late in each class, or a bound below
    it; stops beyond `enough`. 0 if nobody needs to be late.

    Each round adds the rows that the last answer breaks. Linear programs by HiGHS.
    """
    kept = np.ones(len(case.arrived_s))
    rows: dict[Row, None] = {}
    least = 0.0
    for _ in range(MAX_ROUNDS):
        before = len(rows)
        for node in case.nodes:
            rows.update(dict.fromkeys(violated(case, node, kept)))
        if len(rows) == before:
            break
        least, kept = _cover(case, list(rows))
        if least > enough:
            break
    return least


def highest_bound(draw: Draw, nodes: int, seed: int) -> float:
    """A load, queries/s, at which more queries of a class than allowed are late under any policy
    that does not know sizes; by bisection, at most `LOAD_STEP_PER_S` above the least one."""
    low, high = 0.0, CAPACITY_PER_S
    while high - low > LOAD_STEP_PER_S:
        load_per_s = (low + high) / 2.0
        if least_late(instance(draw, load_per_s, nodes, seed), enough=1.0) > 1.0:
            high = load_per_s
        else:
            low = load_per_s
    return high


def _cover(case: Instance, rows: Sequence[Row]) -> tuple[float, Floats]:
    """The linear program of these rows: t, and the share of each query that is kept."""
    queries = np.unique(np.concatenate([row.queries for row in rows])).astype(np.int64)
    count = len(queries)
    lengths = [len(row.queries) for row in rows]
    columns = np.searchsorted(queries, np.concatenate([row.queries for row in rows]))
    places = np.repeat(np.arange(len(rows)), lengths)
    covers = scipy.sparse.csr_matrix(
        (-np.ones(len(columns)), (places, columns)), shape=(len(rows), count + 1)
    )
    members = [
        [*(case.query_class[queries] == k).astype(float), -float(allowed)]
        for k, allowed in enumerate(case.allowed)
    ]
    found = scipy.optimize.linprog(
        [0.0] * count + [1.0],
        A_ub=scipy.sparse.vstack([covers, scipy.sparse.csr_matrix(np.array(members))]),
        b_ub=[-float(row.excess) for row in rows] + [0.0] * len(members),
        bounds=[(0.0, 1.0)] * count + [(0.0, None)],
        method="highs",
    )
    if found.status != 0:
        raise RuntimeError(f"no optimum: {found.message}")
    kept = np.ones(len(case.arrived_s))
    kept[queries] = 1.0 - found.x[:count]
    return float(found.fun), kept
