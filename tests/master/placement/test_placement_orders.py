"""What an operator orders a placement plane: pins, drains, freezes and plans."""

from __future__ import annotations

import pytest

from agent.placement.world import Unit
from agent.wire.placement import (
    ApplyPlan,
    PinUnit,
    PlannedMove,
    SetPlacementMode,
    ShowPlacement,
    UnitName,
)
from tests.master import placement_rig
from tests.master.placement_rig import COMFORT, NAMES, NOTES, World, known

world = placement_rig.world


def test_a_pinned_unit_moves_and_its_pin_goes_along(world):
    world[1].create("comfort")
    world.run(10.0)
    reply = world[1].ask(PinUnit("p", COMFORT, "iad2"))
    assert reply.message == "processor comfort is pinned to iad2, and moves there"
    world.run(1.0)
    assert world[1].begun() == [("comfort", "iad2", "pin")]
    world[1].finish()
    world.run(20.0)
    assert [str(each.iad) for each in known(world[2])["iad2"].facts.pins] == ["iad2"]
    assert known(world[2])["iad1"].facts.pins == ()
    reply = world[2].ask(ApplyPlan("a", (PlannedMove(COMFORT, "iad2", "iad3"),)))
    assert reply.message == ("processor comfort is to move to iad3, but it is pinned to iad2")
    world[2].restart()
    world.run(20.0)
    assert known(world[2])["iad2"].facts.pins
    assert world[2].ask(PinUnit("p", COMFORT)).message == "processor comfort is pinned no more"
    assert world[2].ask(ApplyPlan("a", (PlannedMove(COMFORT, "iad2", "iad3"),))).ok
    world[2].restart()
    (gone,) = known(world[2])["iad2"].facts.pins
    assert gone.iad == ""  # so that old news of iad1 does not pin it again


def test_draining_empties_a_master_and_it_says_so_and_survives_a_restart(world):
    for name in ("comfort", "notes"):
        world[1].create(name)
    world.run(20.0)
    reply = world[1].ask(SetPlacementMode("d", "iad1", "draining"))
    assert reply.message == "iad1 drains: 2 units to move away"
    world.run(1.0)
    world[1].restart()
    world.run(20.0)
    assert world[1].begun() == [("comfort", "iad2", "drain")]
    world[1].finish()
    world[1].finish()
    assert world[1].begun()[1:] == [("notes", "iad2", "drain")]
    world.run(1.0)
    assert "drained: no unit lives here any more; iad1 may be stopped\n" in world[1].said
    reply = world[2].ask(ApplyPlan("a", (PlannedMove(NOTES, "iad2", "iad1"),)))
    assert (reply.ok, reply.message) == (
        False, "processor notes is to move to iad1, which is draining",
    )  # fmt: skip
    assert world[1].ask(SetPlacementMode("d", "iad1", "draining")).message == "iad1 is empty"
    assert world[1].ask(SetPlacementMode("d", "iad1", "open")).message == "iad1 is open again"


def test_a_frozen_master_gives_and_takes_nothing(world):
    world[1].create("comfort")
    world.run(20.0)
    world[1].ask(SetPlacementMode("f", "iad1", "frozen"))
    reply = world[1].ask(ApplyPlan("a", (PlannedMove(COMFORT, "iad1", "iad2"),)))
    assert reply.message == "processor comfort is to move to iad2, but iad1 is frozen"
    assert world[1].plane.admits(Unit("processor", "x"), "iad2") == "iad1 is frozen"
    world.run(10.0)
    assert known(world[2])["iad1"].facts.mode == "frozen"
    world[1].restart()
    assert known(world[1])["iad1"].facts.mode == "frozen"


def test_a_plan_is_carried_out_move_by_move_and_each_master_does_its_own(world):
    for name in ("comfort", "notes"):
        world[1].create(name)
    world[2].create("third")
    world.run(20.0)
    third = UnitName("processor", "third")
    moves = [
        PlannedMove(COMFORT, "iad1", "iad2"),
        PlannedMove(NOTES, "iad1", "iad3"),
        PlannedMove(third, "iad2", "iad3"),
    ]
    reply = world[1].ask(ApplyPlan("a", tuple(moves)))
    assert reply.message == "2 of 3 moves begin here; the others are for: iad2"
    assert {(each.unit, each.state) for each in reply.moves} == {
        (COMFORT, "waiting"), (NOTES, "waiting"),
    }  # fmt: skip
    world.run(1.0)
    assert world[1].begun() == [("comfort", "iad2", "plan")]
    world[1].finish()
    assert world[1].begun()[1:] == [("notes", "iad3", "plan")]
    assert world[2].begun() == []


def test_a_move_that_fails_is_told_and_tried_again(world):
    world[1].create("comfort")
    world.run(20.0)
    world[1].ask(ApplyPlan("a", (PlannedMove(COMFORT, "iad1", "iad2"),)))
    world.run(1.0)
    world[1].finish(trouble="no processor comfort_index there")
    (first, waiting) = world[1].ask(ShowPlacement("s")).moves
    assert (first.state, waiting.state) == ("aborted", "waiting")
    assert waiting.trouble == "no processor comfort_index there"
    world.stuck.add("comfort")
    world.run(10.0)
    (_, waiting) = world[1].ask(ShowPlacement("s")).moves
    assert waiting.trouble == "it does not want to"
    world.stuck.clear()
    world.run(20.0)
    assert world[1].begun()[-1] == ("comfort", "iad2", "plan")


