"""The master's own dispatch of messages in virtual time: a campaign without a machine's noise.

The queue, the workers and their processors are those of a master (`agent.processing`); only the
time that a worker takes is made up: the CPU time of the message, on a core of its own.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import count
from random import Random
from typing import Final

import msgspec

from agent.processing.definition import Definition
from agent.processing.events import (
    Arrived,
    Create,
    Event,
    Finished,
    Instruction,
    Load,
    Loaded,
    Run,
    Snapshotted,
    StartWorker,
    TakeSnapshot,
    WorkerReady,
)
from agent.processing.processing import Processing
from fleet.placement.campaign.cases import Case, arrivals
from fleet.placement.campaign.run import INTERVALS
from fleet.placement.campaign.stays import OBJECTIVE_S, Interval, Processed
from lab.placement.real.outcomes import Outcome, outcome

NONE: Final = msgspec.msgpack.encode([])
BODY: Final = msgspec.msgpack.encode({"n": 1})
STATE: Final = msgspec.msgpack.encode({})
PERCENTILE: Final = 90.0


class VirtualMaster:
    """The processors of one configuration; `now` is virtual. Messages are due `objective_s` after
    their arrival."""

    def __init__(self, case: Case, workers: int, objective_s: float = OBJECTIVE_S) -> None:
        self.now = 0.0
        self._cpu_s = {f"t{number}": load.cpu_ms / 1e3 for number, load in enumerate(case)}
        self._processing = Processing(workers)
        self._answers: list[tuple[float, int, Event]] = []
        self._order = count()
        self._topic: dict[int, str] = {}
        self._positions = dict.fromkeys(self._cpu_s, 0)
        self._perform(self._processing.start(0.0))
        for name in self._cpu_s:
            definition = Definition(name=name, processor="busy", slo_s=objective_s)
            self._perform(self._processing.handle(Create(definition), 0.0))

    def arrive(self, at_s: float, name: str) -> None:
        """A message comes."""
        self.run(at_s)
        self._positions[name] += 1
        event = Arrived(name, self._positions[name], BODY)
        self._perform(self._processing.handle(event, self.now))

    def run(self, until_s: float) -> None:
        """Do everything that happens until then."""
        while True:
            answer_s = self._answers[0][0] if self._answers else until_s
            due_s = self._processing.next_due
            next_s = min(answer_s, until_s if due_s is None else due_s)
            if next_s >= until_s:
                self.now = until_s
                return
            self.now = max(self.now, next_s)
            if answer_s <= next_s:
                event = heapq.heappop(self._answers)[2]
                self._perform(self._processing.handle(event, self.now))
            else:
                self._perform(self._processing.tick(self.now))

    def outcomes(self) -> list[Outcome]:
        """How each topic did so far."""
        found = []
        for name, sent in self._positions.items():
            counted = self._processing.status_of(name, self.now).counters
            p90_s = self._processing.latency_s(name, PERCENTILE, self.now)
            found.append(outcome(sent, counted.processed, counted.late, p90_s))
        return found

    def interval(self, begin_s: float, cores: int, workers: int) -> Interval:
        """What a master's records say of the time since `begin_s`."""
        rows = []
        for name in self._cpu_s:
            found = self._processing.next_interval(name, PERCENTILE, self.now)
            spreads = found.spreads
            known = found.counters.processed > 0
            rows.append(
                Processed(
                    name,
                    found.counters.arrived,
                    found.counters.processed,
                    spreads["cpu"].mean_s * 1e3 if known else None,
                    spreads["latency"].p90_s * 1e3 if known else None,
                    None,
                )
            )
        return Interval("virtual", begin_s, self.now - begin_s, cores, workers, tuple(rows))

    def _perform(self, instructions: Iterable[Instruction]) -> None:
        for one in instructions:
            match one:
                case StartWorker(worker):
                    self._answer(0.0, WorkerReady(worker))
                case Load(worker, incarnation, definition):
                    self._topic[incarnation] = definition.name
                    self._answer(0.0, Loaded(worker, incarnation))
                case Run(worker, incarnation):
                    cpu_s = self._cpu_s[self._topic[incarnation]]
                    self._answer(cpu_s, Finished(worker, incarnation, NONE, cpu_s, 0, STATE))
                case TakeSnapshot(worker, incarnation):
                    self._answer(0.0, Snapshotted(worker, incarnation, STATE))

    def _answer(self, after_s: float, event: Event) -> None:
        heapq.heappush(self._answers, (self.now + after_s, next(self._order), event))


def run(
    case: Case, cores: int, seconds: float, drain_s: float, objective_s: float, draw: Random
) -> list[Outcome]:
    """How each topic does that is published to for so long, when what was sent is processed, or
    `drain_s` later."""
    master = VirtualMaster(case, cores, objective_s)
    for at_s, topic in arrivals(case, seconds, draw):
        master.arrive(at_s, f"t{topic}")
    master.run(seconds + drain_s)
    return master.outcomes()


def campaign(cases: Sequence[Case], cores: int, interval_s: float, seed: int) -> list[Interval]:
    """The intervals of a campaign, a configuration after another, as a lake would have them."""
    draw = Random(seed)
    found = []
    for number, case in enumerate(cases):
        master = VirtualMaster(case, cores)
        waiting = arrivals(case, INTERVALS * interval_s, draw)
        at_s, topic = next(waiting, (float("inf"), 0))
        for interval in range(INTERVALS):
            end_s = (interval + 1) * interval_s
            while at_s < end_s:
                master.arrive(at_s, f"t{topic}")
                at_s, topic = next(waiting, (float("inf"), 0))
            master.run(end_s)
            one = master.interval(interval * interval_s, cores, cores)
            # Configurations are apart by more than an interval.
            start_s = one.start_s + number * (INTERVALS + 2) * interval_s
            found.append(msgspec.structs.replace(one, start_s=start_s))
    return found
