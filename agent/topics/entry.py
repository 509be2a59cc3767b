"""One topic: what waits for its processor, and what it made since its last checkpoint."""

from __future__ import annotations

import math
from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from agent.runtime.back_off import BackOff
from agent.runtime.state_machine import StateMachine
from agent.topics.events import Output, Progress
from agent.topics.lifecycle import TOPIC_TRANSITIONS
from agent.wire.topics import Topic

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
# Messages whose checkpoint is missing: half of what an inbox sends without an acknowledgement.
MANY = 32
# Messages or outputs that wait behind a transaction before no more readings are asked for.
MAX_WAITING = 1_000


class Input(Struct):
    """A message that no checkpoint covers yet; readings have no position of the inbox. `peer`: the
    topic that put it out, if a clone heard it."""

    position: int
    time_ms: int
    body: bytes
    inbox: int | None = None
    peer: str = ""


class TopicEntry(StateMachine):
    """A topic. `progress` is what was given to the disk last."""

    __slots__ = (
        "asked", "due_s", "durable_inbox", "epoch", "handle", "held", "holding", "inputs", "losses",
        "made", "missed", "next_round_s", "owns", "pauses", "position", "progress", "put_out",
        "received", "releasing", "renew_s", "retry_s", "round_in_s", "round_open", "rounds",
        "rounds_failed", "seen", "started", "told", "topic", "trouble",
    )  # fmt: skip

    TRANSITIONS = TOPIC_TRANSITIONS

    def __init__(self, topic: Topic, epoch: int, progress: Progress, now: float) -> None:
        super().__init__()
        self.topic = topic
        self.epoch = epoch
        self.progress = progress
        # Position of the last message taken in, and the last position of the inbox seen.
        self.position = progress.position
        self.seen = progress.inbox
        # Up to where the inbox need not keep its messages: this is on the disk.
        self.durable_inbox = progress.inbox
        self.inputs: deque[Input] = deque()
        # Outputs that no checkpoint covers yet: position, time, attributes.
        self.made: list[tuple[int, int, Output]] = []
        # Whether a checkpoint is being taken, or a transaction is under way.
        self.asked = self.releasing = self.held = False
        # Whether it may put out what it makes: its former master may still take it back.
        self.owns = True
        # Whether its processor is at work.
        self.started = False
        # Whether it puts nothing out for a moment, because it is about to be paused.
        self.holding = False
        self.next_round_s = now if topic.every_s is not None else math.inf
        self.round_open = False
        self.round_in_s = 0.0  # of a paused one
        # When to subscribe again, and when to say that the inbox is still read.
        self.retry_s = self.renew_s = math.inf
        # Its place among the timers.
        self.due_s, self.handle = math.inf, -1
        self.pauses = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)
        self.received = self.put_out = self.missed = self.rounds = self.rounds_failed = 0
        # By publisher, "" for the inbox: when the loss of its messages was told last, and how many
        # were lost since.
        self.losses: dict[str, tuple[float, int]] = {}
        self.trouble = ""
        # What is wrong with messages and outputs, each told once: a few sentences, but with each
        # message.
        self.told: set[str] = set()

    def __repr__(self) -> str:
        return f"<topic {self.topic.name} {self.state}>"

    @property
    def works(self) -> bool:
        """Whether it takes messages."""
        return self.state in ("opening", "open")

    @property
    def wants_checkpoint(self) -> bool:
        """Whether something waits for one."""
        return bool(self.made) or len(self.inputs) >= MANY

    @property
    def next_s(self) -> float:
        """When something is to be done."""
        return min(self.next_round_s, self.retry_s, self.renew_s)

    @property
    def full(self) -> bool:
        """Whether so much waits behind a transaction that no more readings are asked for: masters
        that are away, or the disk, may hold it up for as long as they like."""
        waits = self.releasing or not self.owns
        return waits and max(len(self.made), len(self.inputs)) >= MAX_WAITING

    def accept(self, time_ms: int, body: bytes, inbox: int | None, peer: str = "") -> Input:
        """Take a message in."""
        self.position += 1
        taken = Input(self.position, time_ms, body, inbox, peer)
        self.inputs.append(taken)
        return taken

    def input_at(self, position: int) -> Input:
        """A message that no checkpoint covers yet. O(1)."""
        return self.inputs[position - self.inputs[0].position]

    def cover(self, position: int, state: bytes) -> list[tuple[int, Output]]:
        """A checkpoint covers all messages up to this one: returns what came of them."""
        made = [(time_ms, own) for at, time_ms, own in self.made if at <= position]
        self.made = [each for each in self.made if each[0] > position]
        inbox = self.progress.inbox
        while self.inputs and self.inputs[0].position <= position:
            covered = self.inputs.popleft()
            inbox = covered.inbox if covered.inbox is not None else inbox
        before = self.progress
        self.progress = replace(
            before,
            position=position,
            put_out=before.put_out + len(made),
            inbox=inbox,
            state=state,
        )
        self.put_out += len(made)
        return made

    def inbox_lost(self) -> None:
        """Its inbox begins anew."""
        self.seen = self.durable_inbox = 0
        self.progress = replace(self.progress, inbox=0)
        for waiting in self.inputs:
            waiting.inbox = None

    def stop_clocks(self, now: float) -> None:
        """Nothing is due any more. A round whose answer is still out is asked again."""
        left_s = 0.0 if self.round_open else max(0.0, self.next_round_s - now)
        self.round_in_s = left_s if self.topic.every_s is not None else 0.0
        self.next_round_s = self.retry_s = self.renew_s = math.inf

    def rest(self) -> None:
        """Nothing is under way any more: its inbox sends again what no checkpoint covers. Readings
        stay."""
        readings = [each for each in self.inputs if each.inbox is None and each.body]
        self.inputs.clear()
        self.made.clear()
        self.position, self.seen = self.progress.position, self.progress.inbox
        self.asked = self.releasing = self.held = self.round_open = self.started = False
        self.holding = False
        for each in readings:
            self.accept(each.time_ms, each.body, None)

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        positions = [each.position for each in self.inputs]
        assert positions == list(range(self.progress.position + 1, self.position + 1))
        assert all(self.progress.position < at <= self.position for at, _, _ in self.made)
