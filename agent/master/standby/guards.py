"""Units here that have a standby at another master: their checkpoints go there, and what they make
leaves once they are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Protocol

import msgspec

from agent.alerts.notifications import history_of
from agent.master.moves.handover_messages import update_parts
from agent.master.moves.handover_plane import HandoverPlane
from agent.master.moves.topic_moves import TopicMoves
from agent.master.standby.kept_guards import GUARD, Kept, kept_guards
from agent.master.standby.lease_plane import LeasePlane
from agent.master.standby.paced import Paced
from agent.master.storage.state import State
from agent.master.topics.topic_shadows import TopicShadows
from agent.placement.handover.events import Checkpoint, Work
from agent.placement.standby import take_over as t
from agent.placement.standby.primary import Primary
from agent.placement.world import Kind, Unit
from agent.runtime.console import Say
from agent.runtime.rate_limited_lines import RateLimitedLines
from agent.topics.contents import OUTPUT
from agent.topics.events import Release
from agent.wire import handover as w
from agent.wire.overlay import Notification

KIND: Final[Kind] = "processor"
# How often what got no answer is said again.
AGAIN_S: Final = 1.0
# A majority takes less to call a standby dead: then only these two are cut off.
HELD_UP_S: Final = 10.0
# In one of so many turns it is asked for a standby in place of one that is dead.
ASKED: Final = 4
# Whole checkpoints under way to one standby, and how long its word is waited for: when it was
# restarted, those of all its units are due at once.
MAX_WHOLE: Final = 2
WHOLE_AGAIN_S: Final = 3.0
# Numbers of a process: none sends so many checkpoints a second.
PROCESS: Final = 1 << 20


class Topics(Protocol):
    """Holds back the outputs of units."""

    def to_release(self, name: str) -> list[Release]:
        """Outputs of a topic that wait for room or disk."""

    def let_go(self, release: Release) -> None:
        """It may leave."""


class _Guard:
    """`seed`: the number of the checkpoint with which the standby began, 0 if it has to begin anew;
    it has the inbox up to `told`, and the outputs below `beyond`. `ready`: it waits for
    checkpoints. `sent`: the number of the last one, and up to where the standby has all then.
    `seeded`: the standby has said that it began. `ends`: who waits until there is no standby.
    `since_s`: when what is `waiting` began to; `said`: the operator was told that it is long."""

    __slots__ = (
        "again_s", "at", "beyond", "ends", "gone", "incarnation", "machine", "number", "other",
        "ready", "refused", "removed", "said", "seed", "seeded", "sent", "since_s", "told", "unit",
        "void", "waiting",
    )  # fmt: skip

    def __init__(self, unit: Unit, other: str, incarnation: str) -> None:
        self.unit = unit
        self.other = other
        self.incarnation = incarnation
        self.at = 0
        self.machine: Primary | None = None  # none until the standby is ready
        self.again_s = 0.0
        self.refused = ""
        self.ready = False
        self.begin_anew()
        self.ends: list[Callable[[str], object]] = []
        # What was made and waits, and the first checkpoint with it.
        self.waiting: Release | None = None
        self.number: int | None = None
        self.since_s = 0.0
        self.said = False
        # Whether the standby's term is over: nothing waits for it.
        self.gone = False
        # Whether the standby has taken it over, though it was removed here.
        self.void = self.removed = False

    def begin_anew(self) -> None:
        """The standby has nothing of the unit."""
        self.seeded = False
        self.seed = self.told = self.beyond = 0
        self.sent = (0, 0, 0)


class Guards:
    """At most one for each topic that lives here. `life` is greater than at any earlier start;
    `second(unit)` names the master that is to stand by, None if none can. A turn is
    O(units with a standby)."""

    def __init__(
        self,
        clock: Callable[[], float],
        state: State,
        leases: LeasePlane,
        handovers: HandoverPlane,
        topics: Topics,
        moves: TopicMoves,
        shadows: TopicShadows,
        second: Callable[[Unit], str | None],
        life: int,
        say: Say,
    ) -> None:
        self._clock = clock
        self._state = state
        self._leases = leases
        self._handovers = handovers
        self._topics = topics
        self._moves = moves
        self._shadows = shadows
        self._second = second
        self._number = life * PROCESS
        self._turns = 0
        self._say = say
        self._lines = RateLimitedLines(say, clock)
        self._guards: dict[Unit, _Guard] = {}
        self._whole: Paced[_Guard] = Paced(MAX_WHOLE, WHOLE_AGAIN_S)
        for name, kept in kept_guards(state).items():
            if kept is None:
                continue
            guard = _Guard(Unit(KIND, name), kept.role.other, kept.incarnation)
            self._guards[guard.unit] = guard
            guard.at = kept.at
            guard.machine = Primary(
                guard.unit, guard.other, kept.role.term, kept.role.epoch, self._number
            )
            guard.machine.recover(Checkpoint(), complete=True)

    def __len__(self) -> int:
        return len(self._guards)

    def told(self, unit: Unit) -> str:
        """The place and the state of its standby."""
        if not self._leases.judges:
            return "none: that takes a pool of at least three masters"
        guard = self._guards.get(unit)
        if guard is None:
            return "none yet"
        if guard.machine is None:
            return f"{guard.other} {guard.refused or 'is asked'}"
        if guard.machine.state == "waiting":
            return f"{guard.other} may have taken it over while this master was away; it is asked"
        if guard.gone:
            return f"{guard.other} is dead"
        if self._is_held_up(guard):
            return f"{guard.other} does not answer, and is not known to be dead: outputs wait"
        return guard.other if guard.machine.safe else f"{guard.other} gets ready"

    def watched(self) -> Iterator[tuple[str, int]]:
        """Standbys for which something waits, with the term in which they stand by."""
        for guard in self._guards.values():
            machine = guard.machine
            if machine is None or guard.gone:
                continue
            if machine.state == "dismissing" or not machine.safe:
                yield guard.other, guard.at

    # --- what units make -----------------------------------------------------------------------

    def waits(self, release: Release) -> bool:
        """Whether it has to wait for the standby."""
        guard = self._guards.get(Unit(KIND, release.name))
        if guard is None or guard.machine is None or guard.machine.state == "alone" or guard.gone:
            return False
        guard.waiting, guard.number, guard.since_s = release, None, self._clock()
        self._look(guard)
        return True

    def _is_held_up(self, guard: _Guard) -> bool:
        """Whether its outputs have waited for long."""
        return guard.waiting is not None and self._clock() >= guard.since_s + HELD_UP_S

    def _tell_held_up(self, guard: _Guard) -> None:
        before, guard.said = guard.said, self._is_held_up(guard)
        if guard.said > before:
            self._lines.tell(
                f"standbys that do not answer: outputs of {guard.unit} wait for {guard.other}, "
                "which is not known to be dead; look at the way between here and there"
            )

    def withholds(self, output: Notification) -> bool:
        """Whether an output of a topic may not leave now: a standby may have taken the topic over.
        It puts out the same then, and a subscriber that has had 10,000 others since would take what
        comes from here for new."""
        attributes = output.attributes
        guard = self._guards.get(Unit(KIND, str(attributes.get("topic", ""))))
        if guard is None or guard.gone or attributes.get("kind") != OUTPUT:
            return False
        machine = guard.machine
        if machine is None or machine.state == "naming":
            return False
        if machine.puts_out(self._leases.held()):
            return False
        return output.origin.history == history_of(f"topic/{guard.unit.name}", guard.incarnation)

    def waits_for(self, unit: Unit) -> str:
        """Why a unit that is to be free is not yet; empty if it is."""
        guard = self._guards.get(unit)
        return "" if guard is None else f"its standby at {guard.other} has not let it go yet"

    def when_free(self, unit: Unit, then: Callable[[str], object]) -> None:
        """Dismiss its standby, and call `then` when it has none, with a line if that had taken the
        unit over."""
        if self.free(unit):
            then("")
        else:
            self._guards[unit].ends.append(then)

    def free(self, unit: Unit) -> bool:
        """Whether it has no standby; if it has one, that is dismissed."""
        guard = self._guards.get(unit)
        if guard is None:
            return True
        if guard.machine is None:
            self._end(guard)
            return True
        if guard.machine.state == "guarded":
            self._perform(guard, guard.machine.dismiss())
        return unit not in self._guards

    # --- time ----------------------------------------------------------------------------------

    def turn(self, now: float) -> None:
        """Name standbys, say again what got no answer."""
        self._send_whole()
        if (held := self._leases.held()) is not None:
            self._name_one()
            self._replace_one()
        for guard in list(self._guards.values()):
            if guard.void:
                self._forget_void(guard)
                continue
            self._tell_held_up(guard)
            if guard.at and self._leases.dead(guard.other, guard.at):
                self._is_gone(guard)
            machine = guard.machine
            if machine is not None and machine.state == "guarded" and self._goes(guard.unit):
                self._perform(guard, machine.dismiss())
            if guard.again_s <= now:
                guard.again_s = now + AGAIN_S
                self._say_again(guard, held)

    def _goes(self, unit: Unit) -> bool:
        """Whether it needs no standby: it moves, was removed, or is another one of its name."""
        guard = self._guards.get(unit)
        other = guard is not None and guard.incarnation != self._shadows.incarnation(unit.name)
        return other or not self._moves.lives(unit) or self._handovers.moving(unit)

    def _name_one(self) -> None:
        """A standby for one more unit: prices are not for nothing."""
        missing = [Unit(KIND, name) for name in self._shadows.wanted]
        missing = [each for each in missing if each not in self._guards and not self._goes(each)]
        self._turns += 1
        if not missing:
            return
        unit = missing[self._turns % len(missing)]
        if (other := self._second(unit)) is not None:
            self._guards[unit] = _Guard(unit, other, self._shadows.incarnation(unit.name))

    def _replace_one(self) -> None:
        """A unit whose standby is dead is to have another one, if there is one."""
        gone = [
            (guard, guard.machine)
            for guard in self._guards.values()
            if guard.gone and guard.machine is not None and guard.machine.state == "guarded"
        ]
        if not gone or self._turns % ASKED:
            return
        guard, machine = gone[self._turns // ASKED % len(gone)]
        if self._second(guard.unit) not in (None, guard.other):
            self._perform(guard, machine.dismiss())

    def _say_again(self, guard: _Guard, held: int | None) -> None:
        machine = guard.machine
        if machine is None or not guard.ready:
            if machine is None and not self._moves.lives(guard.unit):
                self._end(guard)
                return
            self._ask(guard)
        if machine is not None and held is not None:
            self._perform(guard, machine.handle(t.Leased(held)))

    def _ask(self, guard: _Guard) -> None:
        unit = guard.unit
        machine = guard.machine
        epoch = self._epoch(unit) if machine is None else machine.epoch
        if self._shadows.incarnation(unit.name):
            body = self._shadows.named(unit.name)
            self._handovers.tell(guard.other, unit, w.StandbyAsk(epoch, body))

    def _epoch(self, unit: Unit) -> int:
        return max(1, self._handovers.epoch(unit))

    def _is_gone(self, guard: _Guard) -> None:
        """Its term is over: it takes nothing over any more that it has of that term. Nor has it,
        while this master holds the lease in which the unit is here."""
        machine = guard.machine
        if machine is not None and not machine.puts_out(self._leases.held()):
            return
        guard.gone, guard.ready = True, False
        if machine is not None and machine.state == "dismissing":
            dismissed = t.Dismissed(guard.unit, machine.term, machine.number)
            self._perform(guard, machine.handle(dismissed))
        self._look(guard)

    # --- the standby's words -------------------------------------------------------------------

    def heard(self, unit: Unit, sender: str, message: w.StandbyMessage) -> None:
        """Something that is said to an owner."""
        guard = self._guards.get(unit)
        if guard is None or guard.other != sender or guard.void:
            return
        machine = guard.machine
        match message:
            case w.StandbyReady(term):
                self._is_ready(guard, term)
            case w.StandbyRefuse(reason):
                guard.refused = f"does not stand by: {reason}"
                guard.ready = False
                self._whole.ended(guard.other, guard)
            case w.StandbyTook(epoch) if machine is not None:
                self._perform(guard, machine.handle(t.TakenOver(unit, machine.term, epoch)))
            case w.StandbyKept(term, number) if machine is not None:
                self._perform(guard, machine.handle(t.Kept(unit, term, number)))
                if guard.sent[0] == number and machine.kept >= number:
                    _, guard.told, guard.beyond = guard.sent
                if number >= guard.seed > 0:
                    self._is_seeded(guard)
                self._look(guard)
            case w.StandbyDismissed(term, number) if machine is not None:
                self._perform(guard, machine.handle(t.Dismissed(unit, term, number)))
        self._send_whole()

    def _is_ready(self, guard: _Guard, term: int) -> None:
        if self._leases.dead(guard.other, term) or term < guard.at:
            return  # It does not know yet that this term is over.
        machine = guard.machine
        if machine is None:
            if (held := self._leases.held()) is None or not self._moves.lives(guard.unit):
                return
            guard.at, guard.ready = term, True
            self._number += 1
            machine = guard.machine = Primary(
                guard.unit, guard.other, held, self._epoch(guard.unit), self._number
            )
            self._perform(guard, machine.start(Checkpoint(), complete=True))
        elif term > guard.at:
            # From here on the standby may take it over in that term: what it is not sent waits.
            guard.at, guard.gone, guard.ready = term, False, False
            role = t.Role(guard.unit, "primary", guard.other, machine.term, machine.epoch)
            self._write(guard, role, partial(self._begins, guard, term))
        else:
            self._begins(guard, term)

    def _begins(self, guard: _Guard, term: int) -> None:
        machine = guard.machine
        if guard.at != term or guard.gone or machine is None or guard.void:
            return
        guard.ready = True
        guard.begin_anew()
        self._whole.ended(guard.other, guard)
        if machine.state == "guarded":
            self._perform(guard, machine.handle(t.Saved(Checkpoint())))
        elif (held := self._leases.held()) is not None:
            self._perform(guard, machine.handle(t.Leased(held)))

    def _is_seeded(self, guard: _Guard) -> None:
        self._whole.ended(guard.other, guard)
        if not guard.seeded:
            guard.seeded = True
            self._repeat(guard)  # What was made meanwhile was not sent.

    def _send_whole(self) -> None:
        """Send whole checkpoints that waited for others."""
        for guard in self._whole.next(self._clock()):
            self._repeat(guard)

    def _repeat(self, guard: _Guard) -> None:
        if guard.machine is not None and (held := self._leases.held()) is not None:
            self._perform(guard, guard.machine.handle(t.Leased(held)))

    # --- what the machine says -----------------------------------------------------------------

    def _perform(self, guard: _Guard, instructions: Iterable[t.Instruction]) -> None:
        machine = guard.machine
        assert machine is not None
        for each in instructions:
            match each:
                case t.Send(t.Update() as update):
                    self._send(guard, update)
                case t.Send(t.Dismiss(unit, term, number)):
                    dismiss = w.StandbyDismiss(term, number, machine.epoch, guard.incarnation)
                    self._handovers.tell(guard.other, unit, dismiss)
                case t.Write(role) if role.part == "primary":
                    self._write(guard, role, partial(self._written, guard, role))
                case t.Write(role) if machine.state == "leaving":
                    self._state.remove(GUARD, guard.unit.name)
                    self._state.when_durable(partial(self._written, guard, role))
                case t.Stop():
                    guard.void = True
                    guard.waiting = None
                    self._is_lost(guard)
                case Work() if self._moves.lives(guard.unit):
                    self._moves.resume(guard.unit)
        self._look(guard)

    def _write(self, guard: _Guard, role: t.Role, then: Callable[[], object]) -> None:
        kept = msgspec.msgpack.encode(Kept(role, guard.at, guard.incarnation))
        self._state.put(GUARD, guard.unit.name, kept)
        self._state.when_durable(then)

    def _written(self, guard: _Guard, role: t.Role) -> None:
        if guard.machine is not None and self._guards.get(guard.unit) is guard:
            self._perform(guard, guard.machine.handle(t.Written(role)))

    def _look(self, guard: _Guard) -> None:
        """React to the machine's new state."""
        machine, release = guard.machine, guard.waiting
        if machine is None or guard.void:
            return
        if machine.state == "alone":
            if self._guards.get(guard.unit) is guard:
                self._end(guard)
                self._number = max(self._number, machine.number + 1)
                self._let_go(guard)
                self._handovers.freed(guard.unit)
            return
        if release is None or machine.state != "guarded":
            return
        if guard.gone:
            self._let_go(guard)
        elif guard.number is None:
            made = machine.handle(t.Saved(Checkpoint()))
            guard.number = machine.number
            self._perform(guard, made)
        elif machine.kept >= guard.number:
            self._let_go(guard)

    def _let_go(self, guard: _Guard) -> None:
        release, guard.waiting = guard.waiting, None
        if release is not None:
            self._topics.let_go(release)

    def _send(self, guard: _Guard, update: t.Update) -> None:
        name = guard.unit.name
        if not guard.ready or not self._moves.lives(guard.unit):
            return  # `_begins` follows.
        waiting = guard.waiting
        if (last := self._shadows.last(name)) is None:
            return  # Its inbox is not there yet: it is said again.
        if [each for each in self._topics.to_release(name) if each is not waiting]:
            return  # Its outputs are nowhere yet.
        if last < guard.told:
            guard.begin_anew()  # The inbox was lost, and is another.
        whole = not guard.seeded
        if whole and not self._whole.begins(guard.other, guard, self._clock()):
            return  # `_send_whole` follows.
        body, told, beyond = self._shadows.checkpoint(name, guard.told, guard.beyond, waiting)
        guard.seed = guard.seed or update.number
        guard.sent = update.number, told, beyond
        try:
            for part in update_parts(update, guard.at, guard.seed, body):
                self._handovers.tell(guard.other, guard.unit, part)
        except ValueError as error:
            guard.refused = str(error)

    def _is_lost(self, guard: _Guard) -> None:
        machine = guard.machine
        assert machine is not None
        self._shadows.disown(guard.unit.name, guard.incarnation)
        self._say(f"{guard.unit} was taken over by {guard.other}, while this master was away\n")
        if self._moves.lives(guard.unit):
            self._handovers.lost(guard.unit, machine.epoch, guard.other)
        else:
            guard.removed = True
        self._forget_void(guard)

    def _forget_void(self, guard: _Guard) -> None:
        """Only when it is on disk that it lives elsewhere: else it would work here again."""
        if guard.removed or self._handovers.where(guard.unit) is not None:
            self._state.remove(GUARD, guard.unit.name)
            self._end(guard)

    def _end(self, guard: _Guard) -> None:
        del self._guards[guard.unit]
        line = f"{guard.other} had taken it over, and goes on: remove it there, too"
        for then in guard.ends:
            then(line if guard.removed else "")
