"""The workload of TailGuard's published simulator: a key-value store of 100 servers.

The numbers and their sources: tests/core/data/README.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from _core.simulator import Run, ServiceTimes, Trace, simulate_nodes

DATA: Final = Path(__file__).resolve().parents[1] / "tests" / "core" / "data"
SERVERS: Final = 100
FANOUTS: Final = (1, 10, 100)
SHARES: Final = (100, 10, 1)
SLO: Final = 1.0


class Masstree(Struct):
    """Queries of one seed. `unit_arrival` is for one query per unit of time; servers are listed
    query by query."""

    unit_arrival: np.ndarray
    kind: np.ndarray
    fanout: np.ndarray
    servers: np.ndarray
    service: ServiceTimes
    mean_service: float
    unloaded: np.ndarray

    def arrival(self, load: float) -> np.ndarray:
        """Arrival times at which the servers have the utilisation `load`."""
        mean_fanout = np.average(FANOUTS, weights=SHARES)
        rate = load * SERVERS / (mean_fanout * self.mean_service)
        return self.unit_arrival / rate

    def trace(self, load: float, *, by_fanout: bool = False) -> Trace:
        """The trace at a load. `by_fanout`: budgets that give priority to the lower fanout, instead
        of equal ones."""
        arrival = self.arrival(load)
        queries = len(arrival)
        every = np.arange(queries, dtype=np.int32)
        return Trace(
            node_iad=np.zeros(SERVERS, dtype=np.int32).data,
            node_pods=np.ones(SERVERS, dtype=np.int32).data,
            set_first=np.concatenate([[0], np.cumsum(self.fanout)]).astype(np.int64).data,
            set_nodes=self.servers.data,
            task_set=every.data,
            task_size=self.fanout.astype(np.int32).data,
            query_arrived_s=arrival.data,
            query_class=self.kind.astype(np.int32).data,
            task_query=every.data,
            task_enqueued_s=arrival.data,
            task_budget_s=(self.fanout * SLO if by_fanout else np.full(queries, SLO)).data,
            task_percentile=np.full(queries, 99.0).data,
            task_after_s=np.zeros(queries).data,
        )

    def run(
        self, trace: Trace, policy: str, load: float, seed: int, *, record: bool = False
    ) -> Run:
        """Simulate the trace at its load."""
        deadline = self.arrival(load) + SLO - self.unloaded[self.fanout - 1]
        return simulate_nodes(
            trace,
            [self.service],
            np.zeros(SERVERS, dtype=np.int32).data,
            policy=policy,
            deadline_s=deadline.data,
            seed=seed,
            record=record,
        )


def masstree(seed: int, queries: int = 400_000) -> Masstree:
    """Draw the queries of a seed."""
    draw = np.random.default_rng(seed)
    quantiles = np.loadtxt(DATA / "masstree_service_cdf.txt")
    kind = draw.choice(len(FANOUTS), size=queries, p=np.divide(SHARES, sum(SHARES)))
    fanout = np.array(FANOUTS)[kind]
    first = np.cumsum(fanout) - fanout
    servers = np.empty(fanout.sum(), dtype=np.int32)
    for number, size in enumerate(FANOUTS):
        rows = first[kind == number]
        if size == 1:
            chosen = draw.integers(SERVERS, size=(len(rows), 1))
        else:
            chosen = draw.random((len(rows), SERVERS)).argsort(axis=1)[:, :size]
        servers[rows[:, None] + np.arange(size)] = chosen
    return Masstree(
        unit_arrival=np.cumsum(draw.exponential(size=queries)),
        kind=kind,
        fanout=fanout,
        servers=servers,
        service=ServiceTimes.quantiles(quantiles.data, exponential_tail_s=float(quantiles[-1]) / 2),
        mean_service=float(quantiles.mean()),
        unloaded=np.loadtxt(DATA / "masstree_unloaded_p99.txt"),
    )
