"""The sweep's runs on the real fleet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from agent.wire.base import Policy
from agent.wire.operator import IadStatus
from fleet.lab import workload
from fleet.lab.load import LoadGenerator, Tick
from fleet.lab.measures import Outcome
from fleet.lab.sweep_measures import Run, run_of
from fleet.lab.sweep_virtual import Job
from fleet.lab.testbed import Testbed
from fleet.lab.workload import Arrival

# Asked and not counted, of a run that is long enough: queues are empty before the first query.
LEAD_S: Final = 3.0
LEAD_OF_RUN: Final = 0.25
WARM_UP_RATE_PER_S: Final = 8.0
LOOK_EVERY_S: Final = 1.0
DRAINED_WITHIN_S: Final = 30.0


class Load(Struct, frozen=True):
    """One run to be made: a policy at a rate, with the trace of `seed`."""

    policy: Policy
    rate_per_s: float
    seed: int

    @property
    def name(self) -> str:
        """In labels of records and file names."""
        return f"{self.policy}@{self.rate_per_s:g}"


class Measured(Struct, frozen=True):
    """One run that was made, and the job that repeats its queries in virtual time."""

    load: Load
    run: Run
    again: Job


class RealFleet:
    """Runs loads on a started `bed`, one after the other."""

    def __init__(self, bed: Testbed, generator: LoadGenerator, folder: Path) -> None:
        self._bed = bed
        self._generator = generator
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def warm_up(self, seconds: float, seed: int) -> None:
        """Let every node's unloaded response time be measured."""
        trace = workload.warm_up(
            self._bed.plan, seconds=seconds, rate_per_s=WARM_UP_RATE_PER_S, seed=seed
        )
        self._replay(trace, workload.WARM_UP, lambda _now, _answered: None)

    def measure(self, load: Load, seconds: float, told: Tick) -> Measured:
        """Run `load` for `seconds` after the lead, and until all is answered and no queue is left.

        `TestbedError` if a process ends or a queue does not.
        """
        plan = self._bed.plan
        endless = workload.arrivals(plan, rate_per_s=load.rate_per_s, seed=load.seed)
        trace = workload.within(endless, lead_s(seconds) + seconds)
        first = next((a.number for a in trace if a.at_s >= lead_s(seconds)), len(trace))
        self._bed.set_policy(load.policy)
        outcomes = self._replay(trace, load.name, told)
        encoder = msgspec.json.Encoder()
        (self._folder / f"{load.name}.jsonl").write_bytes(encoder.encode_lines(outcomes))
        self._bed.wait_until(_drained, DRAINED_WITHIN_S)
        run = run_of("real", load.policy, load.rate_per_s, outcomes, first=first)
        again = Job(plan, load.policy, load.rate_per_s, load.seed, len(trace), first=first)
        return Measured(load, run, again)

    def _replay(self, trace: Sequence[Arrival], name: str, told: Tick) -> list[Outcome]:
        looked_s = -LOOK_EVERY_S

        def tick(now_s: float, answered: int) -> None:
            nonlocal looked_s
            if now_s - looked_s >= LOOK_EVERY_S:
                looked_s = now_s
                self._bed.check()
            told(now_s, answered)

        return self._generator.replay(trace, name, tick)


def lead_s(seconds: float) -> float:
    """Seconds before those that count."""
    return min(LEAD_S, LEAD_OF_RUN * seconds)


def _drained(statuses: dict[str, IadStatus]) -> bool:
    nodes = [node for status in statuses.values() for node in status.nodes]
    return not any(node.queued or node.idle_pods < node.pods for node in nodes)


def loads_of(
    policies: Sequence[Policy], rates: dict[Policy, tuple[float, ...]], seed: int
) -> Iterator[Load]:
    """One load per policy and rate, policies in turn, so that a change of the machine meets all of
    them. The n-th rates of all policies have the same trace, faster or slower."""
    for number in range(max(len(some) for some in rates.values())):
        for policy in policies:
            if number < len(rates[policy]):
                yield Load(policy, rates[policy][number], seed * 1_000 + number)
