"""Where a new topic goes: to a cheaper master, or to the delegate if no other has room."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.wire.messages import Slo
from agent.wire.placement import PinUnit, ShowPlacement, UnitName
from agent.wire.topics import Topic, TopicStatus
from tests.master import placement_rig
from tests.master.placement.test_latency_model import trained
from tests.master.placement_rig import Site, World, known

world = placement_rig.world


def test_a_new_topic_moves_at_once_to_a_cheaper_master(world):
    world[2].heard["comfort"] = 3
    known(world[1])
    world.run(1.0)
    line = world[1].create("comfort", areas=("iad2/a",), every_s=1.0, processor="p")
    assert line == "it moves to iad2, which saves 0.06 s of delay a second"
    world.run(1.0)
    assert world[1].begun() == [("comfort", "iad2", "arrival")]


def test_the_first_topic_is_placed_when_the_others_have_told_what_they_have(world):
    world[2].heard["comfort"] = 3
    assert world[1].create("comfort", areas=("iad2/a",), every_s=1.0, processor="p") == ""
    world.run(1.0)
    assert world[1].begun() == [("comfort", "iad2", "arrival")]
    assert any("it moves to iad2" in line for line in world[1].said)


def test_a_new_topic_does_not_wait_for_a_master_that_says_nothing(world):
    world[2].heard["comfort"] = 3
    world.cut.add(("iad1", "iad3"))
    assert world[1].create("comfort", areas=("iad2/a",), every_s=1.0, processor="p") == ""
    world.run(14.0)
    assert world[1].begun() == []
    world.run(2.0)
    assert world[1].begun() == [("comfort", "iad2", "arrival")]


def test_a_new_topic_that_no_master_can_serve_is_told(world):
    status = TopicStatus(Topic("old", processor="slow"), "ready", cpu_ms=900.0)
    world[2].kept["old"] = status
    world.run(20.0)
    line = world[1].create("new", processor="slow", slo=Slo(90.0, 500.0))
    assert line.startswith("topic new is infeasible alone: it would get p90 = 9")


def test_a_trained_model_is_what_a_master_goes_by(tmp_path):
    (tmp_path / "model.json").write_bytes(trained())
    world = World(tmp_path, model="model.json")
    world[2].kept["old"] = TopicStatus(Topic("old"), "none")
    world.run(20.0)
    line = world[1].create("new", slo=Slo(90.0, 10.0), processor="comfort_index")
    # Untrained formulas say 1.5 ms.
    assert line.startswith("topic new is infeasible alone: it would get p90 = 20")
    for site in world.sites.values():
        site.state.close()


@pytest.fixture
def delegating(tmp_path):
    """Two masters with room for one topic each, and a third one that takes the rest."""

    def made(delegate):
        world = World(tmp_path, most_processors=1, delegate=delegate)
        world[3].state.close()
        most = 8 if delegate else 1
        world.sites["iad3"] = Site(world, "iad3", tmp_path, most_processors=most, delegate=delegate)
        for number, name in ((1, "a"), (2, "b")):
            world[number].kept[name] = TopicStatus(Topic(name), "ready")
        world.run(20.0)
        worlds.append(world)
        return world

    worlds = []
    yield made
    for world in worlds:
        for site in world.sites.values():
            site.state.close()


def test_a_topic_that_no_master_has_room_for_goes_to_the_delegate_and_is_told(delegating):
    world = delegating("iad3")
    line = world[1].create("c")
    assert line == "it is delegated to iad3: no other master has room within the limits"
    world.run(1.0)
    assert world[1].begun() == [("c", "iad3", "delegate")]
    world[1].finish()
    status = world[3].placed(world[3].kept["c"])
    assert status.delegated == "iad3: no other master has room within the limits"
    assert world[1].placed(world[1].kept["a"]).delegated == ""
    # One that is made there stays there, and its master says why.
    assert world[3].create("d") == (
        "it stays at the delegate iad3: no other master has room within the limits"
    )
    # An operator's word is none of necessity.
    assert world[3].ask(PinUnit("p", UnitName("processor", "c"), "iad3")).ok
    assert world[3].placed(world[3].kept["c"]).delegated == ""
    # The penalty is no delay: the cost that is told is what it is without.
    assert world[3].ask(ShowPlacement("s")).costs[-1].cost < 1.0


def test_a_topic_at_the_delegate_goes_to_a_master_that_has_room(delegating):
    world = delegating("iad3")
    world[2].remove("b")
    world.run(20.0)
    assert world[3].create("c").startswith("it moves to iad2")


def test_without_a_delegate_a_topic_that_no_master_has_room_for_is_told(delegating):
    world = delegating("")
    world[3].kept["z"] = TopicStatus(Topic("z"), "ready")
    world.run(20.0)
    line = world[1].create("c")
    assert line.startswith("no master has room for processor c: iad1 would have 2 processors, at")
    assert line.endswith("; no master is named that takes the rest")
    world.run(5.0)
    assert world[1].begun() == []


def test_a_delegate_that_only_others_name_tells_what_is_delegated_to_it(world):
    for number in (1, 2):
        site = world[number]
        told = replace(site.plane.facts.own(), delegate="iad3")
        site.plane.facts.own = lambda told=told: told
    world[3].kept["c"] = TopicStatus(Topic("c"), "ready")
    assert world[3].plane._placed(world[3].kept["c"]).delegated == ""
    world.run(20.0)
    assert world[3].plane._placed(world[3].kept["c"]).delegated.startswith("iad3: ")
