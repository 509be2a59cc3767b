"""The owner of a unit that has a standby."""

from __future__ import annotations

from typing import ClassVar

from agent.placement.handover.events import Checkpoint, Work
from agent.placement.lifecycle import PRIMARY_TRANSITIONS
from agent.placement.standby.take_over import (
    MOST_REIGNS,
    REIGN,
    Dismiss,
    Dismissed,
    Event,
    Instruction,
    Kept,
    Leased,
    Part,
    Role,
    Saved,
    Send,
    Stop,
    TakenOver,
    Update,
    Write,
    Written,
)
from agent.placement.world import Unit
from agent.runtime.state_machine import StateMachine

PUTS_OUT = frozenset({"guarded", "dismissing", "leaving"})


class Primary(StateMachine):
    """A unit at its owner, in a term of the owner, with a standby. All attributes are immutable
    values. What it says is said again with each `Leased` until there is an answer."""

    __slots__ = (
        "asked",
        "checkpoint",
        "complete",
        "epoch",
        "kept",
        "number",
        "standby",
        "started",
        "term",
        "unit",
    )

    TRANSITIONS: ClassVar = PRIMARY_TRANSITIONS

    def __init__(self, unit: Unit, standby: str, term: int, epoch: int, number: int) -> None:
        """Its messages have numbers from `number` on, which no earlier process has used."""
        super().__init__()
        self.unit = unit
        self.standby = standby
        self.term = term  # in which the standby stands by, as far as this master knows
        self.epoch = epoch
        self.started = False  # whether that epoch has begun in this process
        self.asked = term  # the term in which the standby was asked to stand by
        # What the standby gets, the number of what was sent last, and of what it has on disk.
        self.checkpoint = Checkpoint()
        self.complete = False
        self.number = number
        self.kept = 0

    def __repr__(self) -> str:
        return f"{self.unit} with its standby at {self.standby}, term {self.term}"

    def puts_out(self, held: int | None) -> bool:
        """Whether outputs may leave now; `held` is the term of this master's lease, if it holds
        one. Asked before each transaction that lets some out. O(1)."""
        return self.state == "alone" or (self.state in PUTS_OUT and held == self.term)

    @property
    def safe(self) -> bool:
        """Whether the standby has what it was sent last."""
        return self.kept == self.number

    # -- beginnings ------------------------------------------------------------------------------

    def start(self, checkpoint: Checkpoint, *, complete: bool) -> list[Instruction]:
        """Name the standby of a unit that works here, with a checkpoint that is on disk."""
        self.become("naming")
        self.started = True
        self.checkpoint, self.complete = checkpoint, complete
        return [self._write()]

    def recover(self, checkpoint: Checkpoint, *, complete: bool) -> list[Instruction]:
        """After a restart as the primary in this term and epoch, with what is on disk."""
        self.become("waiting")
        self.checkpoint, self.complete = checkpoint, complete
        return []

    def dismiss(self) -> list[Instruction]:
        """Live without a standby from now on, or until another is named."""
        self.become("dismissing")
        self.number += 1
        return [self._dismiss()]

    # -- events ----------------------------------------------------------------------------------

    def handle(self, event: Event) -> list[Instruction]:
        """The instructions that follow from a message or report. O(1)."""
        match event:
            case Saved():
                self.checkpoint, self.complete = event.checkpoint, event.complete
                return [self._update()] if self.state == "guarded" else []
            case Leased():
                return self._leased(event.term)
            case Kept():
                return self._kept(event)
            case Dismissed(number=self.number) if self.state == "dismissing":
                self.become("leaving")
                return [Write(Role(self.unit, "void", "", self.term, self.epoch))]
            case TakenOver() if self.state in {"waiting", "guarded", "dismissing", "resuming"}:
                if not 0 <= event.epoch - self.epoch <= MOST_REIGNS * REIGN:
                    return []  # From before, or so high that it could never be moved again.
                self.become("void")
                self.epoch = event.epoch
                return [Stop(), self._write("void")]
            case Update() | Dismiss():
                # A master that had the unit before, and was away since, asks.
                return [Send(TakenOver(self.unit, event.term, self.epoch))]
            case Written():
                return self._written(event.role)
        return []

    def _leased(self, held: int) -> list[Instruction]:
        if held > self.term and self.state in {"guarded", "dismissing"}:
            self.become("waiting")
        if self.state == "waiting":
            if held == self.term:
                return self._resume()
            # Perhaps the standby has taken it over. It stands by in this term, or says so.
            self.asked = held
            return [self._update()]
        if self.state == "guarded" and not self.safe:
            return [self._update()]
        if self.state == "dismissing":
            return [self._dismiss()]
        return []

    def _kept(self, kept: Kept) -> list[Instruction]:
        if self.state == "waiting" and kept.term == self.asked > self.term:
            self.term = kept.term
            self.kept = kept.number
            return self._resume()
        if kept.term == self.term:
            self.kept = max(self.kept, kept.number)
        return []

    def _resume(self) -> list[Instruction]:
        """The standby has not taken it over, nor can it while the lease is held."""
        self.become("resuming")
        if not self.started:
            self.epoch += 1
        return [self._write()]

    def _written(self, role: Role) -> list[Instruction]:
        if self.state == "leaving" and role.part == "void":
            self.become("alone")
        elif self.state == "naming":
            self.become("guarded")
            return [self._update()]
        elif self.state == "resuming" and (role.term, role.epoch) == (self.term, self.epoch):
            self.become("guarded")
            if not self.started:
                self.started = True
                return [Work(self.epoch, self.checkpoint)]
        return []

    def _update(self) -> Instruction:
        self.number += 1
        term = self.asked if self.state == "waiting" else self.term
        return Send(
            Update(self.unit, term, self.epoch, self.number, self.complete, self.checkpoint)
        )

    def _dismiss(self) -> Instruction:
        return Send(Dismiss(self.unit, self.term, self.number))

    def _write(self, part: Part = "primary") -> Instruction:
        return Write(Role(self.unit, part, self.standby, self.term, self.epoch))
