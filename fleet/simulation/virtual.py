"""Discrete-event simulation: the real masters' schedulers in virtual time.

The same `QueryScheduler` and `TaskScheduler` decide as under the sockets; only clock, network and
nodes are imitated. What a result rests on is in docs/decisions/0004-virtual-time.md.
"""

from __future__ import annotations

import heapq
import random
import sys
from array import array
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from agent.scheduling.events import (
    Instruction,
    NodeJoined,
    QueryArrived,
    SendAnswer,
    SendCancel,
    SendTask,
    SendTaskResult,
    SendToNode,
    SubtaskReturned,
    TaskArrived,
    TaskCancelled,
    TaskReturned,
    Tick,
)
from agent.scheduling.queries.scheduler import QueryScheduler
from agent.scheduling.shared_budget import SharedBudget
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.base import Policy
from agent.wire.emulation import PROFILES, service_time_s
from agent.wire.market import Member
from agent.wire.messages import Aggregate, Answer, ChannelAggregate, Series
from agent.wire.node_messages import Hello, Subtask, SubtaskResult
from agent.wire.packed import Float32Column, Int64Column
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout
from fleet.simulation.measures import Outcome
from fleet.simulation.workload import MAX_WINDOW_S, Arrival

# Number of unloaded response times in each node's window before the first query.
WARM_SAMPLES: Final = 10_000
PROGRESS_EVERY: Final = 256
# A node's readings do not matter here, only that they are in the requested form.
SERIES: Final = Series(Int64Column.of([0]), {"temperature": Float32Column.of([0.0])})
AGGREGATE: Final = Aggregate(0, 0, {"temperature": ChannelAggregate(1, 0.0, 0.0, 0.0)})
# There are no heartbeats here: no node falls silent.
NEVER_LOST: Final = 10**12

# (node, emulation seed, length of the window in seconds) → seconds that its pod serves the subtask.
ServiceTime = Callable[[NodeLayout, int | None, float], float]


class Delays(Struct, frozen=True):
    """The time of a query outside queues and pods, in seconds: DSSP's measured means."""

    query_evaluation_s: float = 0.00257
    task_evaluation_s: float = 0.00133
    communication_s: float = 0.00287
    aggregation_s: float = 0.00031


TESTBED_DELAYS: Final = Delays()
NO_DELAYS: Final = Delays(0.0, 0.0, 0.0, 0.0)


def emulated(node: NodeLayout, seed: int | None, window_s: float) -> float:
    """The service time that the real node's pod would draw, in seconds."""
    return service_time_s(PROFILES[node.profile], node.name, seed, window_s)


# Fleets are compared under several policies: all draws of one take seconds.
@lru_cache(maxsize=64)
def warm_times(
    service: ServiceTime, node: NodeLayout, samples: int
) -> tuple[array[float], array[float]]:
    """Lengths of windows in seconds, and the service times that `node` draws for them: the same
    whenever they are asked for, as `service` depends on its arguments alone."""
    draw = random.Random(f"warm {node.name}")
    draw_window = random.Random(f"warm windows {node.name}")
    windows_s, served_s = array("d"), array("d")
    for _ in range(samples):
        windows_s.append(draw_window.uniform(1.0, MAX_WINDOW_S))
        served_s.append(service(node, draw.getrandbits(53), windows_s[-1]))
    return windows_s, served_s


class _Plane:
    """One scheduler of one IAD, and the tick that is on the heap for it."""

    __slots__ = ("handle", "iad", "scheduler", "tick_s")

    def __init__(self, iad: str, scheduler: Any) -> None:
        self.iad = iad
        self.scheduler = scheduler
        self.handle: Callable[[Any, float], list[Instruction]] = scheduler.handle
        self.tick_s = float("inf")


