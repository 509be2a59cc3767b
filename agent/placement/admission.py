"""Admission of a drift move: grants of its target and of the masters of its peers, and its gain by
their newest facts.

The master where the unit lives asks them all. When each has granted, and its newest facts are here,
the gain is checked again; then each is told that the move begins. Whoever has lost its grant
meanwhile refuses, and nothing moves. So from the facts that the gain was checked with until the end
of the move, neither end takes or gives anything else, and no peer moves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Literal
from zlib import crc32

from msgspec import Struct

from agent.placement.drift import Drift, peers
from agent.placement.moves import Move
from agent.placement.placer import GRANT_S, Placer
from agent.placement.told import is_fixed
from agent.placement.view import View, named
from agent.placement.world import Unit
from agent.wire.placement import MAX_HELD, AskGrant, GrantStep, GrantTold, PlacementFacts, UnitName

# Between two messages of which the first was perhaps lost.
AGAIN_S: Final = 0.5
END_AGAIN_S: Final = 2.0
GIVE_UP_S: Final = 15.0
# A grant of a move that goes on is renewed so often.
KEEP_S: Final = GRANT_S / 4
# What is refused is tried again after this and up to twice as long, so that two masters that are in
# each other's way do not stay so.
PAUSE_S: Final = 5.0
# What was seen lately, and is at no master now, may be on its way, or at one that is silent.
LOST_S: Final = 120.0
# From a start on nothing is known of what was granted before.
QUIET_S: Final = GRANT_S
# A master that never answered is waited for so long.
UNHEARD_S: Final = 3_600.0
# Moves of others, each of which has a grant here. A master has one or two at a time.
MAX_GIVEN: Final = 256

BEFORE: Final = "another move came before it"

Step = Literal["ask", "check", "keep", "begun"]


class _Party:
    """A master that has to grant a move."""

    __slots__ = ("answered", "held", "next_s", "token")

    def __init__(self, held: tuple[UnitName, ...], now: float) -> None:
        self.held = held
        self.answered = False
        self.token = 0
        self.next_s = now


class _Sought:
    """A move, and who has to grant it."""

    __slots__ = ("move", "number", "parties", "since_s", "step")

    def __init__(self, move: Move, number: int, parties: dict[str, _Party], now: float) -> None:
        self.move = move
        self.number = number
        self.parties = parties
        self.since_s = now
        self.step: Step = "ask"


class _Given(Struct, frozen=True):
    """The question that a grant answers."""

    iad: str
    epoch: int
    number: int
    token: int


class Admission:
    """The moves of drift of one master, and its answers to those of others. `placer` has its
    grants; `epoch` is greater than that of any earlier process of this master."""

    def __init__(self, iad: str, epoch: int, placer: Placer, now: float) -> None:
        self._iad = iad
        self._epoch = epoch
        self._placer = placer
        self._started_s = now
        self._quiet_until = now + QUIET_S
        self._number = 0
        self._token = 0
        self._sought: _Sought | None = None
        self._failed = False
        self._under_way: dict[Unit, _Sought] = {}
        self._ending: list[tuple[_Sought, float]] = []  # until when they are told
        self._given: dict[Unit, _Given] = {}
        # When each master and topic was seen last, what it told, and whom the topic hears.
        self._seen: dict[str, tuple[float, PlacementFacts]] = {}
        self._hears: dict[str, tuple[float, frozenset[str]]] = {}

    # -- the master where the unit lives ----------------------------------------------------------

    def _look(self, view: View, now: float) -> None:
        """Remember who was there lately. O(masters + topics)."""
        for facts in view.facts.values():
            self._seen[facts.iad] = now, facts
            for topic in facts.topics:
                self._hears[topic.name] = now, frozenset(each.topic for each in topic.peers)
        for iad in [iad for iad, (at_s, _) in self._seen.items() if now - at_s > LOST_S]:
            del self._seen[iad]
        for name in [name for name, (at_s, _) in self._hears.items() if now - at_s > LOST_S]:
            del self._hears[name]

    def next_move(
        self, view: View, moving: Collection[Unit], now: float, unheard: Collection[str] = ()
    ) -> Move | None:
        """As `Placer.next_move`, but of drift nothing: its grants are asked for first. `unheard`:
        masters that have told nothing since this process began; peers may live there."""
        self._look(view, now)
        sought = self._sought
        if sought is not None and not self._placer.grants.granted(sought.move, now):
            self._fail(BEFORE, now)
        move = self._placer.next_move(view, moving, now)
        if move is None:
            return None
        if move.reason == "drift":
            self._seek(move, view, unheard, now)
            return None
        if self._sought is not None:
            self._end(self._sought, now)
            self._sought = None
        return move

    def _seek(self, move: Move, view: View, unheard: Collection[str], now: float) -> None:
        """Ask for the grants of a move that its source has granted. O(peers)."""
        unit = move.unit
        held: dict[str, list[UnitName]] = {move.target: []}
        near = [each for each in peers(view.placement, unit) if not is_fixed(each)]
        problem = self._lost(view, unit)
        if near and now < self._quiet_until:
            problem = "this master has started a moment ago"
        if unheard and now < self._started_s + UNHEARD_S:
            problem = f"{min(unheard)} has told nothing yet"
        for each in near:
            where = view.where(each)
            if where is not None and where != self._iad:
                held.setdefault(where, []).append(named(each))
        if any(len(units) > MAX_HELD for units in held.values()):
            problem = f"more than {MAX_HELD} of its peers live at one master"
        if problem:
            self._placer.put_off(move, problem, self._pause_s(unit), now)
            self._failed = True
            return
        self._number += 1
        parties = {iad: _Party(tuple(sorted(units)), now) for iad, units in held.items()}
        self._sought = _Sought(move, self._number, parties, now)

    def failed(self) -> bool:
        """Whether a move did not get its grants since this was asked last: another unit's may."""
        failed, self._failed = self._failed, False
        return failed

    @property
    def next_due(self) -> float | None:
        """When somebody is to be told something, or a question is given up."""
        dues = [each.since_s + GIVE_UP_S for each in self._seeking()]
        dues += [
            party.next_s
            for each in self._all()
            for party in each.parties.values()
            if not party.answered
        ]
        dues += [
            party.next_s for each in self._under_way.values() for party in each.parties.values()
        ]
        return min(dues, default=None)

    def due(self, now: float) -> list[tuple[str, AskGrant]]:
        """The messages to other masters that are to be sent now."""
        for each in self._seeking():
            if not self._placer.grants.granted(each.move, now):
                self._fail(BEFORE, now)
            elif now >= each.since_s + GIVE_UP_S:
                silent = [iad for iad, party in each.parties.items() if not party.answered]
                self._sought, self._failed = None, True
                self._end(each, now)
                # Perhaps of a version that knows no grants: it is asked less and less often.
                self._placer.ended(each.move.unit, f"no grant of {', '.join(sorted(silent))}", now)
        self._ending = [(each, until) for each, until in self._ending if now < until]
        found = []
        for each in self._all():
            for iad, party in each.parties.items():
                if not party.answered and party.next_s <= now:
                    party.next_s = now + (AGAIN_S if each is self._sought else END_AGAIN_S)
                    found.append((iad, self._message(each, party)))
        for each in self._under_way.values():
            for iad, party in each.parties.items():
                if party.next_s <= now:
                    party.next_s = now + KEEP_S
                    found.append((iad, self._message(each, party)))
        return found

    def told(self, told: GrantTold, now: float) -> None:
        """Another master has answered. Its facts are to be believed before `check`."""
        if told.epoch != self._epoch:
            return
        for each, until in list(self._ending):
            if each.number == told.number and told.step == "end" and told.iad in each.parties:
                del each.parties[told.iad]
                if not each.parties:
                    self._ending.remove((each, until))
        sought = self._sought
        if sought is None or (told.number, told.step) != (sought.number, sought.step):
            return
        party = sought.parties.get(told.iad)
        if party is None:
            return
        if not told.granted:
            self._fail(f"{told.iad}: {told.message}", now)
            return
        party.answered = True
        if sought.step == "ask":
            party.token = told.token
        if all(each.answered for each in sought.parties.values()):
            sought.step = "check" if sought.step == "ask" else "begun"

    @property
    def to_check(self) -> Sequence[str]:
        """The masters that have granted a move, whose newest facts it is to be checked with, in the
        order in which they are believed; none while not all have. What the target has makes the
        price, so the target comes first: another may have given a unit to it since it answered."""
        sought = self._sought
        return () if sought is None or sought.step != "check" else tuple(sought.parties)

    def check(self, view: View, now: float) -> None:
        """All have granted: see whether the move is still worth it by this view, which believes
        those of `to_check` in their order before others."""
        sought = self._sought
        assert sought is not None
        unit = sought.move.unit
        move = Drift(view.price, lambda _: self._placer.move_cost).checked(sought.move)
        problem = self._lost(view, unit) or ("" if move else "it gains too little by now")
        for each in peers(view.placement, unit):
            where = view.where(each)
            if is_fixed(each) or where is None or where == self._iad:
                continue  # This master grants one move at a time.
            party = sought.parties.get(where)
            if party is None or named(each) not in party.held:
                problem = f"{each} has moved to {where}"
        if problem or not self._placer.grants.begin(sought.move, now):
            self._fail(problem or BEFORE, now)
            return
        assert move is not None
        sought.move, sought.step, sought.since_s = move, "keep", now
        for party in sought.parties.values():
            party.answered, party.next_s = False, now

    def begins(self, now: float) -> Move | None:
        """The move that begins now, once: all keep their grants until it is over."""
        sought = self._sought
        if sought is None or sought.step != "begun":
            return None
        self._sought = None
        self._under_way[sought.move.unit] = sought
        for party in sought.parties.values():
            party.next_s = now + KEEP_S
        return sought.move

    @property
    def seeking(self) -> Move | None:
        """The move for which grants are asked."""
        return None if self._sought is None else self._sought.move

    def over(self, unit: Unit, now: float) -> None:
        """A move has ended, however: the others' grants may end."""
        if (each := self._under_way.pop(unit, None)) is not None:
            self._end(each, now)

    # -- the others ------------------------------------------------------------------------------

    def asked(
        self, ask: AskGrant, view: Callable[[], View], moving: Iterable[Unit], now: float
    ) -> tuple[bool, int, str]:
        """Answer another master: whether it is granted, the token of the grant, or why not.
        `moving`: units on their way from here. O(units asked for)."""
        grants, mover = self._placer.grants, Unit(ask.unit.kind, ask.unit.name)
        move = Move(mover, ask.iad, ask.target, reason="drift")
        before = self._given.get(mover)
        mine = before is not None and (before.iad, before.epoch, before.number) == (
            ask.iad, ask.epoch, ask.number,
        )  # fmt: skip
        if ask.step == "end":
            if mine:
                del self._given[mover]
                grants.release(mover, ask.iad)
            return True, 0, ""
        here = ask.target == self._iad
        whole = (
            mine
            and (not here or grants.granted(move, now))
            and (not ask.held or grants.holds(mover, now))
        )
        if ask.step == "keep":
            if not whole or before is None or before.token != ask.token:
                return False, 0, "the grant has ended"
            if here:
                grants.begin(move, now, GRANT_S)
            if ask.held:
                grants.keep(mover, now, GRANT_S)
            return True, ask.token, ""
        if problem := self._no_grant(ask, mover, before, now):
            return False, 0, problem
        if not whole:
            self._token += 1
        token = before.token if whole and before is not None else self._token
        if problem := self._refused(ask, move, view(), moving, now):
            if not whole:
                grants.release(mover, ask.iad)
                self._given.pop(mover, None)
            return False, 0, problem
        self._given[mover] = _Given(ask.iad, ask.epoch, ask.number, token)
        return True, token, ""

    def _no_grant(self, ask: AskGrant, mover: Unit, before: _Given | None, now: float) -> str:
        """Why a question gets nothing and changes nothing, whoever asks. O(1), or O(grants) if
        there are as many as may be."""
        grants = self._placer.grants
        if ask.target != self._iad and not ask.held:
            return "nothing is asked of it"
        if before is None:
            if len(self._given) >= MAX_GIVEN:
                self._given = {
                    unit: given
                    for unit, given in self._given.items()
                    if grants.holds(unit, now) or (grants.move and grants.move.unit == unit)
                }
            if len(self._given) >= MAX_GIVEN:
                return "it has granted too many moves"
        elif before.iad != ask.iad and grants.begun(mover, now):
            return f"{before.iad} moves it"
        return ""

    def _refused(
        self, ask: AskGrant, move: Move, view: View, moving: Iterable[Unit], now: float
    ) -> str:
        held = [Unit(each.kind, each.name) for each in ask.held]
        if held and now < self._quiet_until:
            return "it has started a moment ago"
        away = set(moving)
        for each in held:
            if view.where(each) != self._iad:
                return f"{each} does not live there"
            if each in away:
                return f"{each} is moving"
        if held and not self._placer.grants.hold(move.unit, held, now):
            return "a peer is to move"
        if ask.target == self._iad:
            return self._placer.admits(view, move.unit, ask.iad, now, "drift")
        return ""

    # --------------------------------------------------------------------------------------------

    def _seeking(self) -> list[_Sought]:
        return [] if self._sought is None else [self._sought]

    def _all(self) -> list[_Sought]:
        return [*self._seeking(), *[each for each, _ in self._ending]]

    def _message(self, each: _Sought, party: _Party) -> AskGrant:
        step: GrantStep = "end"
        if each is self._sought:
            step = "ask" if each.step == "ask" else "keep"
        elif each.move.unit in self._under_way and self._under_way[each.move.unit] is each:
            step = "keep"
        move = each.move
        return AskGrant(
            self._iad, self._epoch, each.number, named(move.unit), move.target, step,
            () if step == "end" else party.held, 0 if step == "ask" else party.token,
        )  # fmt: skip

    def _fail(self, why: str, now: float) -> None:
        sought = self._sought
        assert sought is not None
        self._sought, self._failed = None, True
        self._end(sought, now)
        self._placer.put_off(sought.move, why, self._pause_s(sought.move.unit), now)

    def _end(self, each: _Sought, now: float) -> None:
        for party in each.parties.values():
            party.answered, party.next_s = False, now
        self._ending.append((each, now + GRANT_S))

    def _lost(self, view: View, unit: Unit) -> str:
        """Why the price of a unit is not known: somebody whom it has to do with was seen lately,
        and is not now. O(masters + topics)."""
        facts = view.facts[self._iad]
        names, sources = {unit.name}, set[str]()
        if unit.kind == "home":
            told = [each for each in facts.homes if each.name == unit.name]
            names = {name for each in told for name in (*each.publishes, *each.hears)}
        else:
            sources = {
                source.iad
                for each in facts.topics
                if each.name == unit.name
                for source in each.sources
            }
        for iad, (_, seen) in self._seen.items():
            if iad not in view.facts and (iad in sources or _has_to_do(seen, names)):
                return f"{iad} is silent"
        lost = [peer for name in names for peer in view.unseen.get(name, ())]
        lost += [
            name
            for name, (_, heard) in self._hears.items()
            if name not in view.world.topics and (name in names or unit.name in heard)
        ]
        return f"{lost[0]} is at no master that is known" if lost else ""

    def _pause_s(self, unit: Unit) -> float:
        return PAUSE_S * (1.0 + crc32(f"{self._iad} {unit} {self._number}".encode()) / 2**32)


def _has_to_do(facts: PlacementFacts, topics: set[str]) -> bool:
    """Whether somebody there hears or publishes to these topics."""
    if any(each.topic in topics for each in facts.listeners):
        return True
    return any(not topics.isdisjoint((*home.publishes, *home.hears)) for home in facts.homes)
