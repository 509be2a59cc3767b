"""The standby of a unit: it has the owner's checkpoints, and takes over when that one is dead."""

from __future__ import annotations

from typing import ClassVar

from agent.placement.handover.events import Checkpoint, Work
from agent.placement.lifecycle import STANDBY_TRANSITIONS
from agent.placement.standby.take_over import (
    Dead,
    Dismiss,
    Dismissed,
    Event,
    Instruction,
    Kept,
    Part,
    Role,
    Send,
    TakenOver,
    Update,
    Write,
    Written,
    next_reign,
)
from agent.placement.world import Unit
from agent.runtime.state_machine import StateMachine


class Standby(StateMachine):
    """A unit at the master that stands by for it. All attributes are immutable values."""

    __slots__ = ("checkpoint", "epoch", "number", "primary", "term", "unit", "writing")

    TRANSITIONS: ClassVar = STANDBY_TRANSITIONS

    def __init__(self, unit: Unit, primary: str) -> None:
        super().__init__()
        self.unit = unit
        self.primary = primary
        self.term = 0  # the owner's term, of the last that was written or is being written
        self.epoch = 0
        self.number = 0
        self.checkpoint = Checkpoint()
        self.writing = False

    def __repr__(self) -> str:
        return f"the standby of {self.unit}, which {self.primary} has in term {self.term}"

    @property
    def owns(self) -> bool:
        """Whether the unit is this master's."""
        return self.state == "owning"

    @property
    def judges(self) -> bool:
        """Whether it matters here that the owner is dead."""
        return self.state == "standing_by" and not self.writing

    def recover(self, role: Role, checkpoint: Checkpoint) -> list[Instruction]:
        """After a restart, with what is on disk. As the owner it begins a new epoch."""
        self.term, self.epoch, self.checkpoint = role.term, role.epoch, checkpoint
        match role.part:
            case "standby":
                self.become("standing_by")
            case "copying" | "void":
                self.become(role.part)
            case "owner":
                self.become("taking_over")
                return self._write("owner", self.epoch + 1)
        return []

    def handle(self, event: Event) -> list[Instruction]:
        """The instructions that follow from a message or report. O(1)."""
        match event:
            case Update() | Dismiss() if self.state == "owning":
                return [Send(TakenOver(self.unit, event.term, self.epoch))]
            case Update() if self.state != "taking_over" and not self.writing:
                return self._updated(event)
            case Dismiss() if self.state != "taking_over" and not self.writing:
                return self._dismissed(event)
            case Dead() if self.judges and event.term >= self.term:
                self.become("taking_over")
                return self._write("owner", next_reign(self.epoch))
            case Written():
                return self._written(event.role)
        return []

    def _updated(self, update: Update) -> list[Instruction]:
        if update.term < self.term:
            return []  # It was under way for long.
        # The primary's checkpoints never go back: each after a complete one is complete, too.
        complete = update.complete or self.state == "standing_by"
        if self.state in {"new", "void"}:
            self.become("copying")
        self.term, self.number = update.term, update.number
        self.checkpoint = update.checkpoint
        return self._write("standby" if complete else "copying", update.epoch)

    def _dismissed(self, dismiss: Dismiss) -> list[Instruction]:
        if dismiss.term < self.term:
            return []
        if self.state in {"new", "void"}:
            return [Send(Dismissed(self.unit, dismiss.term, dismiss.number))]
        self.term, self.number = dismiss.term, dismiss.number
        self.checkpoint = Checkpoint()
        return self._write("void", self.epoch)

    def _written(self, role: Role) -> list[Instruction]:
        self.writing = False
        match role.part:
            case "owner":
                self.become("owning")
                return [Work(self.epoch, self.checkpoint)]
            case "void":
                self.become("void")
                return [Send(Dismissed(self.unit, role.term, self.number))]
            case "standby" if self.state == "copying":
                self.become("standing_by")
        return [Send(Kept(self.unit, role.term, self.number))]

    def _write(self, part: Part, epoch: int) -> list[Instruction]:
        self.epoch = epoch
        self.writing = True
        return [Write(Role(self.unit, part, self.primary, self.term, epoch), self.checkpoint)]
