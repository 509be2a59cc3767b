"""Homes of nodes and subscriptions: what is told of them, what they cost, where they move."""

from __future__ import annotations

from collections import Counter

import pytest

from agent.master.moves.home_plane import HomeChoice
from agent.placement.world import Unit
from agent.wire.placement import (
    ApplyPlan,
    HomeFacts,
    Listeners,
    PinUnit,
    PlannedMove,
    SetPlacementMode,
    Source,
    UnitName,
)
from tests.master import placement_rig
from tests.master.placement_rig import World, closed, known

world = placement_rig.world


def home(name, *iads, counts=(), hears=(), **ways_ms):
    return HomeChoice(name, {**dict.fromkeys(iads), **ways_ms}, Counter(counts), hears)


def test_homes_that_may_live_elsewhere_are_told_and_drained(world):
    homes = [home("node/n1", "iad1", "iad2"), home("node/n2", "iad2"), home("node/n3", "iad9")]
    world[2].homes += homes
    world.run(70.0)
    assert known(world[1])["iad2"].facts.homes == (
        HomeFacts("node/n1", {"iad2": 0.0, "iad1": pytest.approx(10.0)}),
    )
    world[2].ask(SetPlacementMode("d", "iad2", "draining"))
    world.run(1.0)
    assert world[2].begun() == [("node/n1", "iad1", "drain")]


def test_a_home_is_told_only_to_masters_that_may_have_it(world):
    world[2].homes.append(home("client//log", "iad1", "iad2", hears=("comfort",)))
    world[2].heard["comfort"] = 3
    world.run(70.0)
    for asked, others in ((1, 2), (2, 2), (3, 3)):
        told = known(world[asked])["iad2"].facts
        assert [each.name for each in told.homes] == ["client//log"] * (asked != 3)
        # To the third it is one of those that live at that master.
        assert told.listeners == (Listeners("comfort", others),)


def test_a_home_has_a_price_by_what_its_node_exchanges_and_its_delay(world):
    site = world[2]
    site.homes.append(home("node/n1", "iad1", iad2=2.0))
    exchange(world, site, "iad1", 10.0)
    (told,) = known(world[1])["iad2"].facts.homes
    assert told.delays_ms == {"iad2": 2.0, "iad1": pytest.approx(10.0)}
    assert told.exchanges == (Source("iad1", 10.0),)
    rows = site.plane.facts.view(world.now).price.why(Unit("home", "node/n1"))
    prices = {row.master: round(row.price, 6) for row in rows if not row.reason}
    # A round by way of iad2 is 12 ms; to iad1 directly it is taken to be 10.
    assert prices == {"iad1": 0.1, "iad2": 0.12}


def exchange(world, site, iad, per_s, seconds=100):
    """Its first home does, with the master of that IAD."""
    counts = site.homes[0].counts
    counts[iad] = 0
    for _ in range(seconds // 5):
        counts[iad] += 5 * per_s
        world.run(5.0)


def test_the_way_that_a_client_has_measured_counts_and_else_the_way_between_masters(world):
    site = world[2]
    site.homes += [
        home("client/app/a", "iad1", iad2=4.0, iad3=1.5),
        home("client/app/b", "iad1", "iad2", "iad3"),
    ]
    world.run(20.0)
    one, two = site.plane.facts.own().homes
    assert one.delays_ms == {"iad2": 4.0, "iad1": pytest.approx(10.0), "iad3": 1.5}
    assert two.delays_ms == {
        "iad2": 0.0, "iad1": pytest.approx(10.0), "iad3": pytest.approx(30.0),
    }  # fmt: skip


def test_a_subscription_hears_topics_that_others_may_be_told_of_and_the_rest_is_counted(world):
    topics = [f"t{n:02}" for n in range(20)]
    world[2].homes.append(home("client//log", "iad1", "iad2", hears=("no topic", *topics)))
    world[2].heard.update(topics)
    world.run(20.0)
    facts = world[2].plane.facts.own()
    assert facts.homes[0].hears == tuple(topics[:16])
    assert facts.listeners == tuple([Listeners(topic, 1) for topic in topics[16:]])


@pytest.mark.parametrize("name", ["client//a\nb", "client//\x1b[2J", "client//" + "ü" * 80])
def test_a_subscription_with_a_name_that_nobody_could_show_is_not_told(world, name):
    world[2].homes.append(home(name, "iad1", "iad2"))
    assert world[2].plane.facts.own().homes == ()


NEAR = {"iad1": 1.0, "iad2": 20.0}  # the delay to a client
LOG = UnitName("home", "client//log")


def subscribed(tmp_path, **placement):
    """At iad2 lives the subscription of a client that is near iad1, whose alerts it gets."""
    world = World(tmp_path, **placement)
    world[2].homes.append(home(LOG.name, **NEAR))
    return world


def test_a_subscription_drifts_to_the_master_that_is_nearer_to_what_it_hears(tmp_path):
    world = subscribed(tmp_path, drift=True)
    exchange(world, world[2], "iad1", 2.0)
    assert world[2].begun() == [(LOG.name, "iad1", "drift")]
    closed(world)


def test_without_messages_or_without_drift_it_stays(tmp_path):
    world = subscribed(tmp_path)
    exchange(world, world[2], "iad1", 2.0)
    assert world[2].begun() == []
    closed(world)
    (tmp_path / "quiet").mkdir()
    world = subscribed(tmp_path / "quiet", drift=True)
    exchange(world, world[2], "iad1", 0.0)
    assert world[2].begun() == []
    closed(world)


def test_pins_and_frozen_masters_hold_a_subscription_and_a_plan_moves_it(tmp_path):
    world = subscribed(tmp_path, drift=True)
    world.run(20.0)
    assert world[2].ask(PinUnit("p", LOG, "iad2")).ok
    exchange(world, world[2], "iad1", 2.0)
    assert world[2].begun() == []
    plan = ApplyPlan("a", (PlannedMove(LOG, "iad2", "iad1"),))
    assert "but it is pinned to iad2" in world[2].ask(plan).message
    assert world[2].ask(PinUnit("p", LOG)).ok
    assert world[2].ask(SetPlacementMode("f", "iad2", "frozen")).ok
    exchange(world, world[2], "iad1", 2.0)
    assert world[2].begun() == []
    away = ApplyPlan("a", (PlannedMove(LOG, "iad2", "iad3"),))
    assert not world[2].ask(away).ok
    assert world[2].ask(SetPlacementMode("f", "iad2", "open")).ok
    assert "to iad3, which the client cannot reach" in world[2].ask(away).message
    assert world[2].ask(plan).ok
    world.run(1.0)
    assert world[2].begun() == [(LOG.name, "iad1", "plan")]
    closed(world)
