"""Handovers that are held up: masters that are gone or restart, disks, too many at once."""

import itertools

import pytest

from agent.master.moves.handover_plane import MAX_COMING_FROM
from agent.master.requests.request_plane import RequestOrigin
from agent.placement.handover.events import Record
from agent.placement.world import Unit
from agent.wire import handover as w
from agent.wire.principals import Sender
from tests.master import handover_rig
from tests.master.handover_rig import UNIT, World, owners, workers

world = handover_rig.world


def states(master):
    return [each.state for each in master.plane.moves]


def killed_before_it_heard_of_the_release(world):
    """The target has taken the unit; the source has released it, or has only offered it."""

    def at(source, _target, message):
        if isinstance(message, w.MoveTook) and source == "b" and world.b.up:
            world.b.kill()

    world.on_message = at
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.on_message = lambda *_: None
    assert world.a.disk.records[UNIT].standing == "released"
    assert world.b.disk.records[UNIT].standing == "taken"


def test_who_has_left_the_configuration_is_told_of_the_release(world):
    killed_before_it_heard_of_the_release(world)
    world.a.kill()
    world.a.partners = ["c"]
    world.a.start()
    assert world.a.said == []
    world.b.start()
    world.settle(2.0)
    assert owners(world) == workers(world) == ["b"]
    assert world.b.things.here == {UNIT: 7}
    assert world.b.said == []
    # It is asked nothing else.
    refused = []
    world.refuse = lambda _by, to, answer: refused.append((to, answer.reason))
    world.b.plane.begin(UNIT, "a", "plan")
    world.settle(1.0)
    assert refused == [("b", "not_authorised")]
    assert owners(world) == ["b"]


def test_who_has_left_the_configuration_is_told_that_the_unit_was_taken_back(world):
    world.b.disk.slow = True
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.b.disk.done()
    world.sent.clear()
    world.b.kill()
    world.settle(10.0)
    assert owners(world) == ["a"]
    world.a.kill()
    world.a.partners = ["c"]
    world.a.start()
    world.b.disk.slow = False
    world.b.start()
    world.settle(2.0)
    assert UNIT not in world.b.disk.records
    assert owners(world) == ["a"]


def test_an_operator_hears_of_a_unit_whose_other_master_left_the_configuration(world):
    killed_before_it_heard_of_the_release(world)
    world.b.partners = ["c"]
    world.b.start()
    assert world.b.said == [
        (
            "processor comfort was taken from a, which is neither in this master's pool nor among "
            "its placement.partners now: it waits until that master has answered\n"
        )
    ]
    world.a.disk.records[UNIT] = Record(UNIT, 2, "offered", "b", 5.0)
    world.a.kill()
    world.a.partners = ["c"]
    world.a.start()
    assert world.a.said == [
        (
            "processor comfort was offered to b, which is neither in this master's pool nor among "
            "its placement.partners now: it is taken back unless that master soon says that it "
            "has it\n"
        )
    ]


def test_an_operator_hears_once_that_a_unit_waits_because_its_source_does_not_answer(world):
    killed_before_it_heard_of_the_release(world)
    world.a.kill()
    world.a.disk.records.clear()
    world.a.partners = ["c"]
    world.a.start()
    world.b.start()
    world.settle(5.0)
    assert world.b.said == [
        (
            "processor comfort was taken from a and waits: the master of a says: handovers are "
            "between masters of one pool; this one's does not name you\n"
        )
    ]


def test_few_move_at_a_time_and_the_others_wait(world):
    units = [Unit("processor", f"t{n}") for n in range(5)]
    world.a.disk.things.update(dict.fromkeys(units, 1))
    world.a.start()
    for unit in units:
        world.a.plane.begin(unit, "b", "drain")
    world.a.disk.done()
    begun = {each[2][:64] for each in world.sent}
    assert len(begun) == 2
    world.settle()
    assert set(world.b.things.here) == set(units)
    assert states(world.a) == ["settled"] * 5


def test_a_master_that_only_asks_leaves_places_for_others(world):
    answers = []
    world.on_message = lambda source, to, said: answers.append((source, to, type(said)))
    for number in range(6):
        asked = w.Handover("m.1", "a", "processor", f"t{number}", w.MoveAsk(1, 5.0))
        world.a.peers.send("b", asked)
    world.settle()
    assert answers.count(("b", "a", w.MoveGrant)) == MAX_COMING_FROM
    assert answers.count(("b", "a", w.MoveRefuse)) == 6 - MAX_COMING_FROM
    world.c.peers.send("b", w.Handover("m.1", "c", "processor", "other", w.MoveAsk(1, 5.0)))
    world.settle()
    assert answers[-1] == ("b", "c", w.MoveGrant)


