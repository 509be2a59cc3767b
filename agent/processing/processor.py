"""A processor at its master: its messages, checkpoint, failures and state."""

from __future__ import annotations

from collections import deque
from typing import Final

from agent.processing.definition import Definition
from agent.processing.events import Checkpoint, Message
from agent.processing.lifecycle import PROCESSOR_TRANSITIONS
from agent.processing.measures import Measures
from agent.runtime.back_off import BackOff
from agent.runtime.state_machine import StateMachine

FIRST_PAUSE_S: Final = 1.0
MAX_PAUSE_S: Final = 300.0


class Input:
    """A message that waits, or that was processed since the checkpoint. One that is skipped keeps
    its place, but not its body."""

    __slots__ = ("arrived_s", "attempts", "body", "due_s", "position", "skipped")

    def __init__(self, position: int, body: bytes, arrived_s: float, due_s: float) -> None:
        self.position = position
        self.body = body
        self.arrived_s = arrived_s
        self.due_s = due_s
        self.attempts = 0
        self.skipped = False


class Processor(StateMachine):
    """One processor.

    `inputs` are those after the checkpoint, in order; the first `done` of them are in the state
    that the worker has, so a new worker begins with the checkpoint and processes all of them. A
    small state comes with every message: it is the checkpoint at once, and `unsaved` counts the
    messages since the last one that its topic was given.
    """

    TRANSITIONS = PROCESSOR_TRANSITIONS
    __slots__ = (
        "_back_off",
        "accepted",
        "awaited",
        "bytes",
        "checkpoint",
        "definition",
        "done",
        "done_bytes",
        "emitted",
        "epoch",
        "failures",
        "grown_bytes",
        "handing_over",
        "held",
        "incarnation",
        "inputs",
        "last_failure",
        "load_s",
        "loaded",
        "measures",
        "moving",
        "queued",
        "ready_at_s",
        "recovering",
        "skips",
        "snapshot_wanted",
        "timer",
        "unsaved",
        "unsaved_bytes",
        "worker",
    )

    def __init__(self, definition: Definition, epoch: int, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.definition = definition
        self.epoch = epoch
        self.checkpoint = checkpoint
        self.emitted = checkpoint.emitted
        self.accepted = checkpoint.position  # the last position taken in
        self.inputs: deque[Input] = deque()
        self.done = 0
        self.bytes = 0  # of all inputs
        self.done_bytes = 0
        self.unsaved = 0
        self.unsaved_bytes = 0
        self.held = False  # the queue was full, and its topic waits for room
        # The position that there was no room for. Its topic hears of that later, and until then
        # goes on with later ones, for which there may be room again.
        self.awaited = 0
        self.worker: int | None = None  # where its state is
        self.incarnation = 0
        self.loaded = False
        self.load_s = 0.0  # how long that took the last time
        self.moving = False
        self.snapshot_wanted = False
        self.handing_over = False
        self.grown_bytes = 0
        self.ready_at_s = 0.0  # when it began to wait for its worker
        self.failures = 0  # in a row
        self.skips = 0  # in a row, for failing
        self.recovering = False
        self.last_failure = ""
        self.measures = Measures()
        # Its places in the queue and among the timers.
        self.queued: int | None = None
        self.timer: int | None = None
        self._back_off = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)

    def __repr__(self) -> str:
        return f"processor {self.definition.name}"

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.definition.name

    @property
    def waiting(self) -> int:
        """Messages that are not in the state yet."""
        return len(self.inputs) - self.done

    @property
    def head(self) -> Input | None:
        """The oldest message that is not in the state yet."""
        # The done ones are at the left end; both ends of a deque are near.
        return self.inputs[self.done] if self.done < len(self.inputs) else None

    @property
    def full(self) -> bool:
        """Whether no further message fits in."""
        limits = self.definition.limits
        return self.waiting >= limits.waiting or self.bytes >= limits.waiting_bytes

    @property
    def has_room(self) -> bool:
        """Whether a topic that waits for room is to send again."""
        limits = self.definition.limits
        return self.waiting * 2 <= limits.waiting and self.bytes * 2 <= limits.waiting_bytes

    @property
    def oversized(self) -> bool:
        """Whether its worker grew too much while it ran."""
        return self.grown_bytes > self.definition.limits.memory_bytes

    @property
    def leaves_worker(self) -> bool:
        """Whether its state is to be taken before anything else happens at its worker."""
        return self.moving or self.handing_over or self.oversized

    @property
    def checkpoint_due(self) -> bool:
        """Whether the messages since the last checkpoint that its topic has are many."""
        limits = self.definition.limits
        # Those that are done must not take the room of those that wait.
        many = self.done + self.unsaved >= limits.checkpoint_messages
        return many or (self.done_bytes + self.unsaved_bytes) * 4 >= limits.waiting_bytes

    def misses(self, position: int) -> bool:
        """Whether a message before this one is to come again first."""
        return self.accepted < self.awaited < position

    def accept(self, position: int, body: bytes, now: float) -> Input:
        """Take a message in."""
        taken = Input(position, body, now, now + self.definition.slo_s)
        self.accepted = position
        self.inputs.append(taken)
        self.bytes += len(body)
        return taken

    def skip(self, skipped: Input) -> None:
        """Process this message never."""
        self.bytes -= len(skipped.body)
        skipped.body = b""
        skipped.skipped = True

    def advance(self) -> Input:
        """The head is done."""
        taken = self.inputs[self.done]
        self.done += 1
        self.done_bytes += len(taken.body)
        self.emitted = max(self.emitted, taken.position)
        return taken

    def kept(self, state: bytes) -> None:
        """`state`, after everything that is done, is the checkpoint from now on."""
        position = self.checkpoint.position
        self.unsaved += self.done
        self.unsaved_bytes += self.done_bytes
        for _ in range(self.done):
            taken = self.inputs.popleft()
            self.bytes -= len(taken.body)
            position = taken.position
        self.done = self.done_bytes = 0
        self.checkpoint = Checkpoint(position, self.emitted, state)

    def saved(self) -> None:
        """Its topic gets the checkpoint."""
        self.unsaved = self.unsaved_bytes = 0
        self.snapshot_wanted = False

    def left_worker(self) -> None:
        """No worker has its state any more: it begins with the checkpoint."""
        self.worker = None
        self.incarnation = 0
        self.loaded = self.moving = False
        self.grown_bytes = self.done = self.done_bytes = 0

    def succeeded(self) -> bool:
        """A message was processed for the first time; whether that ends a row of failures."""
        self.forgive()
        recovered, self.recovering = self.recovering, False
        return recovered

    def forgive(self) -> None:
        """An operator starts it again."""
        self.failures = self.skips = 0
        self._back_off.reset()

    def pause_s(self) -> float:
        """Seconds until it is started again after this failure."""
        return self._back_off.next()

    def given_away(self) -> tuple[Message, ...]:
        """Messages that the next owner has to process, or, without a body, to skip as well."""
        return tuple([Message(each.position, each.body) for each in self.inputs])