class VirtualFleet:
    """A fleet in virtual time under one policy; `run` takes one trace.

    Deterministic: the same plan, policy, trace and draws give the same outcomes. `check` holds
    the schedulers' invariants against every step: a pod never idles while its queue has work.
    """

    def __init__(
        self,
        plan: FleetLayout,
        policy: Policy,
        *,
        service: ServiceTime = emulated,
        delays: Delays = TESTBED_DELAYS,
        warm_samples: int = WARM_SAMPLES,
        check: bool = False,
    ) -> None:
        self._plan = plan
        self._service = service
        self._delays = delays
        self._check = check
        self._heap: list[tuple[float, int, _Plane, Any]] = []
        self._pushed = 0
        self._nodes = {node.name: node for node in plan.nodes}
        self._outcomes: list[Outcome] = []
        self._open: dict[str, Arrival] = {}
        self._progress: Callable[[int], None] = lambda _answered: None
        pool = [Member(iad.name, "virtual", iad.areas) for iad in plan.iads]
        self._queries = {
            iad.name: _Plane(iad.name, QueryScheduler(iad.name, pool, run=iad.name))
            for iad in plan.iads
        }
        self._tasks = {
            iad.name: _Plane(iad.name, self._task_scheduler(iad, policy, warm_samples))
            for iad in plan.iads
        }

    def _task_scheduler(self, iad: IadLayout, policy: Policy, warm_samples: int) -> TaskScheduler:
        estimator = DeadlineEstimator()
        # Queues are simulated, memory is not.
        scheduler = TaskScheduler(
            iad.name,
            estimator,
            policy=policy,
            lost_after=NEVER_LOST,
            budget=SharedBudget(sys.maxsize),
        )
        for column, node in enumerate(iad.nodes):
            # The peer, opaque to the scheduler, is the node's name.
            scheduler.handle(NodeJoined(node.name, _hello(node)), 0.0)
            for window_s, served_s in zip(
                *warm_times(self._service, node, warm_samples), strict=True
            ):
                unloaded_s = served_s + self._delays.communication_s
                estimator.observe(column, unloaded_s, 0.0)
                estimator.observe_size(column, window_s, unloaded_s)
        return scheduler

    def run(
        self, trace: Iterable[Arrival], progress: Callable[[int], None] | None = None
    ) -> list[Outcome]:
        """Ask every query of `trace` and continue to the last answer; returns outcomes in order of
        the answers. `progress` is called after every 256 answers."""
        if progress is not None:
            self._progress = progress
        arrivals = iter(trace)
        arrival = next(arrivals, None)
        heap = self._heap
        while arrival is not None or self._open:
            if arrival is not None and (not heap or self._received_s(arrival) <= heap[0][0]):
                self._ask(arrival)
                arrival = next(arrivals, None)
                continue
            now, _, plane, event = heapq.heappop(heap)
            if event is None:
                plane.tick_s = float("inf")
                due = plane.scheduler.next_tick
                if due is not None and due <= now:
                    self._perform(plane, plane.handle(Tick(), now), now)
            else:
                self._perform(plane, plane.handle(event, now), now)
            self._arm(plane)
        return self._outcomes

    def _received_s(self, arrival: Arrival) -> float:
        return arrival.at_s + self._delays.query_evaluation_s

    def _ask(self, arrival: Arrival) -> None:
        query = arrival.query("virtual")
        self._open[query.id] = arrival
        plane = self._queries[arrival.scheduler]
        now = self._received_s(arrival)
        self._perform(plane, plane.handle(QueryArrived(None, query), now), now)
        self._arm(plane)

    def _push(self, at_s: float, plane: _Plane, event: Any) -> None:
        # The count preserves the order of events with equal times.
        self._pushed += 1
        heapq.heappush(self._heap, (at_s, self._pushed, plane, event))

    def _arm(self, plane: _Plane) -> None:
        """Put the scheduler's next tick on the heap, unless an earlier one is there."""
        if self._check:
            plane.scheduler.check_invariants()
        due = plane.scheduler.next_tick
        if due is not None and due < plane.tick_s:
            plane.tick_s = due
            self._push(due, plane, None)

    def _perform(self, plane: _Plane, instructions: list[Instruction], now: float) -> None:
        delays = self._delays
        for instruction in instructions:
            match instruction:
                case SendToNode(peer=name, message=Subtask() as subtask):
                    node, seed = self._nodes[name], subtask.emulation_seed
                    service_s = self._service(node, seed, subtask.window.length_s)
                    result = _found(subtask, service_s * 1e3)
                    at_s = now + delays.communication_s + service_s
                    self._push(at_s, plane, SubtaskReturned(name, result))
                case SendTask(iad=iad, task=task):
                    at_s = now + delays.task_evaluation_s
                    self._push(at_s, self._tasks[iad], TaskArrived(plane.iad, task))
                case SendCancel(iad=iad, task_id=task_id):
                    # It takes as long as the task did, and so comes after it.
                    at_s = now + delays.task_evaluation_s
                    self._push(at_s, self._tasks[iad], TaskCancelled(plane.iad, task_id))
                case SendTaskResult(origin=iad, result=result):
                    at_s = now + delays.aggregation_s
                    self._push(at_s, self._queries[iad], TaskReturned(plane.iad, result))
                case SendAnswer(answer=answer):
                    self._answered(answer, now)
                case _:
                    pass  # records, and the welcome of a node that is not there

    def _answered(self, answer: Answer, now: float) -> None:
        arrival = self._open.pop(answer.id)
        latency_ms = (now - arrival.at_s) * 1e3
        self._outcomes.append(
            Outcome(arrival.number, arrival.kind, arrival.slo_ms, answer.status, latency_ms)
        )
        if len(self._outcomes) % PROGRESS_EVERY == 0:
            self._progress(len(self._outcomes))


def _hello(node: NodeLayout) -> Hello:
    return Hello(
        node=node.name,
        incarnation="virtual",
        history="virtual",
        areas=(node.area,),
        channels=(),
        pods=1,
        version="virtual",
        emulates=node.profile,
    )


def _found(subtask: Subtask, execution_ms: float) -> SubtaskResult:
    if subtask.form == "series":
        return SubtaskResult(subtask.id, "ok", 0.0, execution_ms, series=SERIES)
    return SubtaskResult(subtask.id, "ok", 0.0, execution_ms, aggregate=AGGREGATE)
