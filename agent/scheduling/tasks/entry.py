"""State of a task and its subtasks while they are served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from _core.deadlines.class_advance import limited_advance
from agent.runtime.state_machine import StateMachine
from agent.scheduling.admission import Refused
from agent.scheduling.events import Peer
from agent.scheduling.lifecycle import (
    SUBTASK_TRANSITIONS,
    TASK_TRANSITIONS,
)
from agent.scheduling.result_budget import ResultBudget, gap_of
from agent.scheduling.shared_budget import Holding
from agent.scheduling.tasks.deadlines import Deadline
from agent.wire.base import Policy
from agent.wire.messages import AreaResult, Budget, Missing, MissingReason, Task, TooLarge

if TYPE_CHECKING:
    from agent.scheduling.tasks.nodes import Node


# A regression follows its farthest samples: one query for all years would hide, for tens of
# thousands of samples, the cost of minutes and hours. Longer windows count as a day.
LONGEST_SIZE_S: Final = 86_400.0

# IAD, wall time, start, task, label, policy, window, enqueued, deadline: see `records`.
SubtaskHeading = tuple[str, int, float, str, str, Policy, float, float, float]


class TaskEntry(StateMachine):
    """A task being served: what is still pending and what has come back, as far as it has `room`
    for it. `origin` is where its result goes, `iad` that IAD's name; `channels` are those that its
    service gives, `limited`: it gives no others. Its subtasks are enqueued at `enqueued_s`, which
    is t_0, and its budget ends `budget_s` later; `evaluated_s`, when its evaluation had ended, is
    for the records alone."""

    __slots__ = (
        "advance_s", "budget_s", "channels", "deadline", "deadline_s", "enqueued_s", "evaluated_s",
        "fanout", "heading", "held", "held_areas", "hopeless", "iad", "limited", "missing",
        "origin", "pending", "policy", "received_s", "refused", "results", "room", "size", "task",
        "timer", "within", "would_keep",
    )  # fmt: skip

    TRANSITIONS = TASK_TRANSITIONS

    def __init__(
        self,
        task: Task,
        origin: Peer,
        iad: str,
        policy: Policy,
        received_s: float,
        held: Holding,
        held_areas: Holding,
    ) -> None:
        super().__init__()
        self.task = task
        self.origin = origin
        self.iad = iad
        self.channels = task.channels
        self.limited = False
        # The asked areas that its service may ask for.
        self.within: tuple[str, ...] = ()
        self.budget_s = task.budget_ms / 1e3
        # From another IAD: it may advance its own classes up to this bound.
        self.advance_s = limited_advance(task.advance_ms / 1e3, self.budget_s)
        # Determines the expected time of its subtasks (`DeadlineEstimator.expected_s`).
        self.size = min(task.window.length_s, LONGEST_SIZE_S)
        # One of its subtasks was demoted: the others need not be early either.
        self.hopeless = False
        self.policy = policy
        self.received_s = received_s
        self.enqueued_s = received_s
        self.evaluated_s = received_s
        self.deadline: Deadline | None = None
        self.deadline_s = received_s
        self.fanout = 0
        self.heading: SubtaskHeading
        self.pending: set[SubtaskEntry] = set()
        self.results: list[AreaResult] = []
        self.room = ResultBudget()
        # Its part of the budgets for all answers of this master, and for areas of open tasks.
        self.held = held
        self.held_areas = held_areas
        # The reason why it was given up while subtasks were in flight.
        self.refused: Refused | None = None
        # Of an infeasible one: budgets that idle nodes keep.
        self.would_keep: tuple[Budget, ...] = ()
        self.missing: list[Missing] = []
        self.timer = -1

    def __repr__(self) -> str:
        return f"<task {self.task.id} {self.state}, {len(self.pending)} pending>"

    def beyond(self) -> TooLarge:
        """The size that its result would have had, as estimated by now."""
        come = self.fanout - len(self.pending) + 1
        # Buckets are as many, however long the window is.
        length_s = 0.0 if self.task.form == "buckets" else self.task.window.length_s
        return self.room.told(length_s, self.fanout, come)


class SubtaskEntry(StateMachine):
    """One node's share of a task. `dispatches` counts how often it was sent: more than once when
    the node's link was cut; `id` changes each time, so a late result is never mistaken."""

    __slots__ = (
        "areas", "demoted", "dispatched_s", "dispatches", "handle", "id", "node",
        "parent", "unbroken",
    )  # fmt: skip

    TRANSITIONS = SUBTASK_TRANSITIONS

    def __init__(self, parent: TaskEntry, node: Node, areas: list[str]) -> None:
        super().__init__("queued")
        self.parent = parent
        self.node = node
        self.areas = areas
        self.handle = -1
        self.id = -1
        self.dispatched_s: float | None = None
        self.dispatches = 0
        self.demoted = False
        self.unbroken = True

    def __repr__(self) -> str:
        return (
            f"<subtask {self.id} of {self.parent.task.id} at {self.node.name} {self.state}, "
            f"enqueued {self.parent.enqueued_s}, dispatched {self.dispatched_s} "
            f"×{self.dispatches}>"
        )

    def lose(
        self, reason: MissingReason, channels: tuple[str, ...] = (), message: str = ""
    ) -> None:
        """Record that this node's areas have no answer; the arguments are as in `Missing`."""
        missing = self.parent.missing
        missing.extend(Missing(area, reason, channels, message) for area in self.areas)

    def lose_too_large(self, found: TooLarge, most: int) -> None:
        """Record that its readings are more than the `most` bytes that fit."""
        self.parent.missing.extend(gap_of(area, found, most) for area in self.areas)
