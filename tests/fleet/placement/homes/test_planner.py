"""Plans of homes for worlds: the product's price, its pins, limits and closed masters."""

import random
from math import inf

import pytest
from msgspec.structs import replace

from agent.placement.congestion import Limits
from agent.placement.moves import check_plan
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import (
    Client,
    Flow,
    Link,
    Master,
    Pin,
    PlacementError,
    Topic,
    Unit,
    World,
)
from fleet.placement.homes.baselines import nearest_homes, otos_homes, random_homes
from fleet.placement.homes.planner import Homes, plan_by
from fleet.placement.homes.reloc import reloc_homes
from tests.placement.worlds import choices, world

FAR_S = 0.2
BASELINES = {
    "random": lambda case, _: random_homes(case, 1),
    "nearest": lambda case, _: nearest_homes(case),
    "otos": lambda case, _: otos_homes(case, "centroid"),
    "otos-least-used": lambda case, _: otos_homes(case, "least used"),
    "reloc": lambda case, _: reloc_homes(case, 4, 1),
}


def placed(seed, *, leave_out=0.0):
    """A random world with flows of every kind, and a random placement of it."""
    rng = random.Random(seed)
    made = world(rng, delegate="cloud")
    near = {"m0": 0.01, "m1": 0.02, "m3": 0.03}
    made.put_client(Client("c0", near, exchanges=2.5))
    # Whoever stands for those at a master keeps none open.
    made.put_client(Client("c3", {"m2": 0.0}, stand_in=True, exchanges=1.0))
    placement = Placement(made)
    units = [Unit("home", "c1"), Unit("home", "c2"), Unit("clone", "d1")]
    for n, one in enumerate(units):
        for other in units[:n]:
            placement.put_flow(Flow(one, other, rng.randrange(1, 9) / 4))
    for unit in list(made.units()):
        if rng.random() >= leave_out:
            name = made.masters[rng.choice(choices(placement, unit))].name
            placement.place(unit, name)
    return placement


def follow(placement, moves):
    for move in check_plan(placement, moves):
        target = placement.world.master(move.target)
        if placement.where(move.unit) is None:
            placement.place(move.unit, move.target)
        else:
            placement.move(move.unit, target)


def test_a_master_that_has_only_a_stand_in_is_opened_by_a_home():
    masters = [Master("m0"), Master("m1", opening_cost=0.5)]
    clients = [
        Client("@m1", {"m1": 0.0}, stand_in=True),
        Client("n1", {"m0": 0.2, "m1": 0.0}, exchanges=2.0),
    ]
    for rate, moved in ((2.0, []), (3.0, ["n1"])):
        clients[1] = replace(clients[1], exchanges=rate)
        made = World(masters, [Link("m0", "m1", 0.1)], clients)
        placement = Placement(made)
        placement.place(Unit("home", "@m1"), "m1")
        placement.place(Unit("home", "n1"), "m0")
        moves = Homes(kicks=3).plan(placement)
        assert [each.unit.name for each in moves] == moved
        for move in moves:
            assert move.gain == pytest.approx(rate * 0.2 - 0.5)


@pytest.mark.parametrize("seed", range(8))
def test_a_plan_brings_what_it_says_by_the_products_price(seed):
    placement = placed(seed)
    price = Price(placement, Limits("cloud", FAR_S))
    before = price.total()
    moves = Homes(FAR_S, kicks=3).plan(placement)
    follow(placement, moves)
    gain = sum(move.gain for move in moves)
    assert gain >= 0
    if before < inf:
        assert price.total() == pytest.approx(before - gain, abs=1e-6)
    assert all(move.epoch == 0 and move.reason == "plan" for move in moves)


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("seed", range(3))
def test_ours_is_never_dearer_than_the_others(name, seed):
    ours, theirs = placed(seed, leave_out=0.3), placed(seed, leave_out=0.3)
    follow(ours, Homes(FAR_S, kicks=3).plan(ours))
    follow(theirs, plan_by(theirs, FAR_S, BASELINES[name]))
    totals = [Price(each, Limits("cloud", FAR_S)).total() for each in (ours, theirs)]
    assert totals[0] <= totals[1] + 1e-6
    assert all(each.where(Unit("home", "c0")) is not None for each in (ours, theirs))


def two_masters(**changes):
    """Two clients who talk, each nearest to a master of its own; both live at m0, and so does c."""
    masters = [Master("m0", **changes), Master("m1"), Master("m2")]
    links = [Link("m0", "m1", 0.001), Link("m0", "m2", 0.001), Link("m1", "m2", 0.001)]
    near = {"a": (0.001, 0.1, 0.2), "b": (0.1, 0.001, 0.2), "c": (0.3, 0.3, 0.001)}
    clients = [
        Client(name, {f"m{at}": delay for at, delay in enumerate(row)})
        for name, row in near.items()
    ]
    topic = Topic("t", {"a": 1.0, "b": 1.0, "c": 1.0}, frozenset("abc"), 10.0, 0.1)
    placement = Placement(World(masters, links, clients, [topic]))
    for name in near:
        placement.place(Unit("home", name), "m0")
    return placement


