"""The sweep in virtual time: the simulator's runs in worker processes, and the choice of rates to
run.

`_core.simulator` decides as `agent.scheduling` does, event by event (tests compare them), and takes
a second where the schedulers themselves take half a minute.
"""

from __future__ import annotations

import itertools
import math
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct

from _core.queue.policy import DEMOTING
from _core.simulator import simulate_events
from agent.wire.base import Policy
from fleet.simulation.layout import FleetLayout
from fleet.simulation.virtual import TESTBED_DELAYS
from lab import spawned
from lab.testbed.measures import CLASSES, SLO_MS, Run, crossing, joined, p99_ms
from lab.testbed.trace import Shape, drawn, known, services_of, trace_of

# The paper's sweep is around 12 to 22/s; a grid of 2/s there, continued as far as needed.
FIRST_RATES: Final = (12.0, 16.0, 20.0)
GRID: Final = 2.0
LEAST_RATE: Final = 2.0
MAX_RATE: Final = 60.0
# Unloaded response times of each node that its master holds before the first query.
WARM_SAMPLES: Final = 1_000
# Share of a run's queries that is not counted: queues and histograms fill, and classes get their
# advances.
LEARNING: Final = 1 / 3
NICENESS: Final = 19

J = TypeVar("J")
R = TypeVar("R")


class Job(Struct, frozen=True):
    """One run in virtual time; without a `shape` service times scatter as the nodes' profiles say.
    Of its queries the first `LEARNING` are not counted."""

    plan: FleetLayout
    policy: Policy
    rate_per_s: float
    seed: int
    queries: int
    shape: Shape | None = None
    warm_samples: int = WARM_SAMPLES

    @property
    def first(self) -> int:
        """The first query that counts."""
        return int(self.queries * LEARNING)


def perform(job: Job) -> Run:
    """Run it."""
    load = drawn(
        job.plan, rate_per_s=job.rate_per_s, seed=job.seed, queries=job.queries, shape=job.shape
    )
    models, sizes = known(job.plan, job.warm_samples, job.seed, job.shape)
    learns = job.policy in DEMOTING
    run = simulate_events(
        trace_of(load),
        [services_of(load)],
        array("i", [0] * len(job.plan.nodes)),
        policy=job.policy,
        models=models,
        sizes=sizes if learns else None,
        balance=learns,
    )
    latencies_ms = (np.array(run.query_latency_s) + TESTBED_DELAYS.query_evaluation_s) * 1e3
    first = job.first
    return Run("virtual", job.policy, job.rate_per_s, load.kinds[first:], latencies_ms[first:])


Workers = Callable[[Sequence[Job]], Iterator[Run]]
"""What performs many jobs; results in the order of the jobs."""


@contextmanager
def workers(
    processes: int, perform: Callable[[J], R]
) -> Iterator[Callable[[Sequence[J]], Iterator[R]]]:
    """Low-priority processes that `perform`; leaving the block terminates them, finished or not."""
    context = spawned.context()
    with spawned.held():
        pool = context.Pool(processes, os.nice, (NICENESS,))
    with pool:
        yield lambda jobs: pool.imap(perform, jobs)


def worst_ratio(run: Run, kinds: Sequence[str] = CLASSES) -> float:
    """p99 / SLO of the worst class; NaN if there are none."""
    ratios = [p99_ms(run.of_class(kind)) / SLO_MS[kind] for kind in kinds]
    return max((ratio for ratio in ratios if not math.isnan(ratio)), default=math.nan)


# --- which rates ----------------------------------------------------------------------------------


class Effort(Struct, frozen=True):
    """`seeds` runs of `queries` each at a rate; `more_seeds` at the rates that decide."""

    queries: int
    seeds: int
    more_seeds: int
    seed: int
    warm_samples: int = WARM_SAMPLES


class Sweep:
    """Runs of one policy by rate, and the search for its highest rate.

    All rates have the same seeds, which draw the same queries in the same order, only closer
    together: so the curves are smooth even where their level is uncertain.
    """

    def __init__(
        self,
        plan: FleetLayout,
        policy: Policy,
        effort: Effort,
        perform_all: Workers,
        told: Callable[[str], None],
        *,
        shape: Shape | None = None,
    ) -> None:
        self._plan = plan
        self._policy = policy
        self._effort = effort
        self._perform_all = perform_all
        self._told = told
        self._shape = shape
        self._runs: dict[float, list[Run]] = {}

    def runs(self) -> list[Run]:
        """The runs so far: one for each rate, ascending."""
        return [joined(self._runs[rate]) for rate in sorted(self._runs)]

    def search(self, *, every_class: bool = True) -> None:
        """Run the rates that put a grid cell around the highest rate of every class, or only of all
        classes together, and then more seeds at the two ends of the latter."""
        self.add(FIRST_RATES, self._effort.seeds)
        while wanted := self._outside(every_class) or self._wide(every_class):
            self.add(wanted, self._effort.seeds)
        rates = sorted(self._runs)
        highest = self._highest(CLASSES)
        around = [rate for rate in rates if abs(rate - highest) < GRID]
        self.add(around, self._effort.seeds + self._effort.more_seeds)

    def add(self, rates: Sequence[float], seeds: int) -> None:
        """Run the missing seeds at each rate, up to this number."""
        jobs = [
            Job(
                self._plan,
                self._policy,
                rate,
                self._effort.seed + number,
                self._effort.queries,
                self._shape,
                self._effort.warm_samples,
            )
            for rate in rates
            for number in range(len(self._runs.get(rate, ())), seeds)
        ]
        self._told(f"λ = {', '.join(f'{rate:g}' for rate in rates)}")
        for job, run in zip(jobs, self._perform_all(jobs), strict=True):
            self._runs.setdefault(job.rate_per_s, []).append(run)

    def _groups(self, every_class: bool) -> list[tuple[str, ...]]:
        return [*((kind,) for kind in CLASSES if every_class), CLASSES]

    def _ratio(self, rate: float, kinds: Sequence[str]) -> float:
        run = joined(self._runs[rate])
        return worst_ratio(run, kinds)

    def _outside(self, every_class: bool) -> list[float]:
        """The next rate where some class is still on one side of its SLO everywhere."""
        least, most = min(self._runs), max(self._runs)
        wanted = []
        for kinds in self._groups(every_class):
            if self._ratio(most, kinds) <= 1 and most < MAX_RATE:
                wanted.append(most + 2 * GRID)
            if self._ratio(least, kinds) > 1 and least > LEAST_RATE:
                wanted.append(max(LEAST_RATE, least - 2 * GRID))
        return sorted(set(wanted))

    def _wide(self, every_class: bool) -> list[float]:
        """Midpoints of the cells that contain a crossing and are wider than the grid."""
        rates = sorted(self._runs)
        wanted = set()
        for kinds in self._groups(every_class):
            for left, right in itertools.pairwise(rates):
                holds = self._ratio(left, kinds) <= 1 < self._ratio(right, kinds)
                if holds and right - left > GRID:
                    wanted.add((left + right) / 2)
        return sorted(wanted)

    def _highest(self, kinds: Sequence[str]) -> float:
        rates = sorted(self._runs)
        logs = [math.log(self._ratio(rate, kinds)) for rate in rates]
        return crossing(rates, logs, [1.0] * len(rates))
