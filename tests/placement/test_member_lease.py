"""Leases of masters from a majority: on clocks that run apart, over links that lose and delay."""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappop, heappush

import pytest

from agent.placement.handover.events import Checkpoint, Work
from agent.placement.membership import member_lease
from agent.placement.membership.member_lease import (
    APART,
    MAX_AHEAD,
    Granted,
    Judge,
    Keep,
    LeaseTiming,
    MemberLease,
    Message,
    Over,
    Renew,
    Tell,
    Terms,
    Written,
)
from agent.placement.standby.standby import Standby
from agent.placement.standby.take_over import Dead, Role, Write
from agent.placement.standby.take_over import Written as RoleWritten
from agent.placement.world import Unit
from tests.examples import campaign

TIMING = LeaseTiming()
UNIT = Unit("processor", "comfort")
OWNER, STANDBY = "a", "b"
WAKES_S = 0.1
JUDGES_S = 0.25


def lease(me: str, members: str = "abc", terms: Terms | None = None, now: float = 0.0):
    return MemberLease(me, members, terms or Terms(), TIMING, now, 7)


def renewed(one: MemberLease, now: float, by: str) -> None:
    """It asks for its lease, and these members grant it."""
    [*asked] = one.tick(now)
    assert all(isinstance(each, Tell) for each in asked)
    for member in by:
        one.handle(Granted(one.term, one.life, now), member, now)


def test_a_majority_and_no_less_gives_the_lease():
    one = lease("a", "abcde")
    renewed(one, 10.0, by="b")
    assert not one.holds(1, 10.0)
    one.handle(Granted(1, 7, 10.0), "c", 10.5)
    assert one.holds(1, 12.6)
    assert not one.holds(1, 12.7), "a tenth shorter, from before it asked"
    assert not one.holds(2, 10.5)


def test_grants_of_an_earlier_process_or_term_and_of_strangers_count_nothing():
    one = lease("a")
    renewed(one, 10.0, by="")
    for granted in (Granted(1, 6, 10.0), Granted(2, 7, 10.0), Granted(1, 7, 11.0)):
        one.handle(granted, "b", 10.1)
    one.handle(Granted(1, 7, 10.0), "stranger", 10.1)
    assert not one.holds(1, 10.1)


def test_the_word_of_a_member_waits_for_the_end_of_its_grant_and_for_its_disk():
    one = lease("b", now=0.0)
    assert one.judge("a", 1, 2.9) == [Tell("a", Judge("a", 1)), Tell("c", Judge("a", 1))], (
        "what an earlier process granted is not known"
    )
    one.handle(Renew(1, 9, 0.0), "a", 2.0)
    assert one.handle(Judge("a", 1), "c", 4.9) == []
    assert one.handle(Judge("a", 1), "c", 5.0) == [Keep(Terms(1, {"a": 1}))]
    assert one.handle(Judge("a", 1), "c", 5.0) == [], "it is being written"
    assert one.handle(Renew(1, 9, 5.0), "a", 5.0) == [], "nobody is told yet"
    told = one.handle(Written(Terms(1, {"a": 1})), "b", 5.1)
    assert told == [Tell("a", Over("a", 1)), Tell("c", Over("a", 1))]
    assert one.handle(Renew(1, 9, 5.0), "a", 5.2) == [Tell("a", Over("a", 1))]
    assert one.handle(Renew(2, 9, 5.0), "a", 5.2) == [Tell("a", Granted(2, 9, 5.0))]
    assert not one.dead("a", 1)
    one.handle(Over("a", 1), "c", 5.3)
    assert one.dead("a", 1)
    assert not one.dead("a", 2)


def test_a_master_whose_term_is_over_goes_on_in_a_later_one():
    one = lease("a")
    renewed(one, 10.0, by="b")
    assert one.handle(Over("a", 1), "c", 10.0) == [], "a majority grants it still"
    assert one.handle(Over("a", 1), "c", 12.7) == [Keep(Terms(2, {}))]
    assert one.handle(Over("a", 1), "b", 12.7) == []
    one.handle(Written(Terms(2, {})), "a", 12.8)
    renewed(one, 12.8, by="c")
    assert one.holds(2, 13.0)


