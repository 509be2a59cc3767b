"""A unit that is or was on the move, at a master."""

from __future__ import annotations

from collections.abc import Callable

from agent.master.moves.handover_messages import Gathered
from agent.master.moves.movable import Movable
from agent.master.moves.move_list import Move
from agent.placement.handover import events as h
from agent.placement.handover.holder import Holder
from agent.placement.handover.source import Source
from agent.placement.handover.target import Target


class MovingUnit:
    """A master's knowledge of a moving unit."""

    __slots__ = (
        "beginning",
        "complained",
        "gathered",
        "gone",
        "holder",
        "leaving",
        "movable",
        "move",
        "owned",
        "settling",
        "turn",
    )

    def __init__(self, holder: Holder, movable: Movable) -> None:
        self.holder = holder
        self.movable = movable
        self.gathered = Gathered()
        self.move: Move | None = None
        # Whether it works here already, and only its epoch is being written.
        self.beginning = False
        # Whether it was no more when it was to be paused.
        self.gone = False
        # The master that took it over, until that is on disk.
        self.leaving = ""
        # Whether it was told that it may put out.
        self.owned = False
        # The epoch about which its operator was told that it waits.
        self.complained = 0
        # Until when the news of its release is held back, what tells it then, and who asked.
        self.settling: tuple[float, Callable[[], object], object] | None = None
        # A number for what was asked of the unit last: what it says to something earlier is void.
        self.turn = 0

    @property
    def next_due(self) -> float | None:
        dues = [self.holder.next_due, self.settling and self.settling[0]]
        return min([due for due in dues if due is not None], default=None)

    @property
    def partner(self) -> str:
        """The other master of its handover."""
        match self.holder.machine:
            case None:
                return ""
            case Source() as source:
                return source.target
            case target:
                return target.source

    @property
    def unknown(self) -> bool:
        """Whether nothing is known of the unit here, as before it was first asked for."""
        holder = self.holder
        known = (holder.machine, holder.record, holder.epoch, holder.starting, self.leaving)
        return not any((*known, self.move, self.settling, self.beginning, self.gone, self.owned))

    def gathers(self, attempt: int, sender: str) -> bool:
        """Whether it awaits the state of this attempt from that master."""
        machine = self.holder.machine
        fits = isinstance(machine, Target) and machine.attempt == attempt
        return fits and self.partner == sender

    def forget_removed(self) -> None:
        """Its state before it ended here does not keep another of its name away."""
        if self.holder.machine is None and not self.movable.lives(self.holder.unit):
            record = self.holder.record
            self.holder = Holder(self.holder.unit, self.holder.timing)
            self.holder.record = record

    def awaits(self, final: h.Final) -> bool:
        """Whether this final state comes next."""
        machine = self.holder.machine
        if not isinstance(machine, Target):
            return False
        shadowing = machine.state == "shadowing" and machine.ready
        return shadowing and machine.attempt == final.attempt

    def accept(self, final: h.Final, wall_s: float) -> str:
        """Why this final state cannot be taken; "" if it can."""
        try:
            h.require_epoch(final.epoch, wall_s)
        except ValueError as error:
            return str(error)
        return self.movable.accept(final.unit, final.checkpoint.state)
