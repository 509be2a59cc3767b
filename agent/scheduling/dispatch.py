"""From the queues of the edge nodes to their idle pods: the most urgent subtask first."""

from __future__ import annotations

from collections.abc import Iterable

from _core.policy import POLICIES, policy_key
from agent.scheduling.events import Instruction, SendToNode
from agent.scheduling.nodes import Node
from agent.scheduling.task_entry import SubtaskEntry, TaskEntry
from agent.wire.base import Policy
from agent.wire.messages import Subtask


class Dispatcher:
    """Orders the queues by a policy and numbers what leaves them."""

    __slots__ = ("_code", "_next_id", "policy")

    def __init__(self, policy: Policy, first_subtask_id: int) -> None:
        self.policy: Policy = policy
        self._code = POLICIES[policy]
        self._next_id = first_subtask_id

    def key(self, entry: TaskEntry) -> float:
        """Where the subtasks of a task stand in a queue: the least comes first."""
        return policy_key(
            self._code, entry.evaluated_s, entry.task.budget_ms / 1e3, entry.deadline_s
        )

    def put_back(self, subtask: SubtaskEntry) -> None:
        """A subtask that its node does not run goes back to its queue, in its place."""
        subtask.become("queued")
        subtask.handle = subtask.node.queue.push(self.key(subtask.parent), subtask)

    def serve(self, node: Node, now: float, instructions: list[Instruction]) -> None:
        """Dispatch from the node's queue while it has an idle pod."""
        while node.queue and node.idle_pods > 0:
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
            instructions.append(
                SendToNode(
                    node.peer,
                    Subtask(
                        subtask.id, task.window, entry.channels, task.form, task.emulation_seed
                    ),
                )
            )

    def reorder(self, policy: Policy, entries: Iterable[TaskEntry]) -> None:
        """Go on by another policy: what waits of these open tasks gets its new place."""
        self.policy = policy
        self._code = POLICIES[policy]
        for entry in entries:
            for subtask in entry.pending:
                if subtask.state == "queued":
                    subtask.node.queue.rekey(subtask.handle, self.key(entry))
