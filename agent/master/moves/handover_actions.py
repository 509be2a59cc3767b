"""Executes the instructions of handovers: on units, on the disk, over the link."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol

from agent.master.moves.handover_link import HandoverLink
from agent.master.moves.handover_messages import written
from agent.master.moves.late_items import LateItems
from agent.master.moves.moving_unit import MovingUnit
from agent.placement.handover import events as h
from agent.placement.handover.unit_records import ForgetUnit, SaveUnit
from agent.wire import handover as w

GONE: Final = "it does not live here any more"
# How long the release is not told to the target, so that no output overtakes another on its way to
# masters that are up.
PATIENCE_S: Final = 2.0


class UnitStore(Protocol):
    """Stable storage."""

    @property
    def refusing(self) -> bool:
        """Whether nothing may be written now."""

    def write(self, changes: Iterable[Any], then: Callable[[], object]) -> None:
        """Write them in one transaction, then call `then`."""


class HandoverActions:
    """Carries out instructions of holders. What follows at once is appended to `events`; what
    follows later is `fed`. `settled(entry)`: the target was told that it owns the unit."""

    def __init__(
        self,
        clock: Callable[[], float],
        link: HandoverLink,
        store: UnitStore,
        late: LateItems,
        events: deque[tuple[MovingUnit, h.Event, str]],
        fed: Callable[[MovingUnit, h.Event], object],
        settled: Callable[[MovingUnit], object],
    ) -> None:
        self._clock = clock
        self._link = link
        self._store = store
        self._late = late
        self._events = events
        self._feed = fed
        self._has_settled = settled
        # Records that the disk did not take.
        self._unwritten: deque[tuple[MovingUnit, h.Record | None]] = deque()
        # Units taken from other masters.
        self.taken = 0

    def perform(
        self, entry: MovingUnit, instructions: Iterable[h.Instruction], partner: str
    ) -> None:
        """Carry them out; `partner` is the other master."""
        movable, unit = entry.movable, entry.holder.unit
        for each in instructions:
            match each:
                case h.Send(message):
                    self._send(entry, partner, message)
                case h.Write(record):
                    self.write(entry, record)
                case h.MakeCopy() if movable.lives(unit):
                    copied = h.Copied(h.Checkpoint(movable.copy(unit)))
                    self._events.append((entry, copied, ""))
                case h.MakeCopy():
                    machine = entry.holder.machine
                    assert machine is not None
                    self._refuse(entry, partner, machine.attempt, GONE)
                case h.Load(checkpoint):
                    movable.load(unit, checkpoint.state, self._asking(entry, h.Loaded))
                case h.Pause():
                    entry.turn += 1
                    if movable.lives(unit):
                        movable.hold(unit, partial(self._held, entry, entry.turn))
                    else:
                        # The offer is on disk: it is taken back before it is told.
                        entry.gone = True
                        self._events.append((entry, h.Paused(h.Checkpoint()), ""))
                case h.Work(_, checkpoint):
                    self._work(entry, resumes=checkpoint is None)
                case h.Stop():
                    entry.turn += 1
                    movable.stop(unit)

    def _work(self, entry: MovingUnit, *, resumes: bool) -> None:
        movable, unit = entry.movable, entry.holder.unit
        entry.owned = resumes or entry.beginning
        gone, entry.gone = entry.gone, False
        if resumes:
            entry.turn += 1
            if not gone:
                movable.resume(unit)
            if entry.move is not None:
                entry.move.puts_out_again(self._clock())
        elif not entry.beginning:
            movable.work(unit)

    def _asking(self, entry: MovingUnit, event: Callable[[Any], h.Event]) -> Callable[[Any], None]:
        """The callback that the unit calls with its answer."""
        entry.turn += 1
        return partial(self._answered, entry, entry.turn, event)

    def _answered(
        self, entry: MovingUnit, turn: int, event: Callable[[Any], h.Event], answer: Any
    ) -> None:
        if turn == entry.turn:
            self._feed(entry, event(answer))

    def _held(self, entry: MovingUnit, turn: int) -> None:
        """Nothing of it is on its way to the disk: the pause begins."""
        if turn == entry.turn:
            if entry.move is not None:
                entry.move.paused_s = self._clock()
            entry.movable.pause(entry.holder.unit, self._asking(entry, _paused))

    @property
    def waiting(self) -> bool:
        """Whether there is something that the disk did not take."""
        return bool(self._unwritten)

    def write_waiting(self) -> None:
        """Try again, if the disk takes something now."""
        if self._unwritten and not self._store.refusing:
            waiting, self._unwritten = self._unwritten, deque()
            for entry, record in waiting:
                self.write(entry, record)

    def write(self, entry: MovingUnit, record: h.Record | None) -> None:
        """Put the record on disk, with what it is about."""
        if self._unwritten or self._store.refusing:
            self._unwritten.append((entry, record))
            return
        movable, unit = entry.movable, entry.holder.unit
        changes: Iterable[Any] = ()
        match record:
            case None:
                changes = movable.discard(unit)
            case h.Record(standing="taken"):
                self.taken += 1
                changes = movable.adopt(unit)
            case h.Record(standing="released", other=to) if to:
                changes = movable.release(unit, to)
                self._late.begin(unit, movable, to, self._clock())
        own = ForgetUnit(unit) if record is None else SaveUnit(record)
        self._store.write([*changes, own], partial(self._feed, entry, h.Written(record)))

    # --- messages out --------------------------------------------------------------------------

    def _send(self, entry: MovingUnit, to: str, message: h.Message) -> None:
        if isinstance(message, h.Settled):
            self._settle(entry, to, message)
            return
        if isinstance(message, h.Final) and entry.gone:
            self._refuse(entry, to, message.attempt, GONE)
            return
        trouble = ""
        try:
            sent = [self._link.tell(to, message.unit, each) for each in written(message)]
        except ValueError as error:
            trouble = str(error)
        else:
            if isinstance(message, h.Ask) and not all(sent):
                trouble = f"no link to {to}"
        if trouble and isinstance(message, h.Ask | h.Copy | h.Final):
            self._refuse(entry, to, message.attempt, trouble)

    def _refuse(self, entry: MovingUnit, to: str, attempt: int, why: str) -> None:
        """As if the target had said so: it hears no more of it."""
        self._events.append((entry, h.Refuse(entry.holder.unit, attempt, why), to))

    def _settle(self, entry: MovingUnit, to: str, message: h.Settled) -> None:
        """Tell the target that it owns the unit, when nothing it puts out can overtake what was put
        out here."""
        if entry.settling is not None:
            return
        # The unit may be asked for other things meanwhile: it may be on its way back.
        asked = object()
        then = partial(self._settled, entry, asked, to, message)
        entry.settling = self._clock() + PATIENCE_S, then, asked
        entry.movable.settles(message.unit, then)

    def _settled(self, entry: MovingUnit, asked: object, to: str, message: h.Settled) -> None:
        if entry.settling is None or entry.settling[2] is not asked:
            return
        entry.settling = None
        self._link.tell(to, message.unit, w.MoveSettled(message.epoch))
        if entry.move is not None:
            entry.move.puts_out_again(self._clock())
        self._has_settled(entry)


def _paused(state: bytes) -> h.Paused:
    return h.Paused(h.Checkpoint(state))