def test_an_earlier_move_of_the_same_kind_is_not_taken_for_the_one_under_way(world):
    world[1].create("comfort")
    world.run(20.0)
    there, back = (
        ApplyPlan("a", (PlannedMove(COMFORT, *way),)) for way in (NAMES[:2], NAMES[1::-1])
    )
    for site, plan in ((world[1], there), (world[2], back)):
        assert site.ask(plan).ok
        world.run(1.0)
        site.finish()
        world.run(20.0)
    world[1].ask(there)
    world.run(1.0)
    world[1].finish(trouble="not again")
    (*_, waiting) = world[1].ask(ShowPlacement("s")).moves
    assert (waiting.state, waiting.trouble) == ("waiting", "not again")


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (PinUnit("p", UnitName("processor", "comfrt"), "iad2"), "no unit comfrt is known here; "),
        (PinUnit("p", NOTES, ""), "processor notes is not pinned here; pinned is nothing"),
        (PinUnit("p", NOTES, "iad2"), "processor notes lives at iad2: ask that master"),
        (PinUnit("p", COMFORT, "iad4"), "no master iad4 is known here; did you mean iad"),
        (SetPlacementMode("f", "iad2", "frozen"), "this is the master of iad1; ask that of iad2: "),
        (SetPlacementMode("f", "iad5", "frozen"), "no master iad5 is known here; did you mean iad"),
        (ApplyPlan("a", (PlannedMove(COMFORT, "iad1", "iad7"),)), "no master iad7 is known here; "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(world, request_, says):
    world[1].create("comfort")
    world[2].create("notes")
    world.run(20.0)
    reply = world[1].ask(request_)
    assert not reply.ok
    assert reply.message.startswith(says)
    assert "\n" not in reply.message


def test_a_pin_that_contradicts_storage_is_refused(tmp_path):
    world = World(tmp_path, storage_bytes=1e6)
    world[1].sizes["comfort"] = 2e6
    world[1].create("comfort")
    world.run(20.0)
    reply = world[1].ask(PinUnit("p", COMFORT, "iad2"))
    assert reply.message == "what is pinned to iad2 needs 2e+06 bytes of storage, it has 1e+06"
    for site in world.sites.values():
        site.state.close()


def test_a_plans_move_that_never_can_begin_is_told_and_given_up_aloud(world):
    world[1].create("comfort")
    world[1].create("notes")
    world.run(20.0)
    plan = (PlannedMove(COMFORT, "iad1", "iad2"), PlannedMove(NOTES, "iad1", "iad2"))
    assert world[1].ask(ApplyPlan("a", plan)).ok
    world.run(1.0)
    assert world[2].ask(SetPlacementMode("f", "iad2", "frozen")).ok
    world.run(20.0)
    ((first, _, _),) = world[1].begun()
    world[1].finish()
    report = world[1].ask(ShowPlacement("s"))
    (waits,) = [each for each in report.moves if each.state == "waiting"]
    assert waits.trouble == "iad2 is frozen"
    world.run(400.0)
    line = f"processor {waits.unit.name} does not move to iad2: iad2 is frozen\n"
    assert world[1].said.count(line) == 1
    assert waits.unit.name != first
    assert len(world[1].moves) == 1


def test_a_pin_that_was_taken_away_does_not_count_against_the_most(world, monkeypatch):
    monkeypatch.setattr("agent.master.placement.placement_orders.MAX_PINS", 2)
    site = world[1]
    for name in ("a", "b", "c"):
        site.create(name)
        assert site.ask(PinUnit("p", UnitName("processor", name), "iad1")).ok
        assert site.ask(PinUnit("u", UnitName("processor", name))).ok
    assert site.ask(PinUnit("p", UnitName("processor", "c"), "iad1")).ok
    # What is pinned is told before what is no more.
    assert [each.iad for each in site.plane.facts.own().pins] == ["iad1", "", ""]
    assert site.ask(PinUnit("p", UnitName("processor", "a"), "iad1")).ok
    assert site.ask(PinUnit("p", UnitName("processor", "c"), "iad1")).ok  # the same again
    reply = site.ask(PinUnit("p", UnitName("processor", "b"), "iad1"))
    assert reply.message == "2 units are pinned here: no more can be"


def test_a_removed_topics_pin_goes_with_it(world):
    site = world[1]
    site.create("comfort")
    assert site.ask(PinUnit("p", COMFORT, "iad1")).ok
    site.remove("comfort")
    assert site.plane.facts.own().pins == ()
    site.create("comfort")
    site.restart()
    assert site.plane.facts.own().pins == ()


def test_a_master_that_an_operator_names_is_looked_for_until_others_are(world):
    site = world[1]
    site.create("comfort")
    world.run(20.0)
    for number in range(20):
        assert not site.ask(PinUnit("p", COMFORT, f"far{number}")).ok
    assert site.plane.needs == {f"far{number}" for number in range(12, 20)}
    assert site.ask(PinUnit("p", COMFORT, "iad2")).ok
    assert "iad2" in site.plane.needs


def test_a_pin_goes_along_though_its_unit_comes_after_the_news(world):
    world[1].create("notes")
    world[1].create("comfort")
    world.run(10.0)
    world[1].ask(PinUnit("p", COMFORT, "iad2"))
    world.run(1.0)
    status = world[1].kept.pop("comfort")  # it has left, and is on its way
    world.run(30.0)
    world[2].kept["comfort"] = status
    world.run(30.0)
    assert [str(each.iad) for each in known(world[2])["iad2"].facts.pins] == ["iad2"]