def test_of_two_masters_neither_takes_the_other_for_dead():
    one = lease("b", "ab")
    [*made] = one.judge("a", 1, 100.0)
    one.handle(Written(next(each.terms for each in made if isinstance(each, Keep))), "b", 100.0)
    assert not one.dead("a", 1)


class Place:
    """A master: its clock, which runs fast or slow, its lease, what is on its disk."""

    def __init__(self, name: str, members: str, rng: random.Random) -> None:
        self.name, self.members, self.rng = name, members, rng
        self.rate = rng.choice((1 - APART, 1.0, 1 + APART))
        self.offset = rng.uniform(0, 1_000)
        self.up = True
        self.life = 0
        self.terms = Terms()
        self.lease = self.started(0.0)

    def clock(self, at: float) -> float:
        return self.offset + at * self.rate

    def started(self, at: float) -> MemberLease:
        self.up = True
        self.life += 1
        now = self.clock(at)
        self.lease = MemberLease(self.name, self.members, self.terms, TIMING, now, self.life)
        return self.lease


class Fleet:
    """Masters, links and disks; events by time."""

    def __init__(self, seed: int, members: str, lossy: float) -> None:
        self.rng = random.Random(seed)
        self.lossy = lossy
        self.places = {name: Place(name, members, self.rng) for name in members}
        self.at = 0.0
        self.cut: set[str] = set()
        self.owned_at: float | None = None
        self.standby = Standby(UNIT, OWNER)
        self.standby.recover(Role(UNIT, "standby", OWNER, 1, 1), Checkpoint())
        self._judged = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        for name in members:
            self.later(self.rng.uniform(0, WAKES_S), lambda name=name: self.wake(name))

    def later(self, after: float, then: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._queue, (self.at + after, self._count, then))

    def run(self, until: float) -> None:
        while self._queue[0][0] <= until:
            self.at, _, then = heappop(self._queue)
            then()
            self.check()
        self.at = until

    def check(self) -> None:
        """Who is dead to anybody holds no lease, and will not in that term."""
        owner = self.places[OWNER]
        held = owner.up and owner.lease.holds(owner.lease.term, owner.clock(self.at))
        if held:
            for place in self.places.values():
                assert not (place.up and place.lease.dead(OWNER, owner.lease.term))
            assert self.owned_at is None or owner.lease.term > self.standby.term

    def wake(self, name: str) -> None:
        self.later(WAKES_S, lambda: self.wake(name))
        place = self.places[name]
        if not place.up:
            return
        now = place.clock(self.at)
        self.do(place, place.lease.tick(now))
        if name == STANDBY and self.standby.judges:
            term = self.standby.term
            if place.lease.dead(OWNER, term):
                for each in self.standby.handle(Dead(term)):
                    assert isinstance(each, Write)
                    self.later(self.rng.uniform(0, 0.1), lambda role=each.role: self.took(role))
            elif place.lease.silent(OWNER, now) and self.at >= self._judged + JUDGES_S:
                self._judged = self.at
                self.do(place, place.lease.judge(OWNER, term, now))

    def took(self, role: Role) -> None:
        [work] = self.standby.handle(RoleWritten(role))
        assert isinstance(work, Work)
        self.owned_at = self.at

    def do(self, place: Place, made: list[Tell | Keep]) -> None:
        for each in made:
            if isinstance(each, Keep):
                life = place.life
                self.later(0.1, lambda t=each.terms, n=life: self.kept(place, t, n))
            elif self.rng.random() >= self.lossy:
                delay = self.rng.choice((0.001, 0.05, self.rng.uniform(0, 0.2)))
                message, to, sender = each.message, each.to, place.name
                self.later(delay, lambda m=message, t=to, s=sender: self.arrive(m, t, s))

    def kept(self, place: Place, terms: Terms, life: int) -> None:
        if place.up and place.life == life:
            place.terms = terms
            now = place.clock(self.at)
            self.do(place, place.lease.handle(Written(terms), place.name, now))

    def arrive(self, message: Message, to: str, sender: str) -> None:
        place = self.places[to]
        if place.up and (to in self.cut) == (sender in self.cut):
            self.do(place, place.lease.handle(message, sender, place.clock(self.at)))


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=campaign(n, 2)) for n in (1, 2))])
def test_a_dead_owner_is_taken_over_within_a_lease_and_two_seconds(piece: int) -> None:
    """Whichever clocks run fast or slow; some messages are lost. Before, nobody is judged."""
    count = 100 if piece == 0 else 2_000
    for seed in range(piece * 1_000, piece * 1_000 + count):
        fleet = Fleet(seed, "abc" if seed % 2 else "abcde", lossy=0.05)
        died = 10.0 + fleet.rng.random()
        fleet.run(died)
        assert fleet.owned_at is None, seed
        fleet.places[OWNER].up = False
        fleet.run(died + TIMING.lease_s + 2.0)
        assert fleet.owned_at is not None, seed


