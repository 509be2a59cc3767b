"""The testbed's load for the simulator: Table II as arrays, and the service times of its subtasks.

The load that `fleet.simulation.workload` draws query by query is drawn here at once, from other
random numbers. One seed has the same queries and service times at every rate, only closer together,
and for every policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from _core.deadlines.order_statistics import UnloadedModel, task_percentile
from _core.deadlines.size_regression import SizeModel
from _core.simulator import ServiceTimes, Trace
from agent.wire.emulation import PROFILES
from fleet.simulation.layout import FleetLayout
from fleet.simulation.virtual import TESTBED_DELAYS
from fleet.simulation.workload import MAX_WINDOW_S, PERCENTILE, TABLE_II, QueryClass
from lab.testbed.measures import CLASSES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]

# Same values as in `agent.scheduling.tasks.deadlines.DeadlineEstimator`.
WINDOW_SAMPLES: Final = 10_000
WINDOW_S: Final = 3_600.0
COLD_START_S: Final = 0.1

# Random streams of a seed.
_QUERIES, _SERVICES, _WARM = range(3)


class Shape(Struct, frozen=True):
    """Distribution of service times: σ of a lognormal, k of a gamma, around the expected value."""

    family: Literal["lognormal", "gamma"]
    value: float

    def noise(self, draw: np.random.Generator, count: int) -> Floats:
        """This many draws of mean 1."""
        if self.family == "lognormal":
            return np.exp(self.value * draw.standard_normal(count) - self.value**2 / 2)
        return draw.standard_gamma(self.value, count) / self.value


class Drawn(NamedTuple):
    """A trace as arrays: `trace` are the arguments of `_core.simulator.Trace`; of each query its
    pooled class (index into `CLASSES`) and its index in Table II; of each subtask, task by task,
    its node (number in the plan) and how long it takes from dispatch to result, in seconds."""

    trace: dict[str, Any]
    kinds: npt.NDArray[np.int8]
    table_ii: npt.NDArray[np.int64]
    subtask_node: Ints
    service_s: Floats


def drawn(
    plan: FleetLayout, *, rate_per_s: float, seed: int, queries: int, shape: Shape | None = None
) -> Drawn:
    """Table II on `plan`: Poisson arrivals of `rate_per_s` queries per second over all query
    schedulers. Without a `shape` service times scatter as the nodes' profiles say."""
    draw = np.random.default_rng([seed, _QUERIES])
    arrived_s = np.cumsum(draw.standard_exponential(queries)) / rate_per_s
    shares = np.cumsum([kind.share for kind in TABLE_II])
    table_ii = np.minimum(np.searchsorted(shares, draw.random(queries)), len(TABLE_II) - 1)
    scheduler = draw.integers(len(plan.iads), size=queries, dtype=np.int32)
    window_s = draw.uniform(1.0, MAX_WINDOW_S, queries)
    task_query, task_iad = _tasks(plan, table_ii, draw)
    task_kind = table_ii[task_query]
    sets = _Sets(plan)
    task_set, task_size = sets.choose(task_iad, task_kind, draw)

    slo_s = np.array([kind.slo_ms / 1e3 for kind in TABLE_II])
    percentiles = np.array([task_percentile(PERCENTILE, _iads_of(kind, plan)) for kind in TABLE_II])
    delays = TESTBED_DELAYS
    received_s = arrived_s + delays.query_evaluation_s
    pooled = np.array([CLASSES.index(kind.name.partition(".")[0]) for kind in TABLE_II], np.int8)
    set_first, set_nodes = sets.arrays()
    trace = {
        "node_iad": _node_iad(plan),
        "node_pods": np.ones(len(plan.nodes), np.int32),
        "set_first": set_first,
        "set_nodes": set_nodes,
        "task_set": task_set,
        "task_size": task_size,
        # Where it is received; from there on its scheduler counts.
        "query_arrived_s": received_s,
        "query_class": pooled[table_ii].astype(np.int32),
        "query_scheduler": scheduler,
        "query_percentile": np.full(queries, PERCENTILE),
        "task_query": task_query,
        "task_enqueued_s": received_s[task_query] + delays.task_evaluation_s,
        "task_budget_s": slo_s[task_kind],
        "task_percentile": percentiles[task_kind],
        "task_after_s": np.full(len(task_query), delays.aggregation_s),
        "task_window_s": window_s[task_query],
    }
    last = np.cumsum(task_size)
    within = np.arange(last[-1]) - np.repeat(last - task_size, task_size)
    subtask_node = set_nodes[np.repeat(set_first[task_set], task_size) + within]
    service_s = _service_s(
        plan,
        subtask_node,
        np.repeat(window_s[task_query], task_size),
        shape,
        np.random.default_rng([seed, _SERVICES]),
    )
    return Drawn(trace, pooled[table_ii], table_ii, subtask_node, service_s)


def _iads_of(kind: QueryClass, plan: FleetLayout) -> int:
    """If the fleet is smaller than a class asks for, all of it is asked."""
    return min(kind.iads, len(plan.iads))


def _node_iad(plan: FleetLayout) -> Ints:
    sizes = [len(iad.nodes) for iad in plan.iads]
    return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


