"""The sweep's runs on the real fleet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from agent.wire.operator import IadStatus
from fleet.simulation import workload
from fleet.simulation.measures import Outcome
from fleet.simulation.workload import Arrival
from fleet.testbed.load_generator import LoadGenerator, Tick
from fleet.testbed.testbed import Testbed
from lab.testbed.loads import Load
from lab.testbed.measures import Run, run_of

WARM_UP_RATE_PER_S: Final = 8.0
LOOK_EVERY_S: Final = 1.0
DRAINED_WITHIN_S: Final = 30.0


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

    def learn(self, load: Load, told: Tick) -> None:
        """Run `load` so that the masters learn from it; its outcomes are discarded."""
        self._perform(load, f"learning {load.name}", load.trace(self._bed.plan), told)

    def measure(self, load: Load, told: Tick) -> Run:
        """Run `load` until all queries are answered and all queues are empty.

        `TestbedError` if a process ends or a queue does not drain.
        """
        trace = load.trace(self._bed.plan)
        outcomes = self._perform(load, load.name, trace, told)
        encoder = msgspec.json.Encoder()
        (self._folder / f"{load.name}.jsonl").write_bytes(encoder.encode_lines(outcomes))
        return run_of("real", load.policy, load.rate_per_s, outcomes, first=load.first(trace))

    def _perform(self, load: Load, name: str, trace: list[Arrival], told: Tick) -> list[Outcome]:
        self._bed.set_policy(load.policy)
        outcomes = self._replay(trace, name, told)
        self._bed.wait_until(_drained, DRAINED_WITHIN_S)
        return outcomes

    def _replay(self, trace: Sequence[Arrival], name: str, told: Tick) -> list[Outcome]:
        looked_s = -LOOK_EVERY_S

        def tick(now_s: float, answered: int) -> None:
            nonlocal looked_s
            if now_s - looked_s >= LOOK_EVERY_S:
                looked_s = now_s
                self._bed.check()
            told(now_s, answered)

        return self._generator.replay(trace, name, tick)


def _drained(statuses: dict[str, IadStatus]) -> bool:
    nodes = [node for status in statuses.values() for node in status.nodes]
    return not any(node.queued or node.idle_pods < node.pods for node in nodes)
