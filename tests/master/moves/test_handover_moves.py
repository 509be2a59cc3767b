"""A unit that moves between masters: where it is, what is copied, and what is refused."""

import pytest

from agent.master.requests.request_plane import RequestOrigin
from agent.placement.handover.events import MOST_EPOCHS
from agent.placement.world import PlacementError, Unit
from agent.wire import handover as w
from agent.wire.base import MAX_COUNTED
from agent.wire.principals import Sender
from tests.master import handover_rig
from tests.master.handover_rig import UNIT, UNIT_NAMES, owners, workers

world = handover_rig.world


def test_a_unit_moves_and_its_old_master_says_where_it_is(world):
    report = world.a.ask(w.MoveUnit("m", "processor", "comfort", "b"))
    assert report.ok
    assert report.moves[0].state == "planned"
    world.settle()
    assert owners(world) == workers(world) == ["b"]
    assert world.b.things.here == {UNIT: 7}
    assert world.b.things.calls == ["load", "work", "own"]
    assert world.a.plane.where(UNIT) == "b"
    (move,) = world.a.ask(w.ListMoves("l")).moves
    assert (move.state, move.source, move.target, move.trouble) == ("settled", "a", "b", "")
    assert move.pause_ms is not None
    assert move.idle_ms is not None
    assert world.a.plane.counters["moves_settled"] == world.b.plane.counters["moves_taken"] == 1
    assert world.a.disk.records[UNIT].standing == "released"
    assert world.b.disk.records[UNIT].standing == "owner"
    (record,) = world.a.records
    assert (record.kind, record.unit, record.source, record.target) == (*UNIT_NAMES, "a", "b")
    assert (record.state, record.reason, record.pause_ms) == ("settled", "plan", move.pause_ms)
    assert world.b.records == []


def test_it_moves_on_and_comes_back(world):
    for source, target in ["ab", "bc", "ca", "ab"]:
        world.masters[source].plane.begin(UNIT, target, "plan")
        world.settle(1.0)
        assert owners(world) == [target]
        assert world.masters[target].plane.where(UNIT) is None
        assert world.masters[source].plane.where(UNIT) == target