def _tasks(
    plan: FleetLayout, table_ii: npt.NDArray[np.int64], draw: np.random.Generator
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """The query and the IAD of every task."""
    order = draw.random((len(table_ii), len(plan.iads))).argsort(axis=1)
    order[np.array([kind.hot_spot for kind in TABLE_II])[table_ii], 0] = len(plan.iads) - 1
    count = np.array([_iads_of(kind, plan) for kind in TABLE_II])[table_ii]
    asked = np.arange(len(plan.iads)) < count[:, None]
    return np.repeat(np.arange(len(table_ii), dtype=np.int32), count), order[asked]


class _Sets:
    """Every choice of nodes that a task makes, once for each class and IAD."""

    def __init__(self, plan: FleetLayout) -> None:
        self._plan = plan
        self._firsts = np.concatenate([[0], np.cumsum([len(iad.nodes) for iad in plan.iads])])
        self._nodes: list[npt.NDArray[np.int64]] = []

    def choose(
        self,
        task_iad: npt.NDArray[np.int64],
        task_kind: npt.NDArray[np.int64],
        draw: np.random.Generator,
    ) -> tuple[Ints, Ints]:
        """The set of each task, and its size: as many random nodes as its class wants."""
        task_set = np.empty(len(task_iad), np.int32)
        task_size = np.empty(len(task_iad), np.int32)
        for number, kind in enumerate(TABLE_II):
            for iad, members in enumerate(self._plan.iads):
                mine = np.flatnonzero((task_iad == iad) & (task_kind == number))
                size = min(kind.nodes, len(members.nodes))
                distinct, which = _choices(len(members.nodes), size, len(mine), draw)
                task_set[mine] = len(self._nodes) + which
                task_size[mine] = size
                self._nodes += [nodes + self._firsts[iad] for nodes in distinct]
        return task_set, task_size

    def arrays(self) -> tuple[npt.NDArray[np.int64], Ints]:
        """Where each set begins, and all nodes."""
        firsts = np.concatenate([[0], np.cumsum([len(nodes) for nodes in self._nodes])])
        return firsts.astype(np.int64), np.concatenate(self._nodes).astype(np.int32)


def _choices(
    nodes: int, size: int, count: int, draw: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """`count` random choices of `size` of `nodes` nodes: the distinct ones, ascending each, and
    which of them each is."""
    if size == nodes:
        return np.arange(nodes)[None, :], np.zeros(count, np.int64)
    if size == 1:
        return np.arange(nodes)[:, None], draw.integers(nodes, size=count)
    order = draw.random((count, nodes)).argsort(axis=1)
    distinct, which = np.unique(np.sort(order[:, :size], axis=1), axis=0, return_inverse=True)
    return distinct, which.ravel()


def _service_s(
    plan: FleetLayout, node: Ints, window_s: Floats, shape: Shape | None, draw: np.random.Generator
) -> Floats:
    """From dispatch to result, for each pair of a node and a window."""
    profiles = [PROFILES[each.profile] for each in plan.nodes]
    by_size = np.array([profile.by_size for profile in profiles])[node]
    longest = np.minimum(window_s, MAX_WINDOW_S) / MAX_WINDOW_S
    mean_s = np.array([profile.mean_s for profile in profiles])[node]
    expected_s = mean_s * ((1.0 - by_size) + by_size * 2.0 * longest)
    if shape is None:
        sigma = np.array([profile.sigma for profile in profiles])[node]
        noise = np.exp(sigma * draw.standard_normal(len(node)) - sigma**2 / 2)
    else:
        noise = shape.noise(draw, len(node))
    took_s: Floats = TESTBED_DELAYS.communication_s + expected_s * noise
    return took_s


# --- what the simulator takes ---------------------------------------------------------------------


def trace_of(load: Drawn) -> Trace:
    """The load without its service times."""
    return Trace(**load.trace)


def services_of(load: Drawn) -> ServiceTimes:
    """The service times, in the order of the trace's subtasks."""
    return ServiceTimes.given(load.service_s.data)


def known(
    plan: FleetLayout, samples: int, seed: int, shape: Shape | None = None
) -> tuple[Sequence[UnloadedModel], Sequence[SizeModel]]:
    """The knowledge of the masters of `plan` before the first query: for each node this many
    unloaded response times."""
    draw = np.random.default_rng([seed, _WARM])
    models = []
    all_sizes = []
    first = 0
    for iad in plan.iads:
        model = UnloadedModel(
            max_count=WINDOW_SAMPLES, max_age_s=WINDOW_S, prior_mean_s=COLD_START_S
        )
        sizes = SizeModel(COLD_START_S)
        for column in range(len(iad.nodes)):
            model.add_node()
            window_s = draw.uniform(1.0, MAX_WINDOW_S, samples)
            node = np.full(samples, first + column, np.int32)
            took_s = _service_s(plan, node, window_s, shape, draw)
            for size, unloaded_s in zip(window_s.tolist(), took_s.tolist(), strict=True):
                model.observe(column, unloaded_s, 0.0)
                sizes.observe(column, size, unloaded_s)
        first += len(iad.nodes)
        models.append(model)
        all_sizes.append(sizes)
    return models, all_sizes
