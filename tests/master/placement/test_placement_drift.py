"""Drift of units between masters, and the grants that it asks for."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from msgspec.structs import replace

from agent.master.placement.placement_plane import MOST_LINES
from agent.placement.cost_history import CostHistory
from agent.placement.world import PlacementError, Unit
from agent.wire.placement import AskGrant, PinUnit, ShowPlacement
from agent.wire.topics import Topic, TopicStatus
from tests.master import placement_rig
from tests.master.placement_rig import COMFORT, World, closed

world = placement_rig.world


def test_drift_moves_a_unit_only_where_it_is_switched_on(tmp_path):
    for drift in (False, True):
        folder = tmp_path / str(drift)
        folder.mkdir()
        world = World(folder, drift=drift)
        world[1].create("comfort")
        world[2].heard["comfort"] = 1
        world.run(10.0)
        world[1].arrivals["comfort"] = Counter({"iad2": 0})
        for _ in range(30):
            world[1].arrivals["comfort"]["iad2"] += 50
            world.run(5.0)
        assert world[1].begun()[:1] == ([("comfort", "iad2", "drift")] if drift else [])
        for site in world.sites.values():
            site.state.close()


def drifting(tmp_path):
    """iad1 has a topic that is heard at iad2, and drifts."""
    world = World(tmp_path, drift=True)
    world[2].heard["comfort"] = 1
    topic = Topic("comfort", areas=("iad2/a",), every_s=0.1, processor="p")
    world[1].kept["comfort"] = TopicStatus(topic, "ready")
    return world


def test_drift_waits_for_the_grant_of_its_target_and_pins_do_not(tmp_path):
    world = drifting(tmp_path)
    world[2].unknown = (AskGrant,)  # as a master of an earlier version
    world.run(60.0)
    assert world[1].begun() == []
    assert world[1].ask(PinUnit("p", COMFORT, "iad2")).ok
    world.run(1.0)
    assert world[1].begun() == [("comfort", "iad2", "pin")]
    closed(world)


def test_a_master_that_has_granted_a_move_takes_no_other_until_it_is_over(tmp_path):
    world = drifting(tmp_path)
    world.run(20.0)
    assert world[1].begun() == [("comfort", "iad2", "drift")]
    assert world[2].plane.admits(Unit("processor", "x"), "iad3") == "iad2 is part of another move"
    world.run(200.0)  # It is told again and again that the move goes on.
    assert world[2].plane.admits(Unit("processor", "x"), "iad3") == "iad2 is part of another move"
    world[1].finish("it does not load")
    assert world[2].plane.admits(Unit("processor", "x"), "iad3") == ""
    closed(world)


def test_a_unit_that_was_let_and_does_not_come_keeps_no_other_away(tmp_path):
    world = World(tmp_path)
    world.run(10.0)
    first, second = Unit("processor", "x"), Unit("processor", "y")
    assert world[2].plane.admits(first, "iad1") == ""
    assert world[2].plane.admits(second, "iad1") == "iad2 is part of another move"
    world[2].plane.given_up(first, "iad3")  # of another source, which was not let
    assert world[2].plane.admits(second, "iad1") == "iad2 is part of another move"
    world[2].plane.given_up(first, "iad1")
    assert world[2].plane.admits(second, "iad1") == ""
    closed(world)


def test_the_cost_of_the_view_is_kept_and_what_a_move_gained(tmp_path):
    world = drifting(tmp_path)
    world.run(20.0)
    report = world[1].ask(ShowPlacement("s"))
    before = report.costs[-1]
    assert before.cost == pytest.approx(10.0 * 2 * 0.010, rel=1e-3)
    (move,) = report.moves
    assert move.gain == pytest.approx(before.cost, rel=1e-3)
    world[1].finish()
    world.run(10.0)
    report = world[1].ask(ShowPlacement("s"))
    assert report.costs[-1].cost == pytest.approx(0.0, abs=1e-3)
    world.run(4_000.0)
    assert len(world[1].ask(ShowPlacement("s")).costs) == 120
    closed(world)


def test_the_cost_after_a_move_counts_the_unit_at_its_new_home(tmp_path):
    """It is heard at iad3, too: 30 ms from its new home, which tells a second later that it has
    it."""
    world = drifting(tmp_path)
    world[3].heard["comfort"] = 1
    world.run(20.0)
    before = world[1].ask(ShowPlacement("s")).costs[-1]
    world[1].finish()
    world.run(10.0)
    after = world[1].ask(ShowPlacement("s")).costs
    assert after[-1].age_s < 10.0
    assert [each.cost for each in after if each.age_s < 11.0] == [
        pytest.approx(10.0 * 0.030, rel=1e-2)
    ]
    assert after[-1].cost < before.cost
    closed(world)


def test_the_cost_waits_half_a_minute_at_most_for_a_unit_that_moved():
    costs = CostHistory()
    costs.moved(Unit("processor", "comfort"), 10.0)
    assert not costs.complete({}.get, 39.0)
    assert costs.complete({}.get, 40.0)


def test_a_partners_questions_take_a_twentieth_of_a_masters_time(world):
    asks = [AskGrant("iad2", 1, number, COMFORT, "iad1", "ask") for number in range(1, 103)]
    site = world[1]
    site.look_s, begun, looks = 0.15, world.now, site.looks
    for ask in asks[:100]:
        world.deliver("iad2", "iad1", ask)
    # The burst, and what was begun before it was used up.
    assert world.now - begun <= 0.3 + 2 * 0.15 + 0.01
    assert site.looks - looks <= 4
    # Another's questions are not charged for it.
    before = site.looks
    world.deliver("iad3", "iad1", replace(asks[0], iad="iad3"))
    assert site.looks > before
    site.look_s, before = 0.0, site.looks
    world.deliver("iad2", "iad1", asks[100])
    assert site.looks == before
    *_, (_, _, target, told) = world.wire
    assert (target, told.granted) == ("iad2", False)
    assert told.message == "it has answered too much of late"
    world.run(20.0)
    before = site.looks
    world.deliver("iad2", "iad1", asks[101])
    assert site.looks > before


def test_a_partners_asking_to_move_units_here_takes_a_twentieth_of_a_masters_time(world):
    site = world[1]
    site.look_s, begun, looks = 0.15, world.now, site.looks
    answers = [site.plane.admits(Unit("processor", f"t{n}"), "iad2") for n in range(100)]
    assert world.now - begun <= 0.3 + 0.15 + 0.01
    assert site.looks - looks <= 3
    assert answers[-1] == "it has answered too much of late"
    assert site.plane.admits(Unit("processor", "t0"), "iad3") != answers[-1]
    world.run(20.0)
    assert site.plane.admits(Unit("processor", "t0"), "iad2") == ""


def test_a_grant_ends_by_itself_when_its_holder_is_gone(tmp_path):
    world = drifting(tmp_path)
    world.run(20.0)
    assert world[1].begun() == [("comfort", "iad2", "drift")]
    world[1].up = False
    world.run(50.0)
    assert world[2].plane.admits(Unit("processor", "x"), "iad3") == "iad2 is part of another move"
    world.run(15.0)
    assert world[2].plane.admits(Unit("processor", "x"), "iad3") == ""
    closed(world)


@pytest.fixture
def site(world):
    """One whose topic is told to be elsewhere."""
    made = world[1]
    made.create("comfort")
    world.run(1.0)
    assert made.ask(PinUnit("p", COMFORT, "iad2")).ok
    made.moves.clear()
    return made


def test_what_contradicts_itself_is_said_once_and_ends_no_master(world, site, monkeypatch):
    def contradicted(*_):
        raise PlacementError("client node/n1 cannot reach iad2")

    monkeypatch.setattr(site.plane.facts, "view", contradicted)
    unit = Unit("processor", "comfort")
    assert site.plane.admits(unit, "iad2") == "client node/n1 cannot reach iad2"
    world.run(60.0)
    assert site.create("notes") == ""
    line = "placement: no unit moves: client node/n1 cannot reach iad2\n"
    assert [each for each in site.said if "node/n1" in each] == [line]


def test_what_ever_changes_of_that_is_said_at_a_limited_rate(world, site, monkeypatch):
    view, asked = site.plane.facts.view, itertools.count()

    def contradicted(*given):
        found, number = view(*given), next(asked)
        found.troubles += [f"topic {number}.{n} is kept by iad2 and by iad3" for n in range(50)]
        return found

    monkeypatch.setattr(site.plane.facts, "view", contradicted)
    before = world.now
    world.run(30.0)
    said = [each for each in site.said if each.startswith("placement: ")]
    assert next(asked) > 10
    assert len(said) <= MOST_LINES + 2 * (world.now - before)
