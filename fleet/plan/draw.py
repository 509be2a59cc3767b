"""Synthetic load of a capacity plan: a trace of queries drawn from classes, at any rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from _core.deadlines.order_statistics import task_percentile
from _core.simulator import Trace
from fleet.plan.classes import LoadClass
from fleet.plan.records import Overheads

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int32]

# Maximum of random numbers in memory while nodes are chosen.
CHUNK: Final = 4_000_000


class Draw(Struct, frozen=True, eq=False):
    """Everything that a seed determines, independent of rate, policy and pods: common random
    numbers."""

    node_iad: Ints  # [nodes]
    pods: Ints  # [nodes]
    set_first: npt.NDArray[np.int64]  # [sets + 1]
    set_nodes: Ints
    unit_arrival: Floats  # [queries] for one query a second
    query_class: Ints  # [queries]
    query_scheduler: Ints  # [queries] IAD of the query scheduler that it reaches
    query_percentile: Floats  # [queries] p_q
    task_query: Ints  # [tasks] ascending
    task_set: Ints  # [tasks]
    budget_s: Floats  # [tasks] x_t
    percentile: Floats  # [tasks] p_t
    overheads: Overheads

    @property
    def task_size(self) -> Ints:
        """[tasks] k_t: a task asks all nodes of its set."""
        sizes: Ints = np.diff(self.set_first).astype(np.int32)[self.task_set]
        return sizes

    def enqueued_s(self, load_per_s: float) -> Floats:
        """[tasks] When the subtasks of each task are enqueued."""
        return (self.unit_arrival / load_per_s)[self.task_query] + self.overheads.before_s

    def trace(self, load_per_s: float) -> Trace:
        """The trace with Poisson arrivals of `load_per_s` queries a second."""
        return Trace(
            node_iad=self.node_iad.data,
            node_pods=self.pods.data,
            set_first=self.set_first.data,
            set_nodes=self.set_nodes.data,
            task_set=self.task_set.data,
            task_size=self.task_size.data,
            query_arrived_s=(self.unit_arrival / load_per_s).data,
            query_class=self.query_class.data,
            query_scheduler=self.query_scheduler.data,
            query_percentile=self.query_percentile.data,
            task_query=self.task_query.data,
            task_enqueued_s=self.enqueued_s(load_per_s).data,
            task_budget_s=self.budget_s.data,
            task_percentile=self.percentile.data,
            task_after_s=np.full(len(self.task_query), self.overheads.after_s).data,
        )


def draw(
    sizes: Sequence[int],
    pods: Sequence[int],
    classes: Sequence[LoadClass],
    overheads: Overheads,
    *,
    queries: int,
    seed: int,
) -> Draw:
    """Draw `queries` for IADs with `sizes` nodes. O(subtasks), and O(nodes of the IAD) for each
    task that asks only some of them."""
    random = np.random.default_rng((seed, *b"capacity"))
    shares = np.array([kind.share for kind in classes])
    unit_arrival = np.cumsum(random.exponential(1.0, queries))
    query_class = random.choice(len(classes), queries, p=shares / shares.sum()).astype(np.int32)
    sets = _Sets(sizes, random)
    task_query, task_set = [], []
    for number, kind in enumerate(classes):
        members = np.flatnonzero(query_class == number).astype(np.int32)
        if kind.iad is not None:
            iads = np.full((len(members), 1), kind.iad, dtype=np.int32)
        else:
            iads = _choose(random, len(members), len(sizes), kind.iads)
        task_query.append(np.repeat(members, iads.shape[1]))
        task_set.append(sets.of(iads.ravel(), kind))
    by_query = np.concatenate(task_query)
    order = np.argsort(by_query, kind="stable")
    by_query = by_query[order]
    percentiles = [task_percentile(kind.percentile, kind.iads) for kind in classes]
    task_class = query_class[by_query]
    return Draw(
        node_iad=np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
        pods=np.array(pods, dtype=np.int32),
        set_first=np.concatenate(([0], np.cumsum(sets.size))).astype(np.int64),
        set_nodes=np.concatenate(sets.nodes).astype(np.int32),
        unit_arrival=unit_arrival,
        query_class=query_class,
        query_scheduler=random.integers(0, len(sizes), queries, dtype=np.int32),
        query_percentile=np.array([kind.percentile for kind in classes])[query_class],
        task_query=by_query,
        task_set=np.concatenate(task_set)[order],
        budget_s=np.array([kind.slo_s for kind in classes])[task_class],
        percentile=np.array(percentiles)[task_class],
        overheads=overheads,
    )


class _Sets:
    """Sets of nodes: each node alone, each IAD whole, then one for each task that asks some."""

    def __init__(self, sizes: Sequence[int], random: np.random.Generator) -> None:
        self._sizes = sizes
        self._first = np.concatenate(([0], np.cumsum(sizes)))
        self._random = random
        nodes = np.arange(self._first[-1], dtype=np.int32)
        self.nodes = [nodes, nodes]
        self.size = [1] * len(nodes) + list(sizes)

    def of(self, iads: Ints, kind: LoadClass) -> Ints:
        """The set of each task of a class, given its IAD."""
        chosen = np.empty(len(iads), dtype=np.int32)
        for iad, size in enumerate(self._sizes):
            tasks = np.flatnonzero(iads == iad)
            k_t = kind.nodes_of(size)
            if k_t == size:
                chosen[tasks] = self._first[-1] + iad
            elif k_t == 1:
                chosen[tasks] = self._first[iad] + self._random.integers(0, size, len(tasks))
            else:
                chosen[tasks] = len(self.size) + np.arange(len(tasks))
                some = _choose(self._random, len(tasks), size, k_t) + self._first[iad]
                self.nodes.append(np.sort(some, axis=1).ravel().astype(np.int32))
                self.size += [k_t] * len(tasks)
        return chosen


def _choose(random: np.random.Generator, rows: int, size: int, k: int) -> Ints:
    """[rows, k] numbers of 0 … size - 1, distinct in each row, all choices equally likely."""
    if k == size:
        return np.tile(np.arange(size, dtype=np.int32), (rows, 1))
    chosen = np.empty((rows, k), dtype=np.int32)
    step = max(1, CHUNK // size)
    for begin in range(0, rows, step):
        part = chosen[begin : begin + step]
        part[:] = np.argpartition(random.random((len(part), size)), k, axis=1)[:, :k]
    return chosen


def visits(sizes: Sequence[int], classes: Sequence[LoadClass]) -> Floats:
    """[nodes] Mean number of subtasks per query at each node."""
    by_iad = np.zeros(len(sizes))
    for iad, size in enumerate(sizes):
        for kind in classes:
            asked = kind.iads / len(sizes) if kind.iad is None else float(kind.iad == iad)
            by_iad[iad] += kind.share * asked * kind.nodes_of(size) / size
    found: Floats = np.repeat(by_iad, sizes)
    return found
