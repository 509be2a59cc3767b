"""Units of other masters for which this one stands by, and takes over when those are dead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from agent.master.moves.handover_messages import MAX_BYTES, Gathered
from agent.master.moves.handover_plane import HandoverPlane
from agent.master.moves.topic_moves import SPREAD_S
from agent.master.standby.guards import KIND
from agent.master.standby.lease_plane import LeasePlane
from agent.master.storage.state import State
from agent.master.topics.topic_shadows import TopicShadows
from agent.placement.handover.events import Checkpoint as Opaque
from agent.placement.handover.events import require_epoch
from agent.placement.standby import take_over as t
from agent.placement.standby.standby import Standby
from agent.placement.world import Unit
from agent.runtime.console import Say
from agent.topics.shadow import Checkpoint, Named, Shadow
from agent.wire import handover as w

# Kind of the documents in the state.
TAKEN: Final = "taken_over"
# For how long an owner may ask for nothing that has told nothing yet.
PATIENCE_S: Final = 60.0
# Units for which a master stands by.
MAX_STANDBYS: Final = 1_280
# Bytes of checkpoints that have come in part, of all units: eight of the largest.
MAX_GATHERED: Final = 8 * MAX_BYTES
# Bytes of all that is had of units of others. One owner may have as much as it leaves free.
MAX_HAD: Final = 1 << 27
TOO_MUCH: Final = "it stands by for too much already"


class TakenOver(Struct, frozen=True, array_like=True):
    """A unit that was taken over here, by this epoch. `incarnation` names the topic's inbox."""

    epoch: int
    incarnation: str
    source: str
    time_ms: int


class _Standby:
    """What it has is in memory: after a restart it has nothing, and takes nothing over. `at`: the
    term of this master in which it has it; `seed`, the number of the checkpoint with which that
    began."""

    __slots__ = (
        "at", "crowded", "gathered", "heard_s", "machine", "named", "named_bytes", "ready_s",
        "seed", "shadow", "told",
    )  # fmt: skip

    def __init__(
        self, unit: Unit, owner: str, named: Named, named_bytes: int, at: int, now: float
    ) -> None:
        self.machine = Standby(unit, owner)
        self.named = named
        self.named_bytes = named_bytes
        self.at = at
        self.heard_s = now  # when the owner asked last
        self.ready_s = now + SPREAD_S  # everybody who sends to the unit knows of its inbox here
        self.told = False
        self.gathered = Gathered()
        self.seed = 0
        self.shadow: Shadow | None = None
        self.crowded = False  # whether the operator was told that it waits for room

    @property
    def bytes(self) -> int:
        """What it takes."""
        return self.named_bytes + (0 if self.shadow is None else self.shadow.bytes)


