"""One policy on one trace of Table V: latencies at a load, and the highest load it sustains."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from _core.deadlines.order_statistics import UnloadedModel
from _core.simulator import Run, ServiceTimes, simulate_events
from fleet.simulation.run_policy import WARM_UP_SHARE, deadline_s, run_policy
from fleet.simulation.search import highest_load
from lab.simulation.contenders import CONTENDERS, Contender
from lab.simulation.table_v import (
    CAPACITY_PER_S,
    CLASSES,
    COMMUNICATION_S,
    EXECUTION_S,
    SLO_PERCENTILE,
    Draw,
    Floats,
    OutOfRange,
    Reading,
    Size,
    draw,
)

# Increment with every change in the meaning of a point or a sustained load: stored results are then
# ignored.
VERSION: Final = 1
# Unloaded response times in the window of every node, as many as masters keep.
WARM_SAMPLES: Final = 10_000
FIRST_GUESS_PER_S: Final = 0.6 * CAPACITY_PER_S


class Setting(Struct, frozen=True):
    """All parameters of a trace except its load."""

    size: Size
    reading: Reading
    out_of_range: OutOfRange
    queries: int
    seed: int


class Point(Struct, frozen=True):
    """One run: a policy on a trace at a load. `p99_s` is by class; `seconds` of a processor."""

    load_per_s: float
    p99_s: tuple[float, ...]
    busiest_utilisation: float
    late_share: float
    subtasks: int
    seconds: float

    @property
    def ratios(self) -> tuple[float, ...]:
        """p99 / SLO of each class."""
        return tuple(p99 / kind.slo_s for p99, kind in zip(self.p99_s, CLASSES, strict=True))

    @property
    def worst(self) -> float:
        """The largest of the ratios; infinite if the busiest node is overloaded."""
        return max(self.ratios) if self.busiest_utilisation < 1.0 else math.inf


class World:
    """A drawn trace, the service times of its nodes, and x_u of its tasks."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.seed = setting.seed
        self.draw = draw(
            setting.size,
            reading=setting.reading,
            out_of_range=setting.out_of_range,
            queries=setting.queries,
            seed=setting.seed,
        )
        self.services = services(known=0.0)
        self.node_service = np.zeros(setting.size.nodes, dtype=np.int32)
        self.unloaded_s = unloaded_s(self.draw, setting.seed)
        self.counted = np.arange(setting.queries) >= WARM_UP_SHARE * setting.queries

    def run(self, contender: Contender, load_per_s: float, advance_s: Sequence[float] = ()) -> Run:
        """Run the trace at a load. `advance_s` is by class; if it is empty, no class is
        advanced."""
        draw = self.draw
        self.services = services(contender.known)
        advances = np.array(advance_s)[draw.query_class[draw.task_query]] if advance_s else None
        if not contender.one_clock:
            assert contender.demotion in ("never", "node")
            return run_policy(
                self, contender.policy, load_per_s, advance_s=advances, demotion=contender.demotion
            )
        return simulate_events(
            draw.trace(load_per_s),
            self.services,
            self.node_service.data,
            policy=contender.policy,
            deadline_s=deadline_s(self, load_per_s).data,
            advance_s=None if advances is None else advances.data,
            balance=contender.online,
            demotion=contender.demotion,
            seed=self.seed,
        )

    def point(self, name: str, load_per_s: float, advance_s: Sequence[float] = ()) -> Point:
        """The result of contender `name` at a load. ValueError if a class has no query that
        counts."""
        started_s = time.process_time()
        run = self.run(CONTENDERS[name], load_per_s, advance_s)
        latency_s = np.asarray(run.query_latency_s)
        of_class = [self.counted & (self.draw.query_class == k) for k in range(len(CLASSES))]
        if not all(chosen.any() for chosen in of_class):
            raise ValueError(f"{self.setting.queries} queries are too few: a class has none")
        # Nearest rank, as in the lab's other measures.
        p99_s = [
            float(np.percentile(latency_s[chosen], SLO_PERCENTILE, method="inverted_cdf"))
            for chosen in of_class
        ]
        lasted_s = float(self.draw.unit_arrival[-1]) / load_per_s
        return Point(
            load_per_s=load_per_s,
            p99_s=tuple(p99_s),
            busiest_utilisation=float(np.asarray(run.busy_s).max()) / lasted_s,
            late_share=run.late_subtasks / run.subtasks,
            subtasks=run.subtasks,
            seconds=time.process_time() - started_s,
        )

    def search(
        self, name: str, start_per_s: float, advance_s: Sequence[float] = ()
    ) -> tuple[float, list[Point]]:
        """The highest load that `name` sustains, queries/s, and the points that show it."""
        points: list[Point] = []

        def ratio(load_per_s: float) -> float:
            points.append(self.point(name, load_per_s, advance_s))
            return points[-1].worst

        # No trace, however lucky, sustains more than this.
        limit_per_s = 1.02 * CAPACITY_PER_S
        return highest_load(ratio, start=start_per_s, limit=limit_per_s), points


def services(known: float) -> list[ServiceTimes]:
    """Table III's service times; a request's size determines the share `known` of the execution."""
    return [ServiceTimes.exponential_sum([COMMUNICATION_S, EXECUTION_S], known=known)]


def unloaded_s(draw: Draw, seed: int) -> Floats:
    """[tasks] x_u of every task (DSSP Eqs. 3-4), in s.

    All nodes are alike: one model with the nodes of one IAD, `WARM_SAMPLES` response times each,
    and a task asks for its first k_t columns. Each pair (p_t, k_t) is evaluated once.
    """
    width = draw.size.nodes_per_iad
    random = np.random.default_rng((seed, *b"unloaded"))
    model = UnloadedModel(max_count=WARM_SAMPLES)
    for _ in range(width):
        column = model.add_node()
        communication_s = random.exponential(COMMUNICATION_S, WARM_SAMPLES)
        execution_s = random.exponential(EXECUTION_S, WARM_SAMPLES)
        for sample_s in (communication_s + execution_s).tolist():
            model.observe(column, sample_s, 0.0)
    everybody = model.node_set(range(width))
    later_s = 10.0  # by then every column may be re-evaluated, a few with each request
    for _ in range(width):
        model.quantile(everybody, SLO_PERCENTILE, later_s)
    pairs = draw.iad_fanout[draw.task_query].astype(np.int64) * (width + 1) + draw.node_fanout
    found: Floats = np.zeros((draw.size.iads + 1) * (width + 1))
    percentiles = np.zeros(draw.size.iads + 1)
    percentiles[draw.iad_fanout[draw.task_query]] = draw.percentile
    for pair in np.flatnonzero(np.bincount(pairs)).tolist():
        k_q, k_t = divmod(pair, width + 1)
        nodes = model.node_set(range(k_t))
        found[pair] = model.quantile(nodes, float(percentiles[k_q]), later_s)
    x_u_s: Floats = found[pairs]
    return x_u_s