def test_where_a_unit_went_can_be_forgotten(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert world.a.plane.departed("processor") == {"comfort": "b"}
    assert world.a.plane.departed("home") == {}
    world.a.plane.forget(UNIT)
    assert world.a.plane.where(UNIT) is None
    world.a.kill()
    world.a.start()
    assert world.a.plane.departed("processor") == {}
    # A new one of its name may move again.
    world.a.things.here[UNIT] = 1
    world.a.things.working.add(UNIT)
    world.b.things.here.clear()
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert world.b.things.here == {UNIT: 1}


def test_what_cannot_be_moved_is_refused_in_one_line(world):
    begin = world.a.plane.begin
    world.cut.add(("a", "c"))
    for unit, target, why in [
        (UNIT, "x", "x is not in this master's pool; those that are: b, c"),
        (UNIT, "a", "it lives there already"),
        (UNIT, "c", "the master of c cannot be reached now"),
        (Unit("processor", "other"), "b", "it does not live here"),
        (Unit("clone", "n1"), "b", "this master moves no clone"),
    ]:
        with pytest.raises(PlacementError) as caught:
            begin(unit, target, "plan")
        assert str(caught.value) == f"{unit} is not moved: {why}"
    begin(UNIT, "b", "plan")
    with pytest.raises(PlacementError, match="it is being moved already"):
        begin(UNIT, "b", "plan")
    world.settle()
    with pytest.raises(PlacementError, match="it lives at b; ask there"):
        begin(UNIT, "b", "plan")


@pytest.mark.parametrize("at", [w.MoveAsk, w.MoveGrant, w.MoveState, w.MoveReady])
def test_a_unit_that_is_removed_on_its_way_ends_its_move(world, at):
    def removed(_source, _target, message):
        if isinstance(message, at):
            world.on_message = lambda *_: None
            for kept in (world.a.things.here, world.a.disk.things):
                kept.pop(UNIT)
            world.a.things.working.clear()
            world.a.things.owned.clear()

    if at is w.MoveReady:
        world.a.disk.slow = True  # the offer is being written
        world.a.disk.write = lambda changes, then: world.a.disk.waiting.append((changes, then))
    world.on_message = removed
    world.a.plane.begin(UNIT, "b", "plan")
    for _ in range(20):
        world.a.disk.done()
        world.settle(0.5)
    (move,) = world.a.plane.moves
    assert (move.state, move.trouble) == ("aborted", "it does not live here any more")
    assert world.a.things.calls == []
    assert not world.a.things.copied
    assert not world.a.plane.moving(UNIT)
    assert not world.b.plane.moving(UNIT)
    assert owners(world) == workers(world) == []
    # One that is made anew may move.
    world.a.things.here[UNIT] = world.a.disk.things[UNIT] = 1
    world.a.things.working.add(UNIT)
    world.a.plane.begin(UNIT, "b", "plan")
    for _ in range(20):
        world.a.disk.done()
        world.settle(0.5)
    assert owners(world) == ["b"]
    assert world.b.things.here == {UNIT: 1}


def test_what_was_copied_is_forgotten_with_its_handover(world):
    world.b.things.refuses = "no room"
    world.a.plane.begin(UNIT, "b", "plan")
    assert world.a.plane.bound_for(UNIT) == "b"
    world.settle()
    assert world.a.plane.bound_for(UNIT) == ""
    assert not world.a.things.copied


def test_a_move_that_waits_for_a_standby_says_so(world):
    world.a.plane.free = lambda _: False
    world.a.plane.waits_for = lambda _: "its standby at c has not let it go yet"
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    (move,) = world.a.plane.moves
    assert (move.state, move.trouble) == ("planned", "its standby at c has not let it go yet")
    world.a.plane.free = lambda _: True
    world.a.plane.freed(UNIT)
    world.settle()
    assert owners(world) == ["b"]
    (move,) = world.a.plane.moves
    assert (move.state, move.trouble) == ("settled", "")


def test_a_move_that_waits_for_a_standby_ends_once_that_has_taken_the_unit_over(world):
    others = [Unit("processor", name) for name in ("c1", "c2")]
    for each in others:
        world.a.things.here[each] = world.a.disk.things[each] = 1
        world.a.things.working.add(each)
    world.a.plane.free = lambda unit: unit in others
    # As many at once as there may be.
    for each in (UNIT, Unit("processor", "c1")):
        world.a.plane.begin(each, "b", "drain")
    world.a.plane.begin(others[1], "b", "drain")
    world.settle()
    world.a.plane.lost(UNIT, 5, "c")
    world.settle()
    moves = {move.unit: (move.state, move.trouble) for move in world.a.plane.moves}
    assert moves.pop(UNIT) == ("aborted", "it lives at c now")
    assert set(moves.values()) == {("settled", "")}
    assert not world.a.plane.moving(UNIT)


def test_a_unit_is_on_its_way_until_it_is_on_disk_where_it_lives(world):
    moves, disk = world.a.plane, world.a.disk
    disk.write = lambda changes, then: disk.waiting.append((changes, then))
    moves.lost(UNIT, 5, "c")
    world.a.things.here.pop(UNIT, None)
    assert (moves.bound_for(UNIT), moves.where(UNIT)) == ("c", None)
    assert moves.moving(UNIT)  # or it would be let go again, with each news of its new master
    disk.done()
    world.settle()
    assert (moves.bound_for(UNIT), moves.where(UNIT)) == ("", "c")


def test_a_move_that_waited_while_its_unit_was_taken_over_goes_on_when_it_has_come_back(world):
    world.a.plane.free = lambda _: False
    world.a.plane.begin(UNIT, "c", "plan")
    world.settle()
    # Its standby at b takes it for dead, and has it from now on.
    for things in (world.a.things.here, world.a.disk.things):
        things.pop(UNIT)
    for some in (world.a.things.working, world.a.things.owned):
        some.discard(UNIT)
    world.b.disk.things[UNIT] = world.b.things.here[UNIT] = 7
    for some in (world.b.things.working, world.b.things.owned):
        some.add(UNIT)
    world.a.plane.free = lambda _: True
    world.b.plane.begin(UNIT, "a", "plan")
    world.settle(1.0)
    world.settle(1.0)
    assert owners(world) == workers(world) == ["c"]
    assert [move.state for move in world.a.plane.moves] == ["settled"]


def test_a_target_that_cannot_load_it_leaves_it_where_it_is(world):
    world.b.things.refuses = "no processor comfort_index here"
    gone = []
    world.b.plane.given_up = lambda unit, source: gone.append((unit, source))
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    # Whatever was granted at b for its sake is free for others.
    assert gone == [(UNIT, "a")]
    assert owners(world) == workers(world) == ["a"]
    (move,) = world.a.plane.moves
    assert (move.state, move.trouble) == ("aborted", "no processor comfort_index here")
    assert world.a.said == [
        "processor comfort is not moved to b: no processor comfort_index here\n"
    ]


def test_a_final_state_that_cannot_be_read_is_taken_back_at_once(world):
    world.b.things.damaged = "its state is of a later version"
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert owners(world) == workers(world) == ["a"]
    assert world.a.plane.moves[0].trouble == "its state is of a later version"
    assert UNIT not in world.b.disk.records


def test_a_master_of_an_earlier_version_refuses_and_nothing_is_moved(world):
    world.b.knows = False
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert owners(world) == ["a"]
    (move,) = world.a.plane.moves
    assert move.trouble == "the master of b says: invalid value 'handover'"


def test_a_state_that_is_too_large_is_not_moved(world, monkeypatch):
    monkeypatch.setattr("agent.master.moves.handover_messages.MAX_BYTES", 0)
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert owners(world) == ["a"]
    assert world.a.plane.moves[0].trouble == "its state has 1 bytes; 0 can be moved"
    assert UNIT not in world.b.things.working


def test_a_large_state_goes_in_parts(world, monkeypatch):
    monkeypatch.setattr(w, "MAX_PART_BYTES", 2)
    world.a.disk.things[UNIT] = 1_234_567
    world.a.kill()
    world.a.start()
    parts = []
    world.on_message = lambda _s, _t, each: parts.append(each)
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert world.b.things.here == {UNIT: 1_234_567}
    assert [(each.part, each.body) for each in parts if isinstance(each, w.MoveState)] == 2 * [
        (0, b"12"), (1, b"34"), (2, b"56"), (3, b"7"),
    ]  # fmt: skip


def test_handovers_of_others_are_refused(world):
    refused = []
    world.refuse = lambda by, to, answer: refused.append((to, answer.reason))
    handover = w.Handover("handover.1", "b", "processor", "comfort", w.MoveAsk(1, 5.0))
    for sender in (Sender("client", "b"), Sender("iad", "c"), Sender("csp", "b")):
        origin = RequestOrigin(b"x", b"M", sender)
        world.a.handlers[w.Handover](origin, handover, 0.0)
    stranger = w.Handover("handover.1", "x", "processor", "comfort", w.MoveAsk(1, 5.0))
    world.a.handlers[w.Handover](RequestOrigin(b"x", b"M", Sender("iad", "x")), stranger, 0.0)
    assert refused == [("x", "not_authorised")] * 4
    assert not world.sent


def told(world, to, sender, name, message):
    """What the master says back to a message of another one."""
    handover = w.Handover("handover.1", sender, "processor", name, message)
    origin = RequestOrigin(sender.encode(), b"M", Sender("iad", sender))
    before = len(world.sent)
    world.masters[to].handlers[w.Handover](origin, handover, world.clock.now)
    answers = [world.decoder.decode(frame)[0].message for *_, frame in [*world.sent][before:]]
    world.sent.clear()
    return answers


def test_what_nobody_asked_for_takes_no_memory(world):
    part = w.MoveState(1, b"x" * 1_000, 0, 0, 3)
    for number in range(100):
        name = f"invented{number}"
        for message in (part, w.MoveAbort(1), w.MoveTook(5), w.MoveSettled(5), w.MoveGrant(1)):
            assert told(world, "b", "a", name, message) == []
    (refused,) = told(world, "b", "a", "invented", w.MoveState(1, b"x", 5, 2, 3))
    assert refused == w.MoveRefuse(1, "it was given up here")
    assert not world.b.plane._entries
    # Of a unit that was granted, only its source's parts of this attempt.
    assert told(world, "b", "a", "comfort", w.MoveAsk(7, 5.0)) == [w.MoveGrant(7)]
    entry = world.b.plane._entries[UNIT]
    for sender, attempt in (("c", 7), ("a", 6)):
        told(world, "b", sender, "comfort", w.MoveState(attempt, b"x" * 1_000, 0, 0, 3))
    assert entry.gathered.size == 0
    told(world, "b", "a", "comfort", w.MoveState(7, b"x" * 1_000, 0, 0, 3))
    assert entry.gathered.size == 1_000


def test_a_unit_with_an_epoch_that_none_has_reached_is_not_taken(world):
    """The epochs after it were none that a message carries: it could never be moved again."""
    for kept in (world.a.things.here, world.a.disk.things, world.a.things.owned):
        kept.clear()

    def given(epoch):
        told(world, "b", "c", "comfort", w.MoveAsk(5, 5.0))
        told(world, "b", "c", "comfort", w.MoveState(5, b"7"))
        return told(world, "b", "c", "comfort", w.MoveState(5, b"7", epoch))

    (refused,) = given(MAX_COUNTED)
    assert refused == w.MoveRefuse(5, f"its epoch would be {MAX_COUNTED}, which none has reached")
    assert world.b.disk.records == {}
    assert given(MOST_EPOCHS) == [w.MoveTook(MOST_EPOCHS)]
    told(world, "b", "c", "comfort", w.MoveSettled(MOST_EPOCHS))
    # Wherever it comes to, a little later, its next epochs are none too many.
    for target in "ac":
        (master,) = [world.masters[each] for each in owners(world)]
        world.settle(1.0)
        master.plane.begin(UNIT, target, "plan")
        world.settle()
        assert owners(world) == [target]


def test_a_unit_that_was_asked_for_and_given_up_is_forgotten(world):
    for number in range(100):
        name = f"invented{number}"
        assert told(world, "b", "a", name, w.MoveAsk(number, 5.0)) == [w.MoveGrant(number)]
        told(world, "b", "a", name, w.MoveAbort(number))
    world.settle(10.0)
    assert not world.b.plane._entries
    assert world.b.plane.next_due is None


def test_a_third_master_cannot_say_that_it_took_the_unit(world):
    world.b.disk.slow = True
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    assert world.a.disk.records[UNIT].standing == "offered"
    took = w.Handover("handover.0", "c", "processor", "comfort",
                      w.MoveTook(world.a.disk.records[UNIT].epoch))  # fmt: skip
    world.a.handlers[w.Handover](RequestOrigin(b"c", b"M", Sender("iad", "c")), took, 0.0)
    assert world.a.disk.records[UNIT].standing == "offered"
    world.b.disk.done()
    world.b.disk.slow = False
    world.settle()
    assert owners(world) == ["b"]


def test_the_target_owns_it_when_no_output_can_overtake_another_or_after_two_seconds(world):
    world.a.things.holds[UNIT] = None
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(1.0)
    assert workers(world) == ["b"]
    assert owners(world) == []
    world.a.things.holds[UNIT]()
    world.settle()
    assert owners(world) == ["b"]
    assert world.a.plane.moves[0].pause_ms == 1_000.0
    world.b.things.holds[UNIT] = None
    world.b.plane.begin(UNIT, "c", "plan")
    world.settle(1.75)
    assert owners(world) == []
    world.settle(0.25)
    assert owners(world) == ["c"]