def test_units_that_do_not_pause_are_taken_back_and_others_move(world):
    """For example because a neighbour is gone and the spool half full: a `Release` waits."""
    stuck = [Unit("processor", f"t{n}") for n in range(2)]
    world.a.disk.things.update(dict.fromkeys(stuck, 1))
    world.a.start()
    world.a.things.lingers = True
    for unit in stuck:
        world.a.plane.begin(unit, "b", "drain")
    world.settle()
    world.a.things.lingers = False
    world.a.plane.begin(UNIT, "b", "drain")
    world.settle(4.0)
    assert set(world.a.things.here) == {UNIT, *stuck}
    world.settle(4.0)
    assert set(world.b.things.here) == {UNIT}
    assert world.a.things.owned == set(stuck)
    assert states(world.a) == ["aborted", "aborted", "settled"]
    assert world.a.things.calls.count("resume") == 2
    for unit in stuck:
        assert world.a.disk.records[unit].standing == "owner"
        world.a.plane.begin(unit, "b", "drain")
    world.settle()
    assert set(world.b.things.here) == {UNIT, *stuck}


def test_a_refusal_ends_a_pause_that_takes_long(world):
    world.a.things.lingers = True
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert states(world.a) == ["draining"]
    (source,) = [each.holder.machine for each in world.a.plane._entries.values()]
    refusal = w.Handover(
        "handover.0", "b", "processor", "comfort", w.MoveRefuse(source.attempt, "no")
    )
    world.a.handlers[w.Handover](RequestOrigin(b"b", b"M", Sender("iad", "b")), refusal, 0.0)
    assert states(world.a) == ["aborted"]
    assert owners(world) == ["a"]


def test_a_disk_that_refuses_holds_the_handover_up_and_loses_nothing(world):
    def fill(_source, _target, message):
        if isinstance(message, w.MoveReady):
            world.b.disk.refusing = True

    world.on_message = fill
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(1.0)
    assert owners(world) == []
    world.b.disk.refusing = False
    world.settle(0.25)
    assert owners(world) == ["b"]


def test_a_unit_does_not_pause_for_a_disk_that_is_known_to_refuse(world):
    world.b.disk.refusing = True
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(1.0)
    assert owners(world) == ["a"]
    move = world.a.plane.moves[-1]
    assert (move.state, move.pause_ms) == ("aborted", None)
    assert move.trouble == "its disk takes nothing now; try again later"
    world.b.disk.refusing = False
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(1.0)
    assert owners(world) == ["b"]


def test_a_unit_is_not_granted_while_its_last_attempt_is_not_discarded(world):
    def cut(_source, _target, message):
        if isinstance(message, w.MoveReady):
            world.cut.add(("b", "a"))

    world.on_message = cut
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(1.0)
    world.on_message = lambda *_: None
    world.b.disk.refusing = True
    world.settle(10.0)
    assert owners(world) == ["a"]
    world.cut.clear()
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert world.a.plane.moves[-1].trouble == "its disk takes nothing now; try again later"
    world.b.disk.refusing = False
    world.settle(1.0)
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(1.0)
    assert owners(world) == ["b"]


def messages_of_a_move():
    """How many messages one has."""
    world = World("a", "b", "c")
    world.a.disk.things[UNIT] = 7
    world.a.start()
    count = itertools.count(1)
    world.on_message = lambda *_: next(count)
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    return next(count) - 1


@pytest.mark.parametrize("who", ["a", "b", "ab"])
@pytest.mark.parametrize("at", range(messages_of_a_move() + 1))
@pytest.mark.parametrize("slow", ["", "a", "b"])
def test_a_master_that_restarts_after_any_message_leaves_one_owner(world, who, at, slow):
    """With a slow disk a write is under way then, and lost."""
    for each in slow:
        world.masters[each].disk.slow = True
    world.a.plane.begin(UNIT, "b", "plan")
    delivered = 0
    for _ in range(100):
        if delivered == at:
            break
        if world.sent:
            world.deliver()
            delivered += 1
        else:
            for each in slow:
                world.masters[each].disk.done()
    for each in who:
        world.masters[each].kill()
    if "b" in who and "a" not in who:
        world.settle(1.0)
    for each in who:
        world.masters[each].disk.slow = False
        world.masters[each].start()
    for each in world.masters.values():
        each.disk.slow = False
        each.disk.done()
    for _ in range(200):
        world.settle(0.25)
        assert len(owners(world)) <= 1
    assert len(owners(world)) == 1
    assert workers(world) == owners(world)
    (owner,) = owners(world)
    assert world.masters[owner].things.here == {UNIT: 7}
    assert [iad for iad, each in world.masters.items() if UNIT in each.disk.things] == [owner]
    # It can be moved again.
    target = "c"
    world.masters[owner].plane.begin(UNIT, target, "plan")
    world.settle(1.0)
    assert owners(world) == [target]


def test_a_master_that_is_asked_anew_before_it_told_of_the_release_does_not_spin(world):
    world.a.things.holds[UNIT] = None
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert world.a.disk.records[UNIT].standing == "released"
    asked = w.Handover("handover.9", "c", UNIT.kind, UNIT.name, w.MoveAsk(9, 5.0))
    copy = w.Handover("handover.9", "c", UNIT.kind, UNIT.name, w.MoveState(9, b"7"))
    for message in (asked, copy):
        world.c.peers.send("a", message)
    world.settle(3.0)
    assert "load" in world.a.things.calls
    assert world.a.plane.next_due > world.clock.now
    assert owners(world) == ["b"]
