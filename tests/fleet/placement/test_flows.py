"""The planner of units that talk to each other."""

from __future__ import annotations

import random
from itertools import product
from math import inf

import pytest

from agent.placement.congestion import Combined, Limits, Waiting
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import Flow, Link, Master, Pin, Topic, Unit, World
from fleet.placement.flows import Flows, _Search, movable

WAITING = Waiting(0.05)


def talking(seed: int, clones: int, masters: int) -> Placement:
    """Clones that talk at random, each at a random master."""
    rng = random.Random(seed)
    hosts = [Master(f"m{at}", compute=rng.uniform(60.0, 90.0)) for at in range(masters)]
    links = [
        Link(f"m{one}", f"m{other}", rng.uniform(0.01, 0.1))
        for one in range(masters)
        for other in range(one)
    ]
    units = [Unit("clone", f"d{n}") for n in range(clones)]
    flows = [
        Flow(one, other, rng.uniform(0.5, 3.0))
        for n, one in enumerate(units)
        for other in units[:n]
        if rng.random() < 0.5
    ]
    world = World(hosts, links, flows=flows)
    return Placement(world, [(unit, f"m{rng.randrange(masters)}") for unit in world.units()])


def after(placement: Placement, planner: Flows) -> Placement:
    """The placement once all moves were made."""
    found = placement.copy()
    for move in planner.plan(placement):
        assert placement.world.masters[placement.where(move.unit) or 0].name == move.source
        found.move(move.unit, placement.world.master(move.target))
    return found


@pytest.mark.parametrize("seed", range(4, 9))
def test_a_plan_of_a_few_clones_is_the_optimum(seed: int) -> None:
    """However little was drawn before."""
    placement = talking(seed, 6, 3)
    tried = placement.copy()
    units = movable(placement)
    costs = []
    for places in product(range(3), repeat=len(units)):
        for unit, at in zip(units, places, strict=True):
            tried.move(unit, at)
        costs.append(Price(tried, WAITING).total())
    for planner in (Flows(WAITING, sweeps=20), Flows(WAITING, sweeps=0, tries=0)):
        planned = after(placement, planner)
        assert Price(planned, WAITING).total() == pytest.approx(min(costs))


def test_those_that_talk_to_each_other_are_brought_together() -> None:
    """A ring that is at two masters has two flows between them, whoever goes over alone."""
    masters = [Master(f"m{at}", compute=30.0) for at in range(8)]
    # By their names, those come first that are no neighbours.
    rings = [
        [Unit("clone", f"{(0, 2, 4, 1, 3, 5)[n]}-{ring}") for n in range(6)] for ring in "vwxyz"
    ]
    flows = [Flow(ring[n - 1], ring[n], 1.0) for ring in rings for n in range(6)]
    world = World(masters, unknown_delay_s=0.05, flows=flows)
    halves = [
        (unit, f"m{at + 3 * (n >= 3)}")
        for at, ring in enumerate(rings)
        for n, unit in enumerate(ring)
    ]
    placement = Placement(world, halves)
    planned = after(placement, Flows(Waiting(0.001), sweeps=0, tries=0))
    found = [{planned.where(unit) for unit in ring} for ring in rings]
    assert [len(each) for each in found] == [1] * 5
    assert len(set.union(*found)) == 5


def test_a_search_to_the_end_that_is_cut_short_makes_nothing_dearer() -> None:
    placement = talking(3, 8, 4)
    before = Price(placement, WAITING).total()
    for looks in (0, 1, 30):
        search = _Search(placement, WAITING, movable(placement), 1)
        assert not search.exhaust(looks)
        assert Price(search.placement, WAITING).total() <= before + 1e-9


def test_a_plan_leaves_out_what_brings_less_than_it_costs() -> None:
    placement = talking(1, 12, 4)
    before = Price(placement, WAITING).total()
    assert before < inf
    free = Flows(WAITING, sweeps=5)
    dear = Flows(WAITING, move_cost=before, sweeps=5)
    assert Price(after(placement, free), WAITING).total() < before
    assert free.plan(placement) == free.plan(placement)
    assert dear.plan(placement) == []


def test_pins_frozen_masters_and_limits_are_kept_and_homes_stay() -> None:
    placement = talking(2, 12, 4)
    world = placement.world
    for n in range(3):
        topic = Topic(f"t{n}", state_bytes=10.0, processor=True)
        placement.put_topic(topic)
        placement.place(Unit("processor", f"t{n}"), "m1")
    placement.put_flow(Flow(Unit("processor", "t0"), Unit("clone", "d0"), 9.0))
    pinned = Unit("clone", "d1")
    world.pin([Pin(pinned, world.masters[placement.where(pinned) or 0].name)])
    world.freeze("m3")
    units = movable(placement)
    assert Unit("processor", "t0") in units
    assert not {Unit("processor", "t1"), pinned} & set(units)
    assert all(placement.where(unit) != 3 for unit in units)
    moves = Flows(Combined([Limits(), WAITING]), sweeps=5).plan(placement)
    assert moves
    assert all("m3" not in (move.source, move.target) for move in moves)
    assert {move.unit for move in moves} <= set(units)


def test_units_that_find_no_place_stay() -> None:
    world = World([Master("m0", compute=1.0), Master("m1", compute=1.0)], unknown_delay_s=0.01)
    one, other = Unit("clone", "a"), Unit("clone", "b")
    world.put_flow(Flow(one, other, 5.0))
    placement = Placement(world, [(one, "m0"), (other, "m1")])
    assert Flows(WAITING, sweeps=2).plan(placement) == []
