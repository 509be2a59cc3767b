"""The load steps in virtual time: the real task scheduler and auto-scaler, connected by an event
heap. Its numbers are no measurements; decision 4 says what they rest on."""

from __future__ import annotations

import heapq
from typing import Any, Final

from agent.scheduling.events import (
    Instruction,
    NodeJoined,
    NodePods,
    PodsWanted,
    SendTaskResult,
    SendToNode,
    SubtaskReturned,
    TaskArrived,
    Tick,
    WriteRecord,
)
from agent.scheduling.tasks.autoscale import Autoscaler, Looked, NodeLoad, finished
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.master_config import MasterAutoscale
from agent.wire.messages import Task, Window
from agent.wire.node_messages import Hello, SetPods, Subtask, SubtaskResult
from agent.wire.records import SubtaskRecord
from fleet.simulation.layout import FleetLayout, NodeLayout
from fleet.simulation.virtual import AGGREGATE, emulated, warm_times
from fleet.simulation.workload import PERCENTILE, Arrival
from lab.autoscale.workload import PodsChange, StepsRun, SubtaskEnd, TaskEnd

COMMUNICATION_S: Final = 0.00287
WARM_SAMPLES: Final = 2_000
INCARNATION: Final = "virtual"


class VirtualSteps:
    """One IAD under load, with an auto-scaler; `run` once."""

    def __init__(
        self, plan: FleetLayout, rules: MasterAutoscale, *, most: int = 8, pods: int = 1
    ) -> None:
        self._nodes = {node.name: node for node in plan.nodes}
        self._pods = dict.fromkeys(self._nodes, pods)
        self._scaler = Autoscaler(rules, most)
        self._heap: list[tuple[float, int, Any]] = []
        self._pushed = 0
        self._done = StepsRun([], [PodsChange(0.0, name, pods) for name in self._nodes], [])
        self._asked: dict[str, Arrival] = {}
        estimator = DeadlineEstimator()
        self._tasks = TaskScheduler(plan.iads[0].name, estimator, lost_after=10**12)
        for column, node in enumerate(plan.nodes):
            self._tasks.handle(NodeJoined(node.name, self._hello(node)), 0.0)
            for served_s in warm_times(emulated, node, WARM_SAMPLES)[1]:
                estimator.observe(column, served_s + COMMUNICATION_S, 0.0)

    def _hello(self, node: NodeLayout) -> Hello:
        pods = self._pods[node.name]
        return Hello(node.name, INCARNATION, INCARNATION, (node.area,), (), pods, "1.0")

    def run(self, trace: list[Arrival], seconds: float) -> StepsRun:
        """Run `trace` for `seconds`; queries that are still open then are not counted."""
        for arrival in trace:
            self._push(arrival.at_s, arrival)
        self._push(0.0, _LOOK)
        heap = self._heap
        while heap and heap[0][0] <= seconds:
            now, _, event = heapq.heappop(heap)
            if event is _LOOK:
                self._look(now)
                self._push(self._scaler.next_look, _LOOK)
            elif isinstance(event, Arrival):
                self._asked[str(event.number)] = event
                self._tell(TaskArrived(None, _task(event)), now)
            else:
                self._tell(event, now)
            due = self._tasks.next_tick
            if due is not None and due <= now:
                self._tell(Tick(), now)
            self._tasks.check_invariants()
        return self._done

    def _look(self, now: float) -> None:
        loads = tuple(
            NodeLoad(status.node, status.pods, 1, status.queued)
            for status in self._tasks.node_statuses()
        )
        for scale in self._scaler.handle(Looked(loads), now):
            self._tell(PodsWanted(scale.node, scale.count), now)

    def _push(self, at_s: float, event: Any) -> None:
        # The counter keeps simultaneous events in order of insertion.
        self._pushed += 1
        heapq.heappush(self._heap, (at_s, self._pushed, event))

    def _tell(self, event: Any, now: float) -> None:
        for instruction in self._tasks.handle(event, now):
            self._perform(instruction, now)

    def _perform(self, instruction: Instruction, now: float) -> None:
        match instruction:
            case SendToNode(peer=name, message=Subtask() as subtask):
                seed, window_s = subtask.emulation_seed, subtask.window.length_s
                served_s = emulated(self._nodes[name], seed, window_s)
                result = SubtaskResult(subtask.id, "ok", 0.0, served_s * 1e3, aggregate=AGGREGATE)
                self._push(now + COMMUNICATION_S + served_s, SubtaskReturned(name, result))
            case SendToNode(peer=name, message=SetPods(count=count)):
                self._done.changes.append(PodsChange(now, name, count))
                self._push(now + COMMUNICATION_S, NodePods(name, INCARNATION, count))
            case WriteRecord(record=SubtaskRecord() as record):
                self._done.subtasks.append(SubtaskEnd(now, record.node, record.missed_deadline))
                if (event := finished(record)) is not None:
                    self._scaler.handle(event, now)
            case SendTaskResult(result=result):
                arrival = self._asked.pop(result.id)
                in_time = (now - arrival.at_s) * 1e3 <= arrival.slo_ms
                met = in_time and result.status == "complete"
                self._done.answers.append(TaskEnd(arrival.at_s, met))
            case _:
                pass


_LOOK: Final = object()


def _task(arrival: Arrival) -> Task:
    return Task(
        id=str(arrival.number),
        areas=arrival.areas,
        window=Window(last_s=arrival.last_s),
        percentile=PERCENTILE,
        budget_ms=arrival.slo_ms,
        timeout_ms=4.0 * arrival.slo_ms,
        form="aggregate",
        emulation_seed=arrival.emulation_seed,
    )
