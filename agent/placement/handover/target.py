"""The target's side of a handover. It works under a lease until the source releases the unit."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from agent.placement.handover.events import (
    Abort,
    Checkpoint,
    Copy,
    Event,
    Final,
    Grant,
    Instruction,
    Load,
    Loaded,
    Ready,
    Reclaimed,
    Record,
    Refuse,
    Send,
    Settled,
    Stop,
    Tick,
    Timing,
    Took,
    Work,
    Write,
    Written,
)
from agent.placement.lifecycle import ENDED, TARGET_TRANSITIONS
from agent.placement.world import Unit
from agent.runtime.state_machine import StateMachine

# Of what a source may offer.
LONGEST_LEASE_S = 60.0


class Target(StateMachine):
    """One attempt to take a unit from another master. All attributes are immutable values."""

    __slots__ = (
        "again",
        "attempt",
        "checkpoint",
        "deadline",
        "epoch",
        "lease_s",
        "ready",
        "reason",
        "source",
        "timing",
        "unit",
        "void",
    )

    TRANSITIONS: ClassVar = TARGET_TRANSITIONS

    def __init__(
        self, unit: Unit, source: str, attempt: int, lease_s: float, timing: Timing
    ) -> None:
        super().__init__()
        self.unit = unit
        self.source = source
        self.attempt = attempt
        # A shorter one than the source waits for is safe, and none holds a place here for long.
        self.lease_s = min(lease_s, LONGEST_LEASE_S)
        self.timing = timing
        self.epoch = 0
        self.checkpoint: Checkpoint | None = None
        self.deadline = inf  # of the lease, from `Ready` on; before, of patience
        self.again = inf  # when `Took` is repeated
        self.ready = False  # the copy is loaded: the final state may come
        self.void = False  # the source has taken the unit back while it was written here
        self.reason = ""

    def __repr__(self) -> str:
        return f"the handover of {self.unit} from {self.source}, attempt {self.attempt}"

    def acting(self, now: float) -> bool:
        """Whether the unit may work here now: asked before each output is sent. O(1)."""
        return self.state == "settled" or (self.state == "handed" and now < self.deadline)

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to do."""
        return self.state in ENDED

    @property
    def next_due(self) -> float:
        """When the next `Tick` is due. None is while it is written that the unit is taken: whether
        that was within the lease is asked when it is done."""
        if self.state == "draining":
            return inf
        return min(self.deadline, self.again)

    def start(self, now: float) -> list[Instruction]:
        """Admit it."""
        self.become("granted")
        self.deadline = now + self.timing.patience_s
        return [Send(Grant(self.unit, self.attempt))]

    def recover(self, record: Record, checkpoint: Checkpoint, now: float) -> list[Instruction]:
        """After a restart with the unit taken on disk: ask what has become of it."""
        self.become("lapsed")
        self.epoch = record.epoch
        self.checkpoint = checkpoint
        return self._told(now)

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """The instructions that follow from a message, a report or the time. O(1)."""
        match event:
            case Tick():
                return self._tick(now)
            case Copy(attempt=self.attempt) if self.state == "granted":
                self.become("shadowing")
                return [Load(event.checkpoint)]
            case Loaded() if self.state == "shadowing" and event.error:
                return self._refuse(event.error)
            case Loaded() if self.state == "shadowing":
                self.ready = True
                self.deadline = now + self.lease_s
                return [Send(Ready(self.unit, self.attempt))]
            case Final(attempt=self.attempt) if self.state == "shadowing":
                return self._final(event, now)
            case Written(record=Record(standing="taken")) if self.state == "draining":
                return self._taken(now)
            case Settled(epoch=self.epoch):
                return self._settled(now)
            case Written(record=Record(standing="owner")) if self.state == "resuming":
                self.become("settled")
                return [Work(self.epoch, self.checkpoint)]
            case Reclaimed(epoch=self.epoch):
                return self._reclaimed()
            case Abort(attempt=self.attempt) if self.state in {"granted", "shadowing"}:
                return self._give_up("the source gave up")
        return []

    def _tick(self, now: float) -> list[Instruction]:
        if self.state in {"granted", "shadowing"} and now >= self.deadline:
            return self._refuse("the source is silent")
        done: list[Instruction] = []
        if self.state == "handed" and now >= self.deadline:
            done += self._lapse()
        if self.state in {"handed", "lapsed"} and now >= self.again:
            done += self._told(now)
        return done

    def _told(self, now: float) -> list[Instruction]:
        self.again = now + self.timing.again_s
        return [Send(Took(self.unit, self.epoch))]

    def _final(self, event: Final, now: float) -> list[Instruction]:
        if not self.ready:
            return self._refuse("its final state came before its copy was loaded")
        if now >= self.deadline:
            return self._refuse("the lease has ended")
        self.become("draining")
        self.epoch = event.epoch
        self.checkpoint = event.checkpoint
        return [Write(Record(self.unit, self.epoch, "taken", self.source), event.checkpoint)]

    def _taken(self, now: float) -> list[Instruction]:
        if self.void:
            return self._reclaimed()
        if now >= self.deadline:
            self.become("lapsed")
            self.deadline = inf
            return self._told(now)
        self.become("handed")
        return [Work(self.epoch, self.checkpoint), *self._told(now)]

    def _settled(self, now: float) -> list[Instruction]:
        self.again = inf
        if self.state == "handed" and now < self.deadline:
            self.become("settled")
            self.deadline = inf
            return [Write(Record(self.unit, self.epoch, "owner"))]
        done = self._lapse() if self.state == "handed" else []
        if self.state == "lapsed":
            # Messages that came since were not taken: as a new epoch it gets them again.
            self.become("resuming")
            self.epoch += 1
            done.append(Write(Record(self.unit, self.epoch, "owner")))
        return done

    def _lapse(self) -> list[Instruction]:
        self.become("lapsed")
        self.deadline = inf
        return [Stop()]

    def _reclaimed(self) -> list[Instruction]:
        if self.state == "draining" and not self.void:
            self.void = True  # Its own write goes first.
            return []
        if self.state in {"draining", "handed", "lapsed"}:
            self.become("aborted")
            self.deadline = self.again = inf
            self.reason = "the source has taken it back"
            return [Stop(), Write(None)]
        return []

    def _refuse(self, reason: str) -> list[Instruction]:
        return [Send(Refuse(self.unit, self.attempt, reason)), *self._give_up(reason)]

    def _give_up(self, reason: str) -> list[Instruction]:
        self.become("aborted")
        self.deadline = inf
        self.reason = reason
        return [Stop()]
