"""Task scheduler: one deadline per task, one queue per edge node, the most urgent subtask first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from _core.policy import POLICIES, policy_key
from agent.scheduling.aggregation import merge_missing, merge_results
from agent.scheduling.deadlines import DeadlineEstimator
from agent.scheduling.events import (
    Instruction,
    NodeAlive,
    NodeJoined,
    NodeLeft,
    NodePods,
    PolicyChanged,
    SendTaskResult,
    SendToNode,
    SubtaskReturned,
    TaskArrived,
    TaskCancelled,
    TaskEvent,
    Tick,
    WriteRecord,
)
from agent.scheduling.nodes import Node, NodeTable
from agent.scheduling.records import subtask_heading, subtask_record, task_record
from agent.scheduling.task_entry import SubtaskEntry, TaskEntry
from agent.scheduling.timers import Timers
from agent.wire.base import Policy
from agent.wire.messages import (
    AreaResult,
    Gap,
    Heartbeat,
    HelloWanted,
    Missing,
    Refusal,
    Rejected,
    Status,
    Subtask,
    SubtaskResult,
    TaskResult,
    Welcome,
)
from agent.wire.operator import NodeStatus
from agent.wire.records import SubtaskOutcome

# One in so many infeasible tasks is served.
PROBE_EVERY = 10
MOST_NODES = 10_000
MOST_OPEN_TASKS = 10_000
OVERLOADED = f"{MOST_OPEN_TASKS} tasks are open here; try again later"
INFEASIBLE = "the SLO cannot be met even by idle nodes; allow more time or ask fewer areas"


class TaskScheduler:
    """Serves the tasks of one IAD.

    A subtask is dispatched when a pod of its node is idle and nothing in the node's queue is more
    urgent by the policy. The queueing deadline orders the queue and nothing else; only the answer
    timeout gives up. A subtask whose node is lost stays queued until then: the node may return.

    `stopwatch` reads the clock that `now` comes from: it times evaluation and aggregation, and
    decides nothing; without one they take no time. `first_subtask_id` differs from start to start,
    so that a node's result for a master that is gone is not taken for an answer to its successor.
    """

    def __init__(
        self,
        iad: str,
        estimator: DeadlineEstimator,
        *,
        policy: Policy = "edfq",
        heartbeat_s: float = 1.0,
        lost_after: int = 3,
        wall_offset_s: float = 0.0,
        stopwatch: Callable[[], float] | None = None,
        first_subtask_id: int = 1,
    ) -> None:
        self._iad = iad
        self._estimator = estimator
        self._policy: Policy = policy
        self._policy_code = POLICIES[policy]
        self._heartbeat_s = heartbeat_s
        self._silence_s = heartbeat_s * lost_after
        self._wall_offset_s = wall_offset_s
        self._nodes = NodeTable()
        self._stopwatch = stopwatch
        self._infeasible_count = 0
        self._next_subtask_id = first_subtask_id
        self._open: dict[TaskEntry, None] = {}
        self._timeouts: Timers[TaskEntry] = Timers()
        self._silences: Timers[Node] = Timers()
        self._handlers: dict[type, Callable[[Any, float], list[Instruction]]] = {
            TaskArrived: self._task_arrived,
            SubtaskReturned: self._subtask_returned,
            NodeJoined: self._node_joined,
            NodeAlive: self._node_alive,
            NodeLeft: self._node_left,
            PolicyChanged: self._policy_changed,
            Tick: self._tick,
            TaskCancelled: self._not_yet,
            NodePods: self._not_yet,
        }
        self.counters = {
            "tasks": 0,
            "subtasks": 0,
            "deadlines_missed": 0,
            "duplicate_or_unknown_results": 0,
            "late_results": 0,
            "redispatched": 0,
        }

    def _not_yet(self, _event: Any, _now: float) -> list[Instruction]:
        return []

    # --- what the shell asks -----------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy that orders the queues now."""
        return self._policy

    @property
    def open_tasks(self) -> int:
        """Tasks that wait for subtasks."""
        return len(self._open)

    @property
    def next_tick(self) -> float | None:
        """When `Tick` is due next."""
        due = [t for t in (self._timeouts.next_due(), self._silences.next_due()) if t is not None]
        return min(due, default=None)

    def node_statuses(self) -> tuple[NodeStatus, ...]:
        """Every node that ever said hello, for the operator."""
        return tuple(n.status(self._estimator.samples(n.column)) for n in self._nodes)

    def handle(self, event: TaskEvent, now: float) -> list[Instruction]:
        """Take one event at monotonic time `now` (seconds); what to do follows, in order."""
        return self._handlers[type(event)](event, now)

    # --- tasks -------------------------------------------------------------------------------

    def _task_arrived(self, event: TaskArrived, now: float) -> list[Instruction]:
        self.counters["tasks"] += 1
        task = event.task
        entry = TaskEntry(task, event.origin, self._policy, now)
        if len(self._open) >= MOST_OPEN_TASKS:
            return self._refuse(entry, "overloaded", OVERLOADED, now)
        asked: list[tuple[Node, list[str]]] = []
        covering = self._nodes.covering(task.areas)
        for node, areas in covering.nodes:
            if node.state == "live":
                asked.append((node, areas))
            else:
                entry.missing.extend(Missing(area, "node_down") for area in areas)
        entry.missing.extend(Missing(area, "no_node") for area in covering.unmatched)
        if not asked:
            return self._finish(entry, now)

        budget_s = task.budget_ms / 1e3
        deadline = self._estimator.deadline(
            [node.column for node, _ in asked], task.percentile, budget_s, now
        )
        t_0 = self._read(now)
        entry.deadline = deadline
        entry.deadline_s = t_0 + deadline.queueing_budget_s
        entry.evaluated_s = t_0
        entry.fanout = len(asked)
        if deadline.infeasible and not self._is_probe():
            return self._refuse(entry, "infeasible", INFEASIBLE, now)
        entry.become("open")
        entry.heading = subtask_heading(self._iad, entry, self._wall_offset_s)
        self._open[entry] = None
        entry.timer = self._timeouts.set(now + task.timeout_ms / 1e3, entry)
        key = policy_key(self._policy_code, t_0, budget_s, entry.deadline_s)
        instructions: list[Instruction] = []
        for node, areas in asked:
            subtask = SubtaskEntry(entry, node, areas)
            entry.pending.add(subtask)
            subtask.handle = node.queue.push(key, subtask)
            self._serve(node, t_0, instructions)
        return instructions

    def _is_probe(self) -> bool:
        """Whether an infeasible task is served all the same: now and then, since a window that gets
        no samples would never learn that its nodes have recovered."""
        self._infeasible_count += 1
        return self._infeasible_count % PROBE_EVERY == 0

    def _refuse(
        self, entry: TaskEntry, reason: Refusal, message: str, now: float
    ) -> list[Instruction]:
        entry.become("refused")
        result = TaskResult(
            id=entry.task.id,
            status="refused",
            total_ms=(self._read(now) - entry.received_s) * 1e3,
            reason=reason,
            message=message,
        )
        return self._send(entry, result)

    def _finish(self, entry: TaskEntry, now: float) -> list[Instruction]:
        if entry.timer >= 0:
            self._timeouts.cancel(entry.timer)
            entry.timer = -1
        self._open.pop(entry, None)
        results = merge_results(entry.results)
        missing = merge_missing(entry.missing, results)
        status: Status = "partial" if missing else "complete"
        entry.become(status)
        result = TaskResult(
            id=entry.task.id,
            status=status,
            total_ms=(self._read(now) - entry.received_s) * 1e3,
            results=results,
            missing=missing,
        )
        return self._send(entry, result)

    def _send(self, entry: TaskEntry, result: TaskResult) -> list[Instruction]:
        record = task_record(self._iad, entry, result, self._wall_offset_s)
        return [SendTaskResult(entry.origin, result), WriteRecord(record)]

    def _timed_out(self, entry: TaskEntry, now: float) -> list[Instruction]:
        entry.timer = -1
        instructions: list[Instruction] = []
        for subtask in sorted(entry.pending, key=lambda s: s.node.name):
            reason: Gap = "timeout" if subtask.node.state == "live" else "node_down"
            if subtask.state == "queued":
                subtask.node.queue.remove(subtask.handle)
            self._give_up(subtask, reason, now, instructions)
        return instructions

    def _give_up(
        self, subtask: SubtaskEntry, reason: Gap, now: float, instructions: list[Instruction]
    ) -> None:
        """Settle a subtask without a result; it is in no queue any more."""
        subtask.become("expired" if subtask.state == "queued" else "abandoned")
        subtask.lose(reason)
        self._settle(subtask, reason, now, None, instructions)

    def _settle(
        self,
        subtask: SubtaskEntry,
        outcome: SubtaskOutcome,
        now: float,
        result: SubtaskResult | None,
        instructions: list[Instruction],
    ) -> None:
        """Record a subtask's end, and end its task if it was the last."""
        record = subtask_record(subtask, outcome, result, now)
        self.counters["subtasks"] += 1
        self.counters["deadlines_missed"] += record.missed_deadline
        instructions.append(WriteRecord(record))
        entry = subtask.parent
        entry.pending.discard(subtask)
        if not entry.pending:
            instructions += self._finish(entry, now)

    def _read(self, now: float) -> float:
        return now if self._stopwatch is None else self._stopwatch()

    # --- subtasks ----------------------------------------------------------------------------

    def _serve(self, node: Node, now: float, instructions: list[Instruction]) -> None:
        """Dispatch from the node's queue while it has an idle pod."""
        while node.queue and node.idle_pods > 0:
            subtask = node.queue.pop()
            subtask.become("dispatched")
            subtask.id = self._next_subtask_id
            self._next_subtask_id += 1
            subtask.dispatched_s = now
            subtask.dispatches += 1
            subtask.unbroken = True
            node.busy[subtask.id] = subtask
            task = subtask.parent.task
            instructions.append(
                SendToNode(
                    node.peer,
                    Subtask(subtask.id, task.window, task.channels, task.form, task.emulation_seed),
                )
            )

    def _subtask_returned(self, event: SubtaskReturned, now: float) -> list[Instruction]:
        node = self._nodes.on(event.peer)
        if node is None:
            return [SendToNode(event.peer, HelloWanted())]
        result = event.result
        instructions: list[Instruction] = []
        self._heard(node, now)
        subtask = node.busy.pop(result.id, None)
        if subtask is None:
            node.strangers.discard(result.id)
            self.counters["duplicate_or_unknown_results"] += 1
            self._serve(node, now, instructions)
            return instructions
        late = subtask.state == "abandoned"
        subtask.become("returned")
        assert subtask.dispatched_s is not None
        if subtask.unbroken and result.outcome != "error":
            self._estimator.observe(node.column, now - subtask.dispatched_s, now)
        if node.queue:
            self._serve(node, now, instructions)
        if late:
            self.counters["late_results"] += 1
            return instructions
        self._settle(subtask, _collect(subtask, result), now, result, instructions)
        return instructions

    # --- nodes -------------------------------------------------------------------------------

    def _node_joined(self, event: NodeJoined, now: float) -> list[Instruction]:
        hello, peer = event.hello, event.peer
        instructions: list[Instruction] = []
        speaker = self._nodes.on(peer)
        if speaker is not None and speaker.name != hello.node:
            return [SendToNode(peer, Rejected(f"this link speaks for {speaker.name}"))]
        node = self._nodes.named(hello.node)
        if node is None:
            if len(self._nodes) >= MOST_NODES:
                return [SendToNode(peer, Rejected(f"this master has {MOST_NODES} nodes already"))]
            node = Node(hello.node, self._estimator.add_node())
        else:
            if node.hello.incarnation != hello.incarnation:
                if hello.incarnation in node.displaced and node.state == "live":
                    text = f"another node named {hello.node} is at work here"
                    return [SendToNode(peer, Rejected(text))]
                node.displaced.append(node.hello.incarnation)
            if node.hello.areas != hello.areas:
                # What waits for it asks for readings that it no longer stands for.
                self._give_up_all(node, now, instructions)
        self._nodes.bind(node, hello, peer)
        node.become("live")
        self._reconcile(node, set(hello.running), before_s=math.inf)
        for subtask in node.busy.values():
            # Its response time will hold the cut: not an unloaded one.
            subtask.unbroken = False
        self._heard(node, now)
        instructions.append(SendToNode(peer, Welcome(hello.incarnation, self._heartbeat_s)))
        self._serve(node, now, instructions)
        return instructions

    def _reconcile(self, node: Node, running: set[int], before_s: float) -> None:
        """Compare with what the node says that its pods run. What it was sent before `before_s` and
        does not run was lost on the way: it goes back to its queue, in its place."""
        for subtask_id, subtask in list(node.busy.items()):
            assert subtask.dispatched_s is not None
            if subtask_id in running or subtask.dispatched_s >= before_s:
                continue
            del node.busy[subtask_id]
            if subtask.state == "abandoned":
                subtask.become("forgotten")
                continue
            self.counters["redispatched"] += 1
            subtask.become("queued")
            subtask.handle = node.queue.push(self._key(subtask), subtask)
        node.strangers = running.difference(node.busy)

    def _give_up_all(self, node: Node, now: float, instructions: list[Instruction]) -> None:
        """Settle all that waits for the node or runs there."""
        while node.queue:
            self._give_up(node.queue.pop(), "node_down", now, instructions)
        for subtask in node.busy.values():
            if subtask.state == "dispatched":
                self._give_up(subtask, "node_down", now, instructions)

    def _key(self, subtask: SubtaskEntry) -> float:
        entry = subtask.parent
        return policy_key(
            self._policy_code, entry.evaluated_s, entry.task.budget_ms / 1e3, entry.deadline_s
        )

    def _node_alive(self, event: NodeAlive, now: float) -> list[Instruction]:
        node = self._nodes.on(event.peer)
        if node is None or node.hello.incarnation != event.incarnation:
            return [SendToNode(event.peer, HelloWanted())]
        instructions: list[Instruction] = [SendToNode(event.peer, Heartbeat(event.incarnation))]
        self._heard(node, now)
        if event.running is not None:
            # What was dispatched since the last heartbeat may not have reached the node yet.
            self._reconcile(node, set(event.running), before_s=node.beat_s)
            node.beat_s = now
        self._serve(node, now, instructions)
        return instructions

    def _node_left(self, event: NodeLeft, now: float) -> list[Instruction]:
        instructions: list[Instruction] = []
        node = self._nodes.on(event.peer)
        if node is not None and node.hello.incarnation == event.incarnation:
            node.become("left")
            self._nodes.unbind(node)
            self._give_up_all(node, now, instructions)
            self._reconcile(node, set(), before_s=math.inf)
        return instructions

    def _heard(self, node: Node, now: float) -> None:
        """The node spoke. One silence timer per node is enough: it looks at `seen_s`."""
        if node.state == "lost":
            node.become("live")
        if not node.watched:
            node.watched = True
            self._silences.set(now + self._silence_s, node)
        node.seen_s = now

    def _silence(self, node: Node, now: float) -> None:
        due = node.seen_s + self._silence_s
        if node.state != "live":
            node.watched = False
        elif due > now:
            self._silences.set(due, node)
        else:
            node.watched = False
            node.become("lost")

    # --- the rest ----------------------------------------------------------------------------

    def _policy_changed(self, event: PolicyChanged, _now: float) -> list[Instruction]:
        self._policy = event.policy
        self._policy_code = POLICIES[event.policy]
        for entry in self._open:
            for subtask in entry.pending:
                if subtask.state == "queued":
                    subtask.node.queue.rekey(subtask.handle, self._key(subtask))
        return []

    def _tick(self, _event: Tick, now: float) -> list[Instruction]:
        for node in self._silences.due(now):
            self._silence(node, now)
        return [i for entry in self._timeouts.due(now) for i in self._timed_out(entry, now)]

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        queued = dispatched = 0
        for entry in self._open:
            assert entry.state == "open"
            assert entry.pending
            for subtask in entry.pending:
                assert subtask.parent is entry
                assert subtask.state in ("queued", "dispatched")
                queued += subtask.state == "queued"
                dispatched += subtask.state == "dispatched"
                assert (subtask.node.busy.get(subtask.id) is subtask) == (
                    subtask.state == "dispatched"
                )
        assert len(self._open) == len(self._timeouts)
        assert queued == sum(len(node.queue) for node in self._nodes)
        for node in self._nodes:
            assert node.idle_pods <= 0 or not node.queue, "an idle pod while work waits"
            assert (self._nodes.on(node.peer) is node) == (node.peer is not None)
            dispatched -= sum(s.state == "dispatched" for s in node.busy.values())
            assert all(s.state in ("dispatched", "abandoned") for s in node.busy.values())
        assert dispatched == 0


def _collect(subtask: SubtaskEntry, result: SubtaskResult) -> SubtaskOutcome:
    """Add a subtask's result to its task, in the form asked for; the outcome for the record."""
    as_series = subtask.parent.task.form == "series"
    series = result.series if as_series else None
    aggregate = None if as_series else result.aggregate
    if result.outcome == "ok" and (series is not None or aggregate is not None):
        for area in subtask.areas:
            subtask.parent.results.append(AreaResult(area, series, aggregate))
        return "ok"
    reason: Gap = "no_data" if result.outcome == "no_data" else "node_error"
    subtask.lose(reason)
    return reason
