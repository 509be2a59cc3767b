"""State of a task, of its subtasks while they are served, and of the edge nodes that serve them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from _core.deadlines.class_advance import limited_advance
from _core.queue.edf import EdfQueue
from agent.runtime.state_machine import StateMachine
from agent.scheduling.admission import Refused
from agent.scheduling.events import Peer
from agent.scheduling.lifecycle import (
    NODE_TRANSITIONS,
    SUBTASK_TRANSITIONS,
    TASK_TRANSITIONS,
)
from agent.scheduling.result_budget import ResultBudget, gap_of
from agent.scheduling.shared_budget import CHANNEL_BYTES, TIME_BYTES, Holding
from agent.scheduling.tasks.deadlines import Deadline
from agent.scheduling.tasks.response_times import ResponseTimes
from agent.wire.base import Policy
from agent.wire.codec import MAX_SUBTASK_SERIES_BYTES
from agent.wire.messages import AreaResult, Budget, Missing, MissingReason, Task
from agent.wire.node_messages import Hello, TooLarge
from agent.wire.operator import NodeStatus

# A regression follows its farthest samples: one query for all years would hide, for tens of
# thousands of samples, the cost of minutes and hours. Longer windows count as a day.
MAX_SIZE_S: Final = 86_400.0
# A node that said goodbye may only be restarted. For so long nobody else hands it over to here.
RETURNS_S: Final = 3_600.0

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
        "timeout_s", "timer", "within", "would_keep",
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
        self.size = min(task.window.length_s, MAX_SIZE_S)
        # One of its subtasks was demoted: the others need not be early either.
        self.hopeless = False
        self.policy = policy
        self.received_s = received_s
        # The answer timeout.
        self.timeout_s = received_s + task.timeout_ms / 1e3
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


class Node(StateMachine):
    """One edge node. Its queue lives here; the node itself holds none."""

    __slots__ = (
        "address", "allowed", "beat_s", "busy", "bytes_per_s", "column", "displaced", "hello",
        "home_told_s", "joined_s", "moved_s", "name", "peer", "pods", "queue", "quiet_until_s",
        "response_times", "seen_s", "strangers", "told_pods", "watched",
    )  # fmt: skip

    TRANSITIONS = NODE_TRANSITIONS

    def __init__(self, name: str, column: int) -> None:
        super().__init__()
        self.name = name
        self.column = column
        self.queue: EdfQueue[SubtaskEntry] = EdfQueue()
        self.busy: dict[int, SubtaskEntry] = {}
        self.response_times = ResponseTimes()
        # Bytes per second of window of the most recent series that it sent.
        self.bytes_per_s: float | None = None
        self.hello: Hello
        self.joined_s = -math.inf
        # When it last changed its areas.
        self.moved_s = -math.inf
        # As in `Sender.areas`, when its areas were last compared with them.
        self.allowed: tuple[str, ...] | None = None
        self.peer: Peer = None
        self.address = ""
        self.pods = 0
        # The number of pods that the node was told over this link, until it reports its own.
        self.told_pods: int | None = None
        self.seen_s = 0.0
        self.beat_s = 0.0
        self.watched = False
        # Subtasks that its pods run for a previous master: only their ids are known here.
        self.strangers: set[int] = set()
        # Incarnations that were replaced by a later one: a second machine under the same name.
        self.displaced: deque[str] = deque(maxlen=8)
        # Until then the operator is not told again that there are two.
        self.quiet_until_s = -math.inf
        # When the operator was told that it cannot go to its home.
        self.home_told_s = -math.inf

    def is_gone(self, now: float) -> bool:
        """Whether it said goodbye so long ago that it is not only restarted: it may belong to
        another master now."""
        return self.state == "left" and now >= self.seen_s + RETURNS_S

    def __repr__(self) -> str:
        return f"<node {self.name} {self.state}, {len(self.queue)} queued, {len(self.busy)} busy>"

    def expected_bytes(self, channels: Sequence[str], window_s: float) -> float:
        """The expected size of a series from this node."""
        per_s = self.bytes_per_s
        if per_s is None:
            per_s = TIME_BYTES + CHANNEL_BYTES * len(channels or self.hello.channels)
        return min(per_s * window_s, MAX_SUBTASK_SERIES_BYTES)

    @property
    def may_answer(self) -> bool:
        """Whether a task waits for what runs there. O(busy)."""
        return any(subtask.state == "dispatched" for subtask in self.busy.values())

    @property
    def idle_pods(self) -> int:
        """Idle pods; none while the node is not live. Negative while more are busy than the node
        shall have."""
        if self.state != "live":
            return 0
        # A node that was told to have fewer pods applies that before it reads later messages.
        pods = self.pods if self.told_pods is None else min(self.pods, self.told_pods)
        return pods - len(self.busy) - len(self.strangers)

    def status(self, unloaded_samples: int) -> NodeStatus:
        """For the operator."""
        assert self.state in ("live", "lost", "left")
        return NodeStatus(
            node=self.name,
            state=self.state,  # type: ignore[arg-type]  # narrowed by the assert above
            areas=self.hello.areas,
            pods=self.pods,
            idle_pods=max(0, self.idle_pods),
            queued=len(self.queue),
            unloaded_samples=unloaded_samples,
            emulates=self.hello.emulates,
            version=self.hello.release,
        )