def troubled(seed: int) -> Fleet:
    """Crashes, restarts and cuts of any master, most messages lost for a while; see `check`."""
    fleet = Fleet(seed, "abc" if seed % 2 else "abcde", lossy=0.1)
    for _ in range(12):
        fleet.run(fleet.at + fleet.rng.uniform(0, 3))
        place = fleet.rng.choice(list(fleet.places.values()))
        what = fleet.rng.randrange(4)
        if what == 0 and place.name != STANDBY:
            place.up = False
        elif what == 1 and not place.up:
            place.started(fleet.at)
        elif what == 2:
            fleet.cut = {place.name} if fleet.rng.random() < 0.7 else set()
        else:
            fleet.lossy = fleet.rng.choice((0.0, 0.1, 0.6))
    return fleet


@pytest.mark.parametrize("piece", [0, *(pytest.param(n, marks=campaign(n, 2)) for n in (1, 2))])
def test_no_schedule_has_an_owner_that_holds_the_lease_and_is_dead(piece: int) -> None:
    count = 100 if piece == 0 else 2_000
    taken = 0
    for seed in range(piece * 5_000, piece * 5_000 + count):
        taken += troubled(seed).owned_at is not None
    assert taken > count // 10, "many owners are taken over"


@pytest.mark.parametrize("shorter", [0.0, -0.1])
def test_a_holder_that_counts_as_long_as_the_members_is_noticed(
    shorter: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_lease, "SHORTER", shorter)
    with pytest.raises(AssertionError):
        any(troubled(seed).at < 0 for seed in range(500))


def test_one_word_does_not_use_up_all_terms():
    """On disk it would last for ever: a master that asks for a term that no number has is dead."""
    one = lease("a")
    assert one.handle(Over("a", 2**53 - 1), "b", 10.0) == []
    assert one.handle(Over("a", 1 + MAX_AHEAD), "b", 10.0) == [Keep(Terms(2 + MAX_AHEAD, {}))]
    one = lease("b")
    assert one.handle(Judge("a", 2**53 - 1), "c", 10.0) == []
    assert one.judge("a", 2**53 - 1, 10.0)[:1] != [Keep(Terms(1, {"a": 2**53 - 1}))]
    # One that is far ahead itself is judged all the same.
    one.handle(Renew(2 + MAX_AHEAD, 7, 10.0), "a", 10.0)
    late = 11.0 + TIMING.lease_s
    assert one.handle(Judge("a", 2 + MAX_AHEAD), "c", late) == [
        Keep(Terms(1, {"a": 2 + MAX_AHEAD}))
    ]


def test_a_word_on_one_that_is_no_member_is_not_kept():
    one = lease("a")
    for number in range(100):
        assert one.handle(Over(f"x{number}", 1), "b", 1.0) == []
    assert one.said == {}


def test_a_member_that_was_stopped_judges_nobody_before_it_has_read_what_waited():
    one = lease("c")
    for second in range(10):
        one.tick(float(second))
    one.handle(Renew(1, 1, 0.0), "a", 9.0)
    one.tick(30.0)
    assert one.judge("a", 1, 30.0)[:1] != [Keep(Terms(1, {"a": 1}))]
    one.tick(32.0)
    assert one.judge("a", 1, 33.0)[:1] == [Keep(Terms(1, {"a": 1}))]
