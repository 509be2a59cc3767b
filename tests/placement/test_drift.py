"""Drift: no move raises the cost, whatever is stale, late or lost; pins > plan > drift."""

from __future__ import annotations

import random
from math import inf

import pytest
from msgspec.structs import replace

from agent.placement.congestion import Congestion, Delegation, Limits, Waiting
from agent.placement.drift import Drift, peers
from agent.placement.grants import Grants
from agent.placement.moves import Move
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import Client, Flow, Link, Master, Pin, Topic, Unit, World
from tests.placement import worlds

KINDS: tuple[Congestion, ...] = (Congestion(), Limits(), Waiting(0.05), Delegation(0.1))
K = 0.01
LASTS_S = 10.0
SCHEDULES = 10_000
PIECES = 50


def involved(price: Price, move: Move) -> list[str]:
    """The masters that have to grant a move: source and target, and where messages are delegated
    also those of its topics' publishers, whose costs depend on it."""
    names = [each for each in (move.source, move.target) if each is not None]
    if price.congestion.far_s > 0:
        placement = price.placement
        for peer in peers(placement, move.unit):
            at = placement.where(peer)
            assert at is not None
            names.append(placement.world.masters[at].name)
    return list(dict.fromkeys(names))


class Schedule:
    """Units decide by views that may be old, messages of grants are lost, moves take their time."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        world = worlds.world(self.rng, masters=5, clients=5, topics=3, clones=5, opening=False)
        self.placement = Placement(world)
        self.price = Price(self.placement, self.rng.choice(KINDS))
        for unit in world.units():
            at = self.rng.choice(worlds.choices(self.placement, unit))
            self.placement.place(unit, world.masters[at].name)
        self.grants = {master.name: Grants(LASTS_S) for master in world.masters}
        self.view = self.placement.copy()
        self.under_way: list[Move] = []
        self.now = 0.0
        self.cost = self.first = self.price.total()
        self.moves = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.rng.choice((0.1, 1.0))
            what = self.rng.random()
            if what < 0.1:
                self.view = self.placement.copy()
            elif what < 0.7:
                self.decide(self.rng.choice(list(self.placement.world.units())))
            elif self.under_way:
                self.finish(self.under_way.pop(self.rng.randrange(len(self.under_way))))

    def decide(self, unit: Unit) -> None:
        """Wanted by an old view, granted, checked with fresh data, begun; or given up."""
        move = Drift(Price(self.view, self.price.congestion), lambda unit: K).wanted(unit)
        if move is None:
            return
        if any(unit == other.unit for other in self.under_way):
            return
        masters = involved(self.price, move)
        homes = self.homes(peers(self.placement, unit))
        checked = None
        if self.granted(move, masters, homes):
            checked = Drift(self.price, lambda unit: K).checked(move)
        if (
            checked is not None
            and all(self.grants[name].begin(move, self.now) for name in masters)
            and all(self.grants[name].keep(unit, self.now) for name in homes)
        ):
            self.under_way.append(checked)
        elif self.rng.random() < 0.7:  # Else the release is lost, and the grants end by time.
            self.release(unit)

    def homes(self, units: list[Unit]) -> dict[str, list[Unit]]:
        """These units by the names of their masters."""
        found: dict[str, list[Unit]] = {}
        for unit in units:
            at = self.placement.where(unit)
            assert at is not None
            found.setdefault(self.placement.world.masters[at].name, []).append(unit)
        return found

    def granted(self, move: Move, masters: list[str], homes: dict[str, list[Unit]]) -> bool:
        """Whether all of them grant it, before some time passes."""
        for name in masters:
            if self.rng.random() < 0.05 or not self.grants[name].admit(move, self.now):
                return False
        if not all(self.grants[at].hold(move.unit, units, self.now) for at, units in homes.items()):
            return False
        self.now += self.rng.choice((0.0, 0.0, LASTS_S))
        return True

    def release(self, unit: Unit) -> None:
        """The move is over at all masters."""
        for grants in self.grants.values():
            grants.release(unit)

    def finish(self, move: Move) -> None:
        """The handover is over: the cost has fallen by the gain, whatever else moved meanwhile."""
        before = self.price.total()
        self.placement.move(move.unit, self.placement.world.master(move.target))
        self.cost = self.price.total()
        self.release(move.unit)
        self.moves += 1
        if before < inf:
            assert self.cost <= before - K + 1e-9
            assert self.cost == pytest.approx(before - move.gain, abs=1e-9)


@pytest.mark.parametrize(
    "piece", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, PIECES))]
)
def test_no_move_raises_the_cost(piece: int) -> None:
    moves = 0
    count = SCHEDULES // PIECES
    for seed in range(piece * count, piece * count + count):
        schedule = Schedule(seed)
        try:
            schedule.run(40)
        except AssertionError as error:
            error.add_note(f"Schedule({seed})")
            raise
        moves += schedule.moves
        if schedule.first < inf:
            assert schedule.moves * K <= schedule.first + 1e-9
    assert moves > count


def test_drift_settles_after_at_most_the_moves_that_the_cost_pays_for() -> None:
    rng = random.Random(5)
    masters = [Master(f"m{n}", compute=60.0) for n in range(8)]
    links = [
        Link(one.name, other.name, rng.uniform(0.01, 0.1))
        for n, one in enumerate(masters)
        for other in masters[:n]
    ]
    clones = [Unit("clone", f"d{n}") for n in range(40)]
    flows = [
        Flow(one, other, rng.uniform(0.1, 1.0))
        for n, one in enumerate(clones)
        for other in clones[:n]
        if rng.random() < 0.1
    ]
    world = World(masters, links, flows=flows)
    units = list(world.units())
    placement = Placement(world, [(unit, f"m{n % 8}") for n, unit in enumerate(units)])
    price = Price(placement, Waiting(0.05))
    drift = Drift(price, lambda unit: K)
    first, moves, settled = price.total(), 0, False
    while not settled:
        settled = True
        for unit in units:
            move = drift.wanted(unit)
            if move is not None:
                placement.move(unit, world.master(move.target))
                moves, settled = moves + 1, False
    assert price.total() < 0.7 * first
    assert 20 < moves <= (first - price.total()) / K


def pair() -> tuple[Placement, Unit, Drift]:
    """A processor at m1, for which m2 is as good."""
    masters = [Master("m1"), Master("m2"), Master("m3", max_processors=0)]
    world = World(masters, topics=[Topic("t", processor=True)], unknown_delay_s=0.01)
    unit = Unit("processor", "t")
    placement = Placement(world, [(unit, "m1")])
    return placement, unit, Drift(Price(placement, Limits()), lambda unit: K)


def test_pins_come_before_plans_and_plans_before_drift() -> None:
    placement, unit, drift = pair()
    assert drift.wanted(unit) is None
    drift.plan = {unit: "m2"}
    assert drift.wanted(unit) == Move(unit, "m1", "m2", reason="plan")
    placement.world.pin([Pin(unit, "m1")])
    assert drift.wanted(unit) is None
    placement.world.pin([Pin(unit, "m2")])
    assert drift.wanted(unit) == Move(unit, "m1", "m2", reason="pin")


def test_a_plan_over_a_master_that_is_gone_or_full_is_left_out() -> None:
    _, unit, drift = pair()
    drift.plan = {unit: "m7"}
    assert drift.wanted(unit) is None
    drift.plan = {unit: "m3"}
    assert drift.wanted(unit) is None


def test_a_draining_master_loses_its_units_and_a_frozen_one_keeps_them() -> None:
    placement, unit, drift = pair()
    placement.world.drain("m1")
    assert drift.wanted(unit) == Move(unit, "m1", "m2", reason="drain")
    placement.world.freeze("m1")
    assert drift.wanted(unit) is None
    placement.world.freeze("m1", frozen=False)
    placement.world.freeze("m2")
    assert drift.wanted(unit) is None


def test_a_master_grants_one_move_at_a_time_and_peers_stay() -> None:
    one, other, peer = (Unit("clone", name) for name in "abc")
    grants = Grants(LASTS_S)
    move = Move(one, "m1", "m2", reason="drift")
    assert grants.admit(move, 0.0)
    assert grants.admit(move, 1.0)
    assert not grants.admit(Move(other, "m1", "m2", reason="drift"), 1.0)
    assert not grants.hold(other, [one], 1.0)
    assert grants.admit(Move(other, "m1", "m2", reason="plan"), 1.0)
    assert not grants.begin(move, 1.0)
    grants.release(other)
    assert grants.hold(other, [peer], 2.0)
    assert not grants.admit(Move(peer, "m1", "m2", reason="pin"), 3.0)
    assert grants.keep(other, 3.0)
    assert not grants.admit(Move(peer, "m1", "m2", reason="pin"), 10 * LASTS_S)
    grants.release(other)
    assert not grants.keep(other, 10 * LASTS_S)
    assert grants.admit(Move(peer, "m1", "m2", reason="pin"), 10 * LASTS_S)


def test_a_grant_ends_by_itself_unless_the_move_has_begun() -> None:
    grants = Grants(LASTS_S)
    first, second = (Move(Unit("clone", name), "m1", "m2", reason="drift") for name in "ab")
    assert grants.admit(first, 0.0)
    assert grants.admit(second, LASTS_S)
    assert grants.begin(second, LASTS_S)
    assert not grants.admit(first, 10 * LASTS_S)
    assert not grants.admit(Move(first.unit, "m1", "m2", reason="pin"), 10 * LASTS_S)
    grants.release(second.unit)
    assert grants.admit(first, 10 * LASTS_S)


def test_a_message_that_comes_twice_does_not_end_what_has_begun() -> None:
    one, other, peer, later = (Unit("clone", name) for name in "abcd")
    grants = Grants(LASTS_S)
    move = Move(one, "m1", "m2", reason="drift")
    assert grants.admit(move, 0.0)
    assert grants.begin(move, 0.0)
    assert grants.admit(move, 1.0)
    assert not grants.admit(Move(other, "m1", "m2", reason="pin"), 10 * LASTS_S)
    grants.release(one)
    assert grants.hold(one, [peer], 0.0)
    assert grants.keep(one, 0.0)
    assert grants.hold(one, [later], 1.0)
    for held in (peer, later):
        assert not grants.admit(Move(held, "m1", "m2", reason="pin"), 10 * LASTS_S)


def test_a_move_is_the_same_after_its_gain_is_known() -> None:
    grants = Grants(LASTS_S)
    move = Move(Unit("clone", "a"), "m1", "m2", reason="drift")
    assert grants.admit(move, 0.0)
    assert grants.begin(replace(move, epoch=4, gain=0.5), 1.0)
    assert not grants.begin(replace(move, target="m3"), 1.0)


def test_homes_that_cost_the_same_everywhere_drain_to_where_the_fewest_are() -> None:
    masters = [Master(f"m{at}") for at in range(4)]
    links = [Link(f"m{a}", f"m{b}", 0.0) for a in range(4) for b in range(a)]
    reach = {"m0": 0.0, "m1": 0.0, "m2": 0.0}
    clients = [Client(f"n{at}", reach) for at in range(6)]
    placement = Placement(World(masters, links, clients))
    for at in range(6):
        placement.place(Unit("home", f"n{at}"), "m1" if at < 2 else "m0")
    placement.world.drain("m0")
    drift = Drift(Price(placement, Limits()), lambda _: 0.0)
    targets = []
    for at in range(2, 6):
        move = drift.wanted(Unit("home", f"n{at}"))
        assert move is not None
        targets.append(move.target)
        placement.move(move.unit, placement.world.master(move.target))
    assert targets == ["m2", "m2", "m1", "m2"]