class Standbys:
    """One for each such unit. `wall` reads the wall clock in seconds since 1970 UTC, `refusing`
    whether the disk takes nothing now. A turn is O(units here that are another's)."""

    def __init__(
        self,
        clock: Callable[[], float],
        state: State,
        leases: LeasePlane,
        handovers: HandoverPlane,
        shadows: TopicShadows,
        refusing: Callable[[], bool],
        wall: Callable[[], float],
        say: Say,
    ) -> None:
        self._clock = clock
        self._state = state
        self._leases = leases
        self._handovers = handovers
        self._shadows = shadows
        self._refusing = refusing
        self._wall = wall
        self._say = say
        self._standbys: dict[Unit, _Standby] = {}
        self._taken = state.read(TAKEN, msgspec.msgpack.Decoder(TakenOver).decode)

    def __len__(self) -> int:
        return len(self._standbys)

    def taken(self, unit: Unit) -> TakenOver | None:
        """When the unit was taken over here, and from whom."""
        taken = self._taken.get(unit.name)
        here = taken is not None and taken.incarnation == self._shadows.incarnation(unit.name)
        return taken if here else None

    def stands_by(self, name: str, incarnation: str) -> bool:
        """Whether this master stands by for that topic."""
        each = self._standbys.get(Unit(KIND, name))
        return each is not None and each.named.incarnation == incarnation

    def watched(self) -> Iterator[tuple[str, int]]:
        """Owners whose death matters, with the term in which they have their units."""
        for each in self._standbys.values():
            if each.machine.judges and each.shadow is not None:
                yield each.machine.primary, each.machine.term

    # --- time ----------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Say who is ready, take over what belonged to the dead."""
        for unit, each in list(self._standbys.items()):
            machine = each.machine
            if each.at != self._leases.term and machine.state != "taking_over":
                # Its owner may go on without it by now.
                self._forget(unit)
            elif not each.told and each.ready_s <= now:
                self._say_ready(unit, each)
            elif each.shadow is None and each.heard_s + PATIENCE_S <= now:
                self._forget(unit)  # The owner asks again, if it is there.
            elif machine.judges and each.shadow is not None:
                dead = self._leases.dead(machine.primary, machine.term)
                # While it holds the lease of that term, its owner waits for its word.
                works = dead and self._leases.held() == each.at and not self._refusing()
                if works and not self._shadows.has_inbox(each.named):
                    self._forget(unit)  # It came here by a move.
                elif works and self._has_room(unit, each):
                    self._take_over(unit, each)

    def _has_room(self, unit: Unit, each: _Standby) -> bool:
        """Whether its outputs have room in the spool, besides those of others that are on their way
        to the disk."""
        under_way = [o for o in self._standbys.values() if o.machine.state == "taking_over"]
        shadows = [o.shadow for o in (*under_way, each) if o.shadow is not None]
        if self._shadows.has_room([told for o in shadows for told in o.outputs.values()]):
            return True
        if not each.crowded:
            each.crowded = True
            self._say(f"{unit} is not taken over yet: too much waits here for other masters\n")
        return False

    def _say_ready(self, unit: Unit, each: _Standby) -> None:
        each.told = True
        self._handovers.tell(each.machine.primary, unit, w.StandbyReady(each.at))

    def _forget(self, unit: Unit) -> None:
        self._shadows.end(self._standbys.pop(unit).named)

    # --- the owner's words ---------------------------------------------------------------------

    def heard(self, unit: Unit, sender: str, message: w.StandbyMessage) -> None:
        """Something that is said to a standby."""
        each = self._standbys.get(unit)
        if each is not None and each.machine.state == "taking_over":
            return
        if each is not None and each.machine.primary != sender:
            each = None
        match message:
            case w.StandbyAsk(epoch, body):
                self._asked(unit, sender, epoch, body)
            case w.StandbyUpdate() if each is not None:
                self._updated(unit, each, message)
            case w.StandbyUpdate(part=0):
                self._refuse(sender, unit, "it has nothing of it")
            case w.StandbyDismiss(term, number, epoch, incarnation):
                if (took := self._took(unit, incarnation)) > epoch:
                    self._handovers.tell(sender, unit, w.StandbyTook(took))
                elif each is None or each.named.incarnation != incarnation:
                    self._handovers.tell(sender, unit, w.StandbyDismissed(term, number))
                else:
                    self._dismissed(unit, each, t.Dismiss(unit, term, number))

    def _asked(self, unit: Unit, sender: str, epoch: int, body: bytes) -> None:
        try:
            named = w.read_body(body, Named)
        except ValueError as error:
            self._refuse(sender, unit, f"the topic cannot be read: {error}")
            return
        if (took := self._took(unit, named.incarnation)) > epoch:
            self._handovers.tell(sender, unit, w.StandbyTook(took))
            return
        each = self._standbys.get(unit)
        if each is not None and (each.named, each.machine.primary) != (named, sender):
            if each.machine.primary != sender and each.machine.epoch >= epoch:
                self._refuse(sender, unit, "it stands by for another")
                return
            self._forget(unit)
            each = None
        if each is None:
            problem = self._why_not(unit, named)
            if not problem and not self._fits(sender, len(body)):
                problem = TOO_MUCH
            if problem:
                self._refuse(sender, unit, problem)
                return
            now, at = self._clock(), self._leases.term
            self._shadows.begin(named, now)
            self._standbys[unit] = _Standby(unit, sender, named, len(body), at, now)
            return
        each.heard_s = self._clock()
        if each.told and each.at == self._leases.term:
            self._say_ready(unit, each)

    def _took(self, unit: Unit, incarnation: str) -> int:
        """The epoch in which the unit came here when it was taken over, wherever it is now; 0 if it
        was not."""
        taken = self._taken.get(unit.name)
        if taken is None or taken.incarnation != incarnation:
            return 0
        # It was to be taken over; whether it was, is on disk with the unit.
        return taken.epoch if self._handovers.epoch(unit) >= taken.epoch else 0

    def _why_not(self, unit: Unit, named: Named) -> str:
        if unit.kind != KIND or named.topic.name != unit.name:
            return "it is no topic of that name"
        if not self._leases.judges:
            return "its pool has less than three masters"
        if self._refusing():
            return "its disk takes nothing now"
        if len(self._standbys) >= MAX_STANDBYS:
            return f"it stands by for {MAX_STANDBYS} units already"
        return self._shadows.why_not(named)

    def _fits(self, owner: str, more: int = 0) -> bool:
        """Whether an owner's units may take that many bytes more. O(units)."""
        had = sum(each.bytes for each in self._standbys.values())
        own = sum(e.bytes for e in self._standbys.values() if e.machine.primary == owner)
        return own + more <= MAX_HAD - had - more

    def _make_room(self, owner: str) -> None:
        """An owner's units that take too much go, the largest first: it asks again with what it has
        of them then."""
        while not self._fits(owner):
            own = [
                (each.bytes, unit)
                for unit, each in self._standbys.items()
                if each.machine.primary == owner and each.machine.state != "taking_over"
            ]
            if not own:
                return
            _, largest = max(own)
            self._forget(largest)
            self._refuse(owner, largest, TOO_MUCH)

    def _refuse(self, to: str, unit: Unit, reason: str) -> None:
        self._handovers.tell(to, unit, w.StandbyRefuse(reason[:512]))

    def _updated(self, unit: Unit, each: _Standby, message: w.StandbyUpdate) -> None:
        if message.parts > 1:
            gathered = sum(other.gathered.size for other in self._standbys.values())
            if gathered + len(message.body) > MAX_GATHERED:
                each.gathered.forget()
                each.told = False  # It needs all of it, later.
                return
        body = each.gathered.add(message)
        if body is None or each.machine.state == "taking_over":
            return
        whole = message.seed == message.attempt
        fits = message.at == each.at == self._leases.term
        if not fits or not (whole or (message.seed == each.seed and each.shadow is not None)):
            each.told = False  # It needs all of it.
            return
        update = t.Update(
            unit, message.term, message.epoch, message.attempt, complete=True, checkpoint=Opaque()
        )
        try:
            checkpoint = w.read_body(body, Checkpoint)
            checkpoint.check()
            require_epoch(message.epoch, self._wall())
            if whole:
                shadow = Shadow(checkpoint, len(self._standbys))
            else:
                assert each.shadow is not None
                shadow = each.shadow
        except ValueError as error:
            self._refuse(each.machine.primary, unit, f"its checkpoint cannot be read: {error}")
            return
        if not (made := each.machine.handle(update)):
            return
        if not whole:
            try:
                shadow.follow(checkpoint, len(self._standbys))
            except ValueError:
                self._forget(unit)  # The owner asks again.
                return
        each.seed, each.shadow = message.seed, shadow
        self._make_room(each.machine.primary)
        if unit not in self._standbys:
            return
        if not self._shadows.has_inbox(each.named):
            self._forget(unit)  # It came here by a move, or the owner asks again.
            return
        self._shadows.cover(each.named, shadow)
        self._perform(unit, each, made)

    def _dismissed(self, unit: Unit, each: _Standby, dismiss: t.Dismiss) -> None:
        if made := each.machine.handle(dismiss):
            self._perform(unit, each, made)
            self._forget(unit)

    # --- what the machine says -----------------------------------------------------------------

    def _perform(self, unit: Unit, each: _Standby, instructions: Iterable[t.Instruction]) -> None:
        owner = each.machine.primary
        for instruction in instructions:
            match instruction:
                case t.Write(role) if role.part != "owner":
                    # To have it in memory is enough: what is forgotten takes nothing over.
                    self._perform(unit, each, each.machine.handle(t.Written(role)))
                case t.Send(t.Kept(_, term, number)):
                    self._handovers.tell(owner, unit, w.StandbyKept(term, number))
                case t.Send(t.Dismissed(_, term, number)):
                    self._handovers.tell(owner, unit, w.StandbyDismissed(term, number))

    def _take_over(self, unit: Unit, each: _Standby) -> None:
        machine = each.machine
        (write,) = machine.handle(t.Dead(machine.term))
        assert isinstance(write, t.Write)
        self._say(f"{machine.primary} is dead: {unit} is taken over\n")
        now_ms = round(self._wall() * 1e3)
        taken = TakenOver(write.role.epoch, each.named.incarnation, machine.primary, now_ms)
        self._taken[unit.name] = taken
        # Before it is: its owner is told for ever, even when it has left this master again.
        self._state.put(TAKEN, unit.name, msgspec.msgpack.encode(taken))
        self._state.when_durable(partial(self._take, unit, each, write.role))

    def _take(self, unit: Unit, each: _Standby, role: t.Role) -> None:
        assert each.shadow is not None
        changes, publish = self._shadows.take_over(each.shadow)
        then = partial(self._has_taken, unit, each, role, publish)
        self._handovers.take_over(unit, role.epoch, changes, then)

    def _has_taken(
        self, unit: Unit, each: _Standby, role: t.Role, publish: Callable[[], object]
    ) -> None:
        publish()
        each.machine.handle(t.Written(role))
        del self._standbys[unit]
