"""One simulated fleet and load: runs a policy at a rate, reports SLO attainment and waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from _core.queue.policy import DEMOTING
from _core.simulator import Run, ServiceTimes, simulate_events
from fleet.plan.classes import LoadClass
from fleet.plan.draw import Draw, Floats, Ints, draw, visits
from fleet.plan.records import Overheads
from fleet.plan.times import NodeTimes
from fleet.plan.unloaded import Unloaded
from fleet.simulation.layout import FleetLayout
from fleet.simulation.run_policy import WARM_UP_SHARE, run_policy
from fleet.simulation.search import highest_load

# A run never sustains more than this multiple of what the busiest node can serve, however lucky the
# trace.
LIMIT: Final = 1.05
FIRST_GUESS: Final = 0.6
# A search starts a little below the result of the previous seed.
NEXT_GUESS: Final = 0.98
# Share of the limit: a load without queues.
IDLE: Final = 1e-3


class Model(Struct, frozen=True, eq=False):
    """The subject of a plan, apart from pods and randomness."""

    plan: FleetLayout
    classes: tuple[LoadClass, ...]
    times: NodeTimes
    overheads: Overheads

    @property
    def sizes(self) -> list[int]:
        """Nodes of each IAD."""
        return [len(iad.nodes) for iad in self.plan.iads]

    @property
    def work_s(self) -> Floats:
        """[nodes] Mean pod time per query at each node, in seconds."""
        means = np.array([times.mean_s for times in self.times.kinds])
        work: Floats = visits(self.sizes, self.classes) * means[list(self.times.kind)]
        return work

    @property
    def subtasks(self) -> float:
        """Mean number of subtasks per query."""
        return float(visits(self.sizes, self.classes).sum())

    def limit_per_s(self, pods: Sequence[int]) -> float:
        """The rate at which the busiest node is fully utilised, in queries/s."""
        return float(1.0 / (self.work_s / np.array(pods)).max())


class Point(Struct, frozen=True):
    """A policy at a rate: percentile latency / SLO of each class, and the busiest node with its
    utilisation."""

    rate_per_s: float
    ratios: tuple[float, ...]
    busiest: int
    utilisation: float

    @property
    def worst(self) -> float:
        """The largest ratio; infinite if the busiest node is overloaded."""
        return max(self.ratios) if self.utilisation < 1.0 else math.inf


class Case:
    """A seed's load on a fleet with some pods. `with_pods` shares everything else."""

    def __init__(
        self,
        model: Model,
        draw: Draw,
        services: list[ServiceTimes],
        unloaded_s: Floats,
        seed: int,
    ) -> None:
        self.model = model
        self.draw = draw
        self.services = services
        self.node_service: Ints = np.array(model.times.kind, dtype=np.int32)
        self.unloaded_s = unloaded_s
        self.seed = seed
        queries = len(draw.query_class)
        counted = np.arange(queries) >= WARM_UP_SHARE * queries
        self._of_class = [
            np.flatnonzero(counted & (draw.query_class == k)) for k in range(len(model.classes))
        ]

    def with_pods(self, pods: Sequence[int]) -> Case:
        """The same load on other pods."""
        changed = Draw(
            **{name: getattr(self.draw, name) for name in Draw.__struct_fields__ if name != "pods"},
            pods=np.array(pods, dtype=np.int32),
        )
        return Case(self.model, changed, self.services, self.unloaded_s, self.seed)

    def point(self, policy: str, rate_per_s: float) -> Point:
        """Run at a rate."""
        run = self._run(policy, rate_per_s)
        latency_s = np.asarray(run.query_latency_s)
        use = self._utilisation(run, rate_per_s)
        busiest = int(use.argmax())
        return Point(rate_per_s, self._ratios(latency_s), busiest, float(use[busiest]))

    def _run(self, policy: str, rate_per_s: float, *, record: bool = False) -> Run:
        """Run a policy. A policy that demotes also learns the classes' advances, as the masters do:
        that requires one clock for the whole fleet, and several times as long."""
        if policy not in DEMOTING:
            return run_policy(self, policy, rate_per_s, record=record)
        return simulate_events(
            self.draw.trace(rate_per_s),
            self.services,
            self.node_service.data,
            policy=policy,
            balance=True,
            seed=self.seed,
            record=record,
        )

    def _utilisation(self, run: Run, rate_per_s: float) -> Floats:
        lasted_s = float(self.draw.unit_arrival[-1]) / rate_per_s
        use: Floats = np.asarray(run.busy_s) / (self.draw.pods * lasted_s)
        return use

    def _ratios(self, latency_s: Floats) -> tuple[float, ...]:
        # Nearest rank, as in the lab's other measures.
        return tuple(
            float(np.percentile(latency_s[chosen], kind.percentile, method="inverted_cdf"))
            / kind.slo_s
            for kind, chosen in zip(self.model.classes, self._of_class, strict=True)
        )

    def search(self, policy: str, start_per_s: float | None) -> Point:
        """The highest rate at which every class keeps its SLO, 0 if there is none; ratios and
        utilisation are those of the nearest rate that was run and overloads no node."""
        limit_per_s = LIMIT * self.model.limit_per_s(self.draw.pods.tolist())
        points = [self.point(policy, IDLE * limit_per_s)]
        rate_per_s = 0.0
        if points[0].worst <= 1.0:

            def ratio(load_per_s: float) -> float:
                points.append(self.point(policy, load_per_s))
                return points[-1].worst

            start_per_s = min(start_per_s or FIRST_GUESS * limit_per_s, 0.95 * limit_per_s)
            rate_per_s = highest_load(ratio, start=start_per_s, limit=limit_per_s)
        # Where an SLO is loose, the rate tried just above the highest one overloads a node: its
        # utilisation, above 1, is none of the fleet's at the highest rate.
        bearable = [point for point in points if point.utilisation < 1.0] or points
        nearest = min(bearable, key=lambda point: abs(point.rate_per_s - rate_per_s))
        return Point(rate_per_s, nearest.ratios, nearest.busiest, nearest.utilisation)

    def waiting_s(self, policy: str, rate_per_s: float) -> Floats:
        """[nodes] How long late queries waited there for their last subtask: where a pod would have
        helped. Queries of classes that meet their SLO do not count as late, unless all classes
        do."""
        run = self._run(policy, rate_per_s, record=True)
        draw = self.draw
        task = np.repeat(np.arange(len(draw.task_query)), draw.task_size)
        node = np.concatenate(
            [draw.set_nodes[draw.set_first[s] : draw.set_first[s + 1]] for s in draw.task_set]
        )
        query = draw.task_query[task]
        finished_s = np.asarray(run.subtask_finished_s)
        begins = np.flatnonzero(np.diff(query, prepend=-1))
        last_s = np.maximum.reduceat(finished_s, begins)
        latency_s = np.asarray(run.query_latency_s)
        missed = np.array(self._ratios(latency_s)) > 1.0
        slo_s = np.array([kind.slo_s for kind in self.model.classes])[draw.query_class]
        late = (latency_s > slo_s) & missed[draw.query_class]
        if not late.any():
            late[:] = True
        guilty = late[query] & (finished_s == last_s[query])
        waited_s = np.asarray(run.subtask_dispatched_s) - draw.enqueued_s(rate_per_s)[task]
        found = np.bincount(node[guilty], weights=waited_s[guilty], minlength=len(draw.node_iad))
        return found.astype(np.float64)  # of integers where nobody is late


def make_cases(
    model: Model, pods: Sequence[int], *, queries: int, seed: int, seeds: int
) -> list[Case]:
    """A case for each of `seeds` seeds from `seed` on."""
    unloaded = Unloaded(model.sizes, model.times.kind, model.times.kinds)
    services = [times.simulated() for times in model.times.kinds]
    cases = []
    for each in range(seed, seed + seeds):
        drawn = draw(model.sizes, pods, model.classes, model.overheads, queries=queries, seed=each)
        cases.append(Case(model, drawn, services, unloaded.of_tasks(drawn), each))
    return cases
