"""Dispatcher: from the edge nodes' queues to their idle pods, the most urgent subtask first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from _core.queue.policy import DEMOTED, DEMOTING, POLICIES, hopeless, policy_key
from agent.scheduling.events import Instruction, SendToNode
from agent.scheduling.tasks.entry import Node, SubtaskEntry, TaskEntry
from agent.wire.base import Policy
from agent.wire.node_messages import Subtask


class Dispatcher:
    """Orders the queues by a policy, and numbers dispatched subtasks.

    `expected_s(column, size)` is a node's expected time, in seconds.
    """

    __slots__ = ("_code", "_demotes", "_expected_s", "_next_id", "demoted", "policy")

    def __init__(
        self, policy: Policy, expected_s: Callable[[int, float], float], first_subtask_id: int
    ) -> None:
        self._order_by(policy)
        self._expected_s = expected_s
        self._next_id = first_subtask_id
        self.demoted = 0

    def _order_by(self, policy: Policy) -> None:
        self.policy: Policy = policy
        self._code = POLICIES[policy]
        self._demotes = policy in DEMOTING

    def key(self, entry: TaskEntry) -> float:
        """The queue key of a task's subtasks: the smallest is first."""
        return policy_key(
            self._code, entry.enqueued_s, entry.budget_s, entry.deadline_s, entry.advance_s
        )

    def put_back(self, subtask: SubtaskEntry) -> None:
        """Return a subtask that its node does not run to its former place in the queue."""
        subtask.become("queued")
        subtask.demoted = False
        subtask.handle = subtask.node.queue.push(self.key(subtask.parent), subtask)

    def serve(self, node: Node, now: float, instructions: list[Instruction]) -> None:
        """Dispatch from the node's queue while it has an idle pod."""
        while node.queue and node.idle_pods > 0:
            if self._demotes:
                self._demote_hopeless(node, now)
            subtask = node.queue.pop()
            subtask.become("dispatched")
            subtask.id = self._next_id
            self._next_id += 1
            subtask.dispatched_s = now
            subtask.dispatches += 1
            subtask.unbroken = True
            node.busy[subtask.id] = subtask
            entry = subtask.parent
            task = entry.task
            form = task.form
            assert form != "about"
            if form == "buckets" and not node.hello.makes_buckets:
                form = "series"
            instructions.append(
                SendToNode(
                    node.peer,
                    Subtask(
                        subtask.id,
                        task.window,
                        entry.channels,
                        form,
                        task.emulation_seed,
                        task.bucket_ms if form == "buckets" else 0,
                    ),
                )
            )

    def _demote_hopeless(self, node: Node, now: float) -> None:
        """Demote subtasks that can hardly end within their budget, until the first in the queue can
        or is demoted already. A task that is late at one node is late."""
        while not (subtask := node.queue.peek()).demoted:
            entry = subtask.parent
            if not entry.hopeless:
                expected_s = self._expected_s(node.column, entry.size)
                if not hopeless(now, expected_s, entry.enqueued_s + entry.budget_s):
                    return
                entry.hopeless = True
            subtask.demoted = True
            self.demoted += 1
            node.queue.rekey(subtask.handle, self.key(entry) + DEMOTED)

    def reorder(self, policy: Policy, entries: Iterable[TaskEntry]) -> None:
        """Switch to another policy: the waiting subtasks of these open tasks are reordered."""
        self._order_by(policy)
        for entry in entries:
            for subtask in entry.pending:
                if subtask.state == "queued":
                    subtask.demoted = False
                    subtask.node.queue.rekey(subtask.handle, self.key(entry))
