"""The source's side of a handover. It owns the unit until `handed`, and again if it reclaims it."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from agent.placement.handover.events import (
    LEASE_MARGIN,
    Abort,
    Ask,
    Copied,
    Copy,
    Event,
    Final,
    Grant,
    Instruction,
    MakeCopy,
    Message,
    Pause,
    Paused,
    Ready,
    Reclaimed,
    Record,
    Refuse,
    Send,
    Settled,
    Tick,
    Timing,
    Took,
    Work,
    Write,
    Written,
)
from agent.placement.lifecycle import ENDED, SOURCE_TRANSITIONS
from agent.placement.world import Unit
from agent.runtime.state_machine import StateMachine

WAITING = ("planned", "granted", "shadowing")


class Source(StateMachine):
    """One attempt to hand a unit to another master. All attributes are immutable values.

    What comes too late or belongs to another attempt is ignored: messages may be lost, repeated by
    their sender, and arrive after a restart.
    """

    __slots__ = (
        "attempt",
        "deadline",
        "epoch",
        "offering",
        "paused",
        "reason",
        "target",
        "timing",
        "unit",
    )

    TRANSITIONS: ClassVar = SOURCE_TRANSITIONS

    def __init__(self, unit: Unit, target: str, epoch: int, attempt: int, timing: Timing) -> None:
        """`epoch` is the one to offer: greater than all that this master has used."""
        super().__init__()
        self.unit = unit
        self.target = target
        self.epoch = epoch
        self.attempt = attempt
        self.timing = timing
        self.deadline = inf
        self.offering = False  # the offer is being written
        self.paused = False
        self.reason = ""

    def __repr__(self) -> str:
        return f"the handover of {self.unit} to {self.target}, attempt {self.attempt}"

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to do."""
        return self.state in ENDED

    def start(self, now: float) -> list[Instruction]:
        """Ask the target."""
        self.become("planned")
        self.deadline = now + self.timing.patience_s
        return [Send(Ask(self.unit, self.attempt, self.timing.lease_s))]

    def recover(self, record: Record, now: float) -> list[Instruction]:
        """After a restart with the offer on disk: the target may have taken the unit, and works
        under the lease that it was offered, which may not be what this master gives today."""
        self.become("draining")
        self.paused = True
        self.deadline = now + (record.lease_s or self.timing.lease_s) * LEASE_MARGIN
        return []

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """The instructions that follow from a message, a report or the time. O(1)."""
        match event:
            case Tick() if now >= self.deadline:
                return self._late()
            case Refuse(attempt=self.attempt):
                return self._refused(event.reason)
            case Grant(attempt=self.attempt) if self.state == "planned":
                self.become("granted")
                return [MakeCopy()]
            case Copied() if self.state == "granted":
                self.become("shadowing")
                return [Send(Copy(self.unit, self.attempt, event.checkpoint))]
            case Ready(attempt=self.attempt) if self.state == "shadowing" and not self.offering:
                self.offering = True
                offer = Record(self.unit, self.epoch, "offered", self.target, self.timing.lease_s)
                return [Write(offer)]
            case Written(record=Record(standing="offered")) if self.offering:
                self.offering = False
                return self._offered(now)
            case Paused() if self.state == "draining" and not self.paused:
                self.paused = True
                self.deadline = now + self.timing.lease_s * LEASE_MARGIN
                return [Send(Final(self.unit, self.attempt, self.epoch, event.checkpoint))]
            case Took(epoch=self.epoch):
                return self._taken()
            case Written(record=Record(standing="released")) if self.state == "handed":
                self.become("settled")
                return [Send(Settled(self.unit, self.epoch))]
            case Written(record=Record(standing="owner")) if self.state == "reclaiming":
                self.become("aborted")
                self.deadline = inf
                return [Work(self.epoch + 1), Send(self._void())]
        return []

    def _late(self) -> list[Instruction]:
        if self.state in WAITING:
            return self._give_up("no answer in time")
        if self.state == "draining":
            return self._reclaim("the lease has ended" if self.paused else "it does not pause")
        return []

    def _refused(self, reason: str) -> list[Instruction]:
        if self.state in WAITING:
            return self._give_up(reason)
        if self.state == "draining":
            return self._reclaim(reason)
        return []

    def _give_up(self, reason: str) -> list[Instruction]:
        self.reason = reason
        self.deadline = inf
        if self.offering:
            return []  # Disk and memory agree before anything else happens; see `_offered`.
        self.become("aborted")
        return [Send(Abort(self.unit, self.attempt))]

    def _offered(self, now: float) -> list[Instruction]:
        """The offer is on disk, where it does no harm if the target was not sent a `Final`."""
        if self.reason:
            self.deadline = inf
            self.become("aborted")
            return [Send(Abort(self.unit, self.attempt))]
        self.become("draining")
        # What the unit waits for may take hours. The target gives up by then.
        self.deadline = now + self.timing.lease_s * LEASE_MARGIN
        return [Pause()]

    def _taken(self) -> list[Instruction]:
        if self.state == "draining" and self.paused:
            self.become("handed")
            self.deadline = inf
            return [Write(Record(self.unit, self.epoch, "released", self.target))]
        return []  # Under way already; or the holder answers from its record.

    def _reclaim(self, reason: str) -> list[Instruction]:
        """No other master works on the unit: take it back, as an epoch after the one that was
        offered."""
        self.reason = reason
        self.become("reclaiming")
        self.deadline = inf
        # The target may still ask, even when no configuration names it any more.
        return [Write(Record(self.unit, self.epoch + 1, "owner", self.target))]

    def _void(self) -> Message:
        """The message to the target when the unit is taken back."""
        if self.paused:
            return Reclaimed(self.unit, self.epoch)
        return Abort(self.unit, self.attempt)  # It was sent no `Final`.
