"""Handover plane: units that are handed over live between this master and others of its pool.

`agent.placement.handover.holder` decides; here its instructions are carried out on what the units
are (`Movable`), its messages sent, its records put on disk together with what they are about.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, get_args

from agent.master.moves.handover_actions import GONE, HandoverActions, UnitStore
from agent.master.moves.handover_link import HandoverLink
from agent.master.moves.handover_messages import read
from agent.master.moves.late_exchange import LateExchange
from agent.master.moves.movable import Changes, Movable, MoveStatus
from agent.master.moves.move_list import Move, MoveList, told
from agent.master.moves.moving_unit import MovingUnit
from agent.master.requests.operator_plane import OperatorPlane
from agent.master.requests.peers import Peers
from agent.master.requests.public_plane import PublicPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.placement.handover import events as h
from agent.placement.handover.holder import GIVEN_UP, Holder
from agent.placement.handover.source import WAITING, Source
from agent.placement.handover.target import Target
from agent.placement.handover.unit_records import SaveUnit
from agent.placement.moves import Reason
from agent.placement.world import Kind, PlacementError, Unit
from agent.runtime.console import Say
from agent.runtime.reactor import Reactor
from agent.wire import handover as w
from agent.wire.records import MoveRecord

# Units on their way to this master at a time.
MAX_COMING: Final = 8
MAX_COMING_FROM: Final = MAX_COMING // 2  # from one master


class HandoverPlane:
    """Moves units between masters; a `Mover` of `agent.master.moves.movable`. `partners`: the IADs
    of this master's operator, to which units may go and from which they may come. `kept` is what
    the store had at the start; `wall` reads the wall clock in seconds since 1970 UTC; `record` gets
    each move that has ended. An event is O(units on the move)."""

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        public: PublicPlane,
        peers: Peers,
        operator: OperatorPlane,
        store: UnitStore,
        movables: Sequence[Movable],
        kept: Sequence[h.Record],
        *,
        partners: Collection[str],
        wall: Callable[[], float],
        say: Say,
        record: Callable[[MoveRecord], object] = lambda _: None,
        timing: h.Timing | None = None,
    ) -> None:
        self._clock = reactor.clock
        self._operator = operator
        self._store = store
        self._movables = {each.kind: each for each in movables}
        self._wall = wall
        self._say = say
        self._record = record
        self._timing = timing or h.Timing()
        self._partners = partners
        self._link = HandoverLink(
            iad, public, peers, partners, self._heard, self._not_taken, self._shares
        )
        self._moves = MoveList(iad)
        self._late = LateExchange(
            self._movables, self._link.tell, self.where, self.epoch, lambda: store.refusing, say,
            self._clock,
        )  # fmt: skip
        self._entries: dict[Unit, MovingUnit] = {}
        # Those that may have a timer; most units left long ago.
        self._timed: set[MovingUnit] = set()
        # What follows from one event may cause another.
        self._events: deque[tuple[MovingUnit, h.Event, str]] = deque()
        self._at_work = False
        self._actions = HandoverActions(
            self._clock, self._link, store, self._late, self._events, self._feed, self._has_settled
        )
        # Why placement lets a unit of that master not come here; empty if it may.
        self.admits: Callable[[Unit, str], str] = lambda *_: ""
        self.given_up: Callable[[Unit, str], object] = lambda *_: None  # It was let, and came not.
        # Why a unit that lives here may never move; empty if it may.
        self.stays: Callable[[Unit], str] = lambda _: ""
        # Whether a unit has no standby elsewhere; if it has one, `freed` follows.
        self.free: Callable[[Unit], bool] = lambda _: True
        # Why it still has one.
        self.waits_for: Callable[[Unit], str] = lambda _: ""
        # Gets what is said between an owner and its standby.
        self.on_standby: Callable[[Unit, str, Any], object] = lambda *_: None
        operator.takes(w.MoveUnit, self._asked)
        operator.takes(w.ListMoves, self._list)
        for movable in movables:
            movable.on_late = lambda unit: self._late.has(unit, self._clock())
        self._restore(kept)
        reactor.add_timer(self)

    # --- as `Mover` ----------------------------------------------------------------------------

    def begin(self, unit: Unit, target: str, reason: Reason) -> None:
        """Begin to move it there. PlacementError in one line if that cannot be."""
        if problem := self._why_not(unit, target):
            raise PlacementError(f"{unit} is not moved: {problem}")
        self._moves.add(self._move(unit, target, reason), waits=True)
        self._begin_next()
        self._work_off()

    def _why_not(self, unit: Unit, target: str) -> str:
        movable = self._movables.get(unit.kind)
        if movable is None:
            return f"this master moves no {unit.kind}"
        if (now_at := self.where(unit)) is not None:
            return f"it lives at {now_at}; ask there"
        if not movable.lives(unit):
            return "it does not live here"
        if problem := self.stays(unit):
            return problem
        if problem := self._link.why_not(target):
            return problem
        if self.moving(unit):
            return "it is being moved already"
        return "too many moves wait here already" if self._moves.full else ""

    @property
    def moves(self) -> Sequence[MoveStatus]:
        """Those under way, and the last ones that ended; the newest last."""
        return self._moves.statuses

    def where(self, unit: Unit) -> str | None:
        """To which master a unit went that lived here; None if it lives here, or never did."""
        entry = self._entries.get(unit)
        if entry is None or (record := entry.holder.record) is None:
            return None
        gone = record.standing == "released" and not entry.movable.lives(unit)
        return (record.other or None) if gone else None

    def departed(self, kind: Kind) -> dict[str, str]:
        """Present masters of units of this kind that lived here. O(units that ever moved)."""
        gone = {unit.name: self.where(unit) for unit in self._entries if unit.kind == kind}
        return {name: iad for name, iad in gone.items() if iad is not None}

    def forget(self, unit: Unit) -> None:
        """It was removed where it went: here may be another of its name."""
        entry = self._entries[unit]
        record = entry.holder.record
        if record is not None and record.standing == "released":
            self._actions.write(entry, h.Record(unit, record.epoch, "released"))

    def moving(self, unit: Unit) -> bool:
        """Whether it is on its way from here or to here."""
        entry = self._entries.get(unit)
        if entry is not None and (entry.holder.machine or entry.settling or entry.leaving):
            return True
        return self._moves.has(unit)

    def bound_for(self, unit: Unit) -> str:
        """The IAD to which a unit is on its way from here, until it is on disk that it lives there;
        empty if its move has not begun."""
        entry = self._entries.get(unit)
        if entry is None:
            return ""
        return entry.leaving if entry.move is None else entry.move.target

    @property
    def counters(self) -> dict[str, int]:
        """Since the start: moves from here that were settled and aborted, units taken from other
        masters, and late items that were new at the target."""
        taken = {"moves_taken": self._actions.taken, "moves_late_items": self._late.new}
        return {**self._moves.counters, **taken}

    @property
    def others(self) -> set[str]:
        """The masters with which units are on the move."""
        found = {entry.partner for entry in self._timed}
        records = [e.holder.record for e in self._timed if e.holder.record is not None]
        return {*found, *(record.other for record in records)} - {""}

    # --- dead masters --------------------------------------------------------------------------

    def tell(self, to: str, unit: Unit, message: w.StandbyMessage) -> None:
        """Say this to the other master of a unit with a standby. It may be lost."""
        self._link.tell(to, unit, message)

    def epoch(self, unit: Unit) -> int:
        """The last that is on disk here; 0 if the unit never moved."""
        entry = self._entries.get(unit)
        record = None if entry is None else entry.holder.record
        return 0 if record is None else record.epoch

    def take_over(
        self, unit: Unit, epoch: int, changes: Changes, then: Callable[[], object]
    ) -> None:
        """Its master is dead: it lives here, as soon as this is on disk."""
        entry = self._entry(unit)
        assert entry is not None
        record = h.Record(unit, epoch, "owner")

        def taken() -> None:
            entry.holder.took_over(record)
            self._late.drop(unit)
            entry.movable.work(unit)
            entry.movable.own(unit)
            entry.owned = True
            then()

        self._store.write([*changes, SaveUnit(record)], taken)

    def lost(self, unit: Unit, epoch: int, to: str) -> None:
        """It lives at that master: what only this one has goes there. A move from here that has not
        begun is over."""
        entry = self._entry(unit)
        assert entry is not None
        entry.holder.epoch = None
        entry.owned = False
        entry.leaving = to
        self._actions.write(entry, h.Record(unit, epoch, "released", to))
        if entry.move is not None and entry.move.source is None:
            planned, entry.move = entry.move, None
            self._over(planned, f"it lives at {to} now")
            self._begin_next()
            self._work_off()

    # --- beginnings ----------------------------------------------------------------------------

    def _entry(self, unit: Unit) -> MovingUnit | None:
        entry = self._entries.get(unit)
        if entry is None and (movable := self._movables.get(unit.kind)) is not None:
            entry = self._entries[unit] = MovingUnit(Holder(unit, self._timing), movable)
        return entry

    def _restore(self, kept: Sequence[h.Record]) -> None:
        now = self._clock()
        for record in kept:
            if (entry := self._entry(record.unit)) is None:
                continue  # of a later version
            there = entry.movable.restore(record.unit, record.standing, record.other)
            if record.standing in ("owner", "released") or not there:
                # An epoch begins when the next handover does.
                entry.holder.record = record
            else:
                made = entry.holder.recover(record, h.Checkpoint(), now)
                if isinstance(source := entry.holder.machine, Source):
                    entry.move = self._move(record.unit, record.other, "plan")
                    entry.move.source = source
                    self._moves.add(entry.move, waits=False)
                self._timed.add(entry)
                self._actions.perform(entry, made, record.other)
                if record.other not in self._partners:
                    self._complain(record)
            # One that is taken may have been here before, and go back to where it went then.
            if there and record.standing in ("released", "taken") and record.other:
                self._late.begin(record.unit, entry.movable, record.other, now)
        self._work_off()

    def _complain(self, record: h.Record) -> None:
        done, till = "taken from", "it waits until that master has answered"
        if record.standing == "offered":
            done, till = (
                "offered to",
                "it is taken back unless that master soon says that it has it",
            )
        self._say(
            f"{record.unit} was {done} {record.other}, which is neither in this master's pool nor "
            f"among its placement.partners now: {till}\n"
        )

    def _shares(self, unit: Unit, iad: str) -> bool:
        """Whether that master may have taken the unit from this one."""
        entry = self._entries.get(unit)
        record = None if entry is None else entry.holder.record
        return record is not None and record.standing != "taken" and record.other == iad

    def _move(self, unit: Unit, target: str, reason: Reason) -> Move:
        return Move(unit, target, reason, self._wall(), self._clock())

    def _over(self, move: Move, trouble: str) -> None:
        self._record(self._moves.over(move, trouble, self._clock()))

    def _begin_next(self) -> None:
        while (move := self._moves.next()) is not None:
            entry = self._entry(move.unit)
            assert entry is not None
            if entry.movable.lives(move.unit):
                entry.move = move
                self._start(entry, move)
            else:
                self._over(move, GONE)

    def freed(self, unit: Unit) -> None:
        """It has no standby any more: a move that waited for that begins."""
        entry = self._entries.get(unit)
        if entry is not None and entry.move is not None and entry.move.source is None:
            self._start(entry, entry.move)
            self._work_off()

    def _start(self, entry: MovingUnit, move: Move) -> None:
        waits = not self.free(move.unit)
        move.trouble = self.waits_for(move.unit) if waits else ""
        if waits:
            return
        holder, now = entry.holder, self._clock()
        arriving = holder.machine
        if arriving is not None:
            return  # it was taken over meanwhile, and comes back just now: when that has ended
        if holder.epoch is not None:
            entry.beginning = False
            made = holder.begin(move.target, secrets.randbits(52), now)
            assert isinstance(holder.machine, Source)
            move.source = holder.machine
        elif holder.record is None:
            entry.beginning = True
            made = holder.create()
        else:
            # Its epoch comes after all that were on disk.
            entry.beginning = True
            record = h.Record(move.unit, holder.record.epoch, "owner")
            made = holder.recover(record, h.Checkpoint(), now)
        self._timed.add(entry)
        self._actions.perform(entry, made, move.target)

    # --- events --------------------------------------------------------------------------------

    def _feed(self, entry: MovingUnit, event: h.Event, sender: str = "") -> None:
        self._events.append((entry, event, sender))
        self._work_off()

    def _work_off(self) -> None:
        if self._at_work:
            return
        self._at_work = True
        try:
            while self._events:
                entry, event, sender = self._events.popleft()
                partner, machine = sender or entry.partner, entry.holder.machine
                if isinstance(event, h.Written):
                    entry.leaving = ""
                self._actions.perform(
                    entry, entry.holder.handle(event, self._clock(), sender), partner
                )
                self._timed.add(entry)
                self._look(entry)
                if isinstance(machine, Target) and machine.state == "aborted":
                    self.given_up(machine.unit, machine.source)
                if entry.unknown and not (self._events or self._actions.waiting):
                    self._timed.discard(entry)
                    self._entries.pop(entry.holder.unit, None)
        finally:
            self._at_work = False

    def _look(self, entry: MovingUnit) -> None:
        """React to the holder's new state."""
        holder, move = entry.holder, entry.move
        owned, entry.owned = entry.owned, holder.owns
        if holder.owns and not owned:
            self._late.drop(holder.unit)
            entry.movable.own(holder.unit)
        if move is None:
            return
        if move.source is None:
            if holder.epoch is not None:
                self._start(entry, move)
        elif move.source.ended and entry.settling is None:
            entry.move = None
            entry.movable.forget_copy(holder.unit)
            self._over(move, move.source.reason)
            if move.trouble:
                self._say(f"{move.unit} is not moved to {move.target}: {move.trouble}\n")
            self._begin_next()

    def _has_settled(self, entry: MovingUnit) -> None:
        self._look(entry)
        self._work_off()

    # --- messages in ---------------------------------------------------------------------------

    def _heard(self, unit: Unit, sender: str, message: w.HandoverMessage) -> None:
        match message:
            case _ if isinstance(message, get_args(w.StandbyMessage)):
                self.on_standby(unit, sender, message)
                return
            case w.MoveLate():
                self._late.arrived(unit, sender, message)
                return
            case w.MoveKept():
                self._late.confirmed(unit, sender, message, self._clock())
                return
            case w.MoveAsk(attempt) if problem := self._why_not_taken(unit, sender):
                self._link.tell(sender, unit, w.MoveRefuse(attempt, problem))
                return
        # Only who asks makes a unit known here: names and states cost memory.
        entry = self._entries.get(unit)
        if isinstance(message, w.MoveAsk) and (entry := self._entry(unit)) is not None:
            entry.forget_removed()
        if isinstance(message, w.MoveState) and not (
            entry is not None and entry.gathers(message.attempt, sender)
        ):
            if message.epoch and message.part + 1 == message.parts:
                self._link.tell(sender, unit, w.MoveRefuse(message.attempt, GIVEN_UP))
            return
        said = None if entry is None else read(unit, message, entry.gathered)
        if entry is None or said is None:
            return
        if (event := self._event_of(entry, said, sender)) is not None:
            self._feed(entry, event, sender)

    def _event_of(self, entry: MovingUnit, said: h.Message, sender: str) -> h.Event | None:
        """The event that a message is; None if it is from an earlier handover, or of a master that
        has no part in this one."""
        source = entry.holder.machine
        match said:
            case h.Took(_, epoch) if isinstance(source, Source) and source.epoch == epoch:
                if source.target != sender:
                    return None
                if entry.move is not None:
                    entry.move.works_again(self._clock())
            case h.Final() if entry.awaits(said):
                problem = entry.accept(said, self._wall())
                return h.Loaded(problem) if problem else said
            case h.Ask() | h.Took() | h.Final():
                pass  # There is an answer to these always.
            case _ if entry.partner != sender:
                return None
        return said

    def _why_not_taken(self, unit: Unit, sender: str) -> str:
        movable = self._movables.get(unit.kind)
        if movable is None:
            return f"this master takes no {unit.kind}"
        if movable.lives(unit):
            return "it is here already"
        if self._actions.waiting or self._store.refusing:
            # Perhaps that an earlier attempt is discarded: it would take this one along. And the
            # unit would stand still for a lease, in vain.
            return "its disk takes nothing now; try again later"
        coming = [
            entry.holder.machine.source
            for entry in self._timed
            if isinstance(entry.holder.machine, Target) and entry.holder.unit != unit
        ]
        if len(coming) >= MAX_COMING or coming.count(sender) >= MAX_COMING_FROM:
            return f"{len(coming)} units are on their way there; try again later"
        return self.admits(unit, sender)

    def _not_taken(self, iad: str, attempt: int, line: str) -> None:
        for entry in list(self._timed):
            match entry.holder.machine:
                case Source(state=state, target=target, attempt=number) as source:
                    if state in WAITING and (target, number) == (iad, attempt):
                        self._feed(entry, h.Refuse(source.unit, attempt, line), iad)
                case Target(state="lapsed", source=source, epoch=epoch) as machine:
                    if source == iad and entry.complained != epoch and not attempt:
                        entry.complained = epoch
                        self._say(f"{machine.unit} was taken from {iad} and waits: {line}\n")

    # --- operators -----------------------------------------------------------------------------

    def _asked(self, origin: RequestOrigin, request: w.MoveUnit, _now: float) -> None:
        unit = Unit(request.kind, request.name)
        try:
            self.begin(unit, request.target, request.reason)
        except PlacementError as error:
            report = w.MoveReport(request.id, ok=False, message=str(error)[:512])
        else:
            begun = [each for each in self.moves if each.unit == unit]
            report = w.MoveReport(request.id, ok=True, moves=(told(begun[-1]),))
        self._operator.reply(origin, report)

    def _list(self, origin: RequestOrigin, request: w.ListMoves, _now: float) -> None:
        moves = tuple([told(each) for each in self.moves])
        self._operator.reply(origin, w.MoveReport(request.id, ok=True, moves=moves))

    # --- time ----------------------------------------------------------------------------------

    @property
    def next_due(self) -> float | None:
        """When something has to be sent, written or given up."""
        if self._actions.waiting and not self._store.refusing:
            return 0.0
        dues = [entry.next_due for entry in self._timed]
        dues.append(self._late.next_due)
        return min([due for due in dues if due is not None], default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._actions.write_waiting()
        for entry in list(self._timed):
            if entry.settling is not None and entry.settling[0] <= now:
                entry.settling[1]()
            due = entry.holder.next_due
            if due is not None and due <= now:
                self._feed(entry, h.Tick())
            if entry.next_due is None and entry.holder.machine is None:
                self._timed.discard(entry)
        self._late.tick(now, self._has_left)

    def _has_left(self, unit: Unit) -> bool:
        """Whether its release is on disk, and the disk takes what may come late: else a restart
        may have it work here again."""
        entry = self._entries.get(unit)
        under_way = entry is not None and entry.holder.machine is not None
        return not under_way and not self._store.refusing
