"""A unit at one master: whether it may work there, in which epoch, and the handovers it goes
through. The same machine at every master; the shell has one for each unit that it knows of."""

from __future__ import annotations

from agent.placement.handover.events import (
    Ask,
    Checkpoint,
    Event,
    Final,
    Instruction,
    Paused,
    Reclaimed,
    Record,
    Refuse,
    Send,
    Settled,
    Stop,
    Timing,
    Took,
    Work,
    Write,
    Written,
)
from agent.placement.handover.source import Source
from agent.placement.handover.target import Target
from agent.placement.world import PlacementError, Unit

GIVEN_UP = "it was given up here"
UNSETTLED = "an earlier move of it is not settled there yet; try again in a few seconds"


class Holder:
    """One unit at one master. All attributes but the machine are immutable values."""

    __slots__ = ("checkpoint", "epoch", "machine", "record", "starting", "timing", "unit")

    def __init__(self, unit: Unit, timing: Timing) -> None:
        self.unit = unit
        self.timing = timing
        self.record: Record | None = None  # what is on disk
        self.epoch: int | None = None  # in which the unit works here
        self.starting: int | None = None  # the epoch that is being written before it works
        self.checkpoint = Checkpoint()  # with which it starts
        self.machine: Source | Target | None = None

    def __repr__(self) -> str:
        return f"{self.unit}: {self.record}, epoch {self.epoch}, {self.machine}"

    # -- what may be done now --------------------------------------------------------------------

    def works(self, now: float) -> int | None:
        """The epoch in which the unit may work here now, or None. The shell asks before each output
        is sent. O(1)."""
        if isinstance(self.machine, Target) and not self.machine.acting(now):
            return None
        return self.epoch

    @property
    def owns(self) -> bool:
        """Whether its checkpoints may be saved, and its messages be settled at their publishers:
        not under a lease, since the source may still take the unit back. O(1)."""
        return self.epoch is not None and not isinstance(self.machine, Target)

    @property
    def next_due(self) -> float | None:
        """When the next `Tick` is due."""
        if self.machine is None:
            return None
        if isinstance(self.machine, Source):
            return self.machine.deadline
        return self.machine.next_due

    # -- beginnings ------------------------------------------------------------------------------

    def create(self) -> list[Instruction]:
        """A unit that is new, and lives here."""
        return self._begin_epoch(1)

    def took_over(self, record: Record) -> None:
        """It lives here, by this record, since its master is dead; what was before is void."""
        self.record = record
        self.machine = None
        self.epoch = None  # It gets one with the next handover, as after a restart.
        self.starting = None

    def recover(self, record: Record, checkpoint: Checkpoint, now: float) -> list[Instruction]:
        """After a restart: the record and checkpoint that are on disk."""
        self.record = record
        self.checkpoint = checkpoint
        if record.standing == "owner":
            return self._begin_epoch(record.epoch + 1)
        if record.standing == "offered":
            source = Source(self.unit, record.other, record.epoch, -1, self.timing)
            self.machine = source
            return source.recover(record, now)
        if record.standing == "taken":
            target = Target(self.unit, record.other, -1, 0.0, self.timing)
            self.machine = target
            return target.recover(record, checkpoint, now)
        return []

    def begin(self, target: str, attempt: int, now: float) -> list[Instruction]:
        """Hand the unit to another master; `attempt` is a number that was never used.
        PlacementError if it does not work here, or is being handed over already."""
        if self.epoch is None or self.machine is not None:
            doing = "is nowhere at work here" if self.epoch is None else "is being moved already"
            raise PlacementError(f"{self.unit} {doing}")
        self.machine = Source(self.unit, target, self.epoch + 1, attempt, self.timing)
        return self.machine.start(now)

    # -- events ----------------------------------------------------------------------------------

    def handle(self, event: Event, now: float, sender: str = "") -> list[Instruction]:
        """The instructions that follow from a message of `sender`, a report or the time. O(1)."""
        match event:
            case Ask():
                return self._asked(event, sender, now)
            case Written():
                self.record = event.record
                if self.starting is not None and event.record == self._starts:
                    self.epoch, self.starting = self.starting, None
                    return [Work(self.epoch, self.checkpoint)]
        if isinstance(event, Took) and not (
            isinstance(self.machine, Source) and self.machine.epoch == event.epoch
        ):
            return self._answered(event)
        if isinstance(event, Final) and not (
            isinstance(self.machine, Target) and self.machine.attempt == event.attempt
        ):
            # It was given up here, so it is not taken: the source need not wait for the lease.
            return [_refusal(event, GIVEN_UP)]
        if self.machine is None:
            return []
        return self._carry_on(event, now)

    def _carry_on(self, event: Event, now: float) -> list[Instruction]:
        machine = self.machine
        assert machine is not None
        if isinstance(event, Paused):
            self.epoch = None
        done = machine.handle(event, now)
        for each in done:
            if isinstance(each, Work):
                self.epoch = each.epoch
            elif isinstance(each, Stop):
                self.epoch = None
        if machine.ended:
            self.machine = None
        return done

    def _asked(self, ask: Ask, sender: str, now: float) -> list[Instruction]:
        machine, stop = self.machine, list[Instruction]()
        if isinstance(machine, Target) and machine.state in {"granted", "shadowing"}:
            machine = None  # The source has begun anew.
            stop = [Stop()]
        if isinstance(machine, Target) and self.epoch is None:
            return [_refusal(ask, UNSETTLED)]
        if machine is not None or self.epoch is not None or self.starting is not None:
            return [_refusal(ask, "it is here already")]
        self.machine = Target(self.unit, sender, ask.attempt, ask.lease_s, self.timing)
        return [*stop, *self.machine.start(now)]

    def _answered(self, took: Took) -> list[Instruction]:
        """A target asks whether an earlier handover is settled."""
        record = self.record
        if record is None or record.standing == "taken":
            return []
        if record.epoch == took.epoch and record.standing == "released":
            return [Send(Settled(self.unit, took.epoch))]
        if record.epoch > took.epoch:
            return [Send(Reclaimed(self.unit, took.epoch))]
        return []

    def _begin_epoch(self, epoch: int) -> list[Instruction]:
        self.starting = epoch
        return [Write(self._starts)]

    @property
    def _starts(self) -> Record | None:
        """The record that has to be on disk before the unit works."""
        return None if self.starting is None else Record(self.unit, self.starting, "owner")


def _refusal(event: Ask | Final, reason: str) -> Send:
    return Send(Refuse(event.unit, event.attempt, reason))