def test_everybody_goes_where_its_way_is_short():
    moves = Homes().plan(two_masters())
    assert {(m.unit.name, m.source, m.target) for m in moves} == {
        ("b", "m0", "m1"),
        ("c", "m0", "m2"),
    }


def test_pins_are_moved_first_and_frozen_masters_keep_what_they_have():
    placement = two_masters()
    placement.world.pin([Pin(Unit("home", "b"), "m2")])
    moves = {m.unit.name: (m.target, m.reason) for m in Homes().plan(placement)}
    assert moves == {"b": ("m2", "pin"), "c": ("m2", "plan")}
    placement = two_masters()
    placement.world.freeze("m1")
    assert {m.unit.name for m in Homes().plan(placement)} == {"c"}
    placement.world.freeze("m0")
    assert Homes().plan(placement) == []


def test_a_draining_master_is_left_whatever_it_costs():
    placement = two_masters()
    placement.world.drain("m0")
    moves = Homes(move_cost=1e6).plan(placement)
    assert {(m.unit.name, m.reason) for m in moves} == {(name, "drain") for name in "abc"}
    assert next(m.gain for m in moves if m.unit.name == "a") < 0


def test_a_move_that_costs_more_than_it_brings_is_not_made():
    assert Homes(move_cost=1e6).plan(two_masters()) == []
    brought = {m.unit.name: m.gain for m in Homes().plan(two_masters())}
    placement = two_masters()
    between = (brought["b"] + brought["c"]) / 2
    assert {m.unit.name for m in Homes(move_cost=between).plan(placement)} == {
        max(brought, key=brought.get)
    }


def test_who_is_nowhere_arrives():
    placement = two_masters()
    placement.remove(Unit("home", "b"))
    moves = {m.unit.name: m for m in Homes().plan(placement)}
    assert (moves["b"].source, moves["b"].target, moves["b"].reason) == (None, "m1", "arrival")


def test_nothing_to_place_is_no_plan():
    assert Homes().plan(Placement(World([]))) == []


def test_homes_without_any_topic_stay_unless_they_have_to_go():
    masters = [Master("m0"), Master("m1")]
    clients = [Client("a", {"m0": 0.0, "m1": 0.1}), Client("@m0", {"m0": 0.0}, stand_in=True)]
    placement = Placement(World(masters, [Link("m0", "m1", 0.1)], clients))
    for name in ("a", "@m0"):
        placement.place(Unit("home", name), "m0")
    assert Homes().plan(placement) == []
    placement.world.drain("m0")
    (move,) = Homes().plan(placement)
    assert (move.unit.name, move.target, move.reason) == ("a", "m1", "drain")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda w: w.put_client(Client("d", {})), "home d has no master"),
        (lambda w: [w.freeze(f"m{n}") for n in range(3)] + [w.put_client(Client("d", {"m1": 0.1}))],
         "home d has no master: all that it reaches are closed"),
        (lambda w: w.pin([Pin(Unit("home", "b"), "m1")]) or w.freeze("m1"),
         "home b is pinned to m1, which takes no unit now"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(spoil, said):
    placement = two_masters()
    spoil(placement.world)
    with pytest.raises(PlacementError, match=said) as told:
        Homes().plan(placement)
    assert "\n" not in str(told.value)


def test_limits_that_nothing_keeps_are_told_unless_there_is_a_delegate():
    placement = two_masters(storage_bytes=5.0)
    placement.world.put_client(Client("a", {"m0": 0.001}))
    with pytest.raises(PlacementError, match="no plan keeps the limits: m0 would need 10 bytes"):
        Homes().plan(placement)
    assert {m.unit.name for m in Homes(FAR_S).plan(placement)} == {"b", "c"}


def test_a_delay_that_is_none_is_refused():
    with pytest.raises(PlacementError, match="the delay to the delegate is -1"):
        Homes(-1).plan(two_masters())


@pytest.mark.parametrize("name", ["otos", "otos-least-used", "reloc"])
def test_a_master_that_most_members_do_not_reach_is_no_ones_nearest(name):
    masters = [Master("far"), Master("near")]
    clients = [Client("c0", {"far": 0.02, "near": 0.01})]
    clients += [Client(f"c{n}", {"near": 0.01}) for n in (1, 2)]
    topic = Topic("t", {"c0": 1.0}, frozenset({"c1", "c2"}))
    placement = Placement(World(masters, [Link("far", "near", 0.05)], clients, [topic]))
    moves = plan_by(placement, FAR_S, BASELINES[name])
    assert {move.unit.name: move.target for move in moves} == dict.fromkeys(
        ["c0", "c1", "c2"], "near"
    )
