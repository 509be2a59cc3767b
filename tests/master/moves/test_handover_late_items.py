"""Late items of a unit that has moved: they go after it, whoever was away or restarted."""

from agent.master.moves.late_exchange import MAX_UNKNOWN
from agent.placement.world import Unit
from agent.wire import handover as w
from tests.master import handover_rig
from tests.master.handover_rig import UNIT, Disk, Things, owners

world = handover_rig.world


def test_late_items_go_after_it_until_nothing_new_came_for_a_minute(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.a.things.comes_late(UNIT, b"x")
    world.a.things.comes_late(UNIT, b"y")
    world.settle()
    assert world.b.things.forwarded_items == [(UNIT, b"x"), (UNIT, b"y")]
    assert world.a.plane.counters["moves_late_items"] == 2
    world.settle(50.0)
    world.b.kill()
    world.a.things.comes_late(UNIT, b"z")
    world.settle(20.0)
    assert "end" not in world.a.things.calls
    world.b.start()
    world.settle(1.0)
    assert world.b.things.forwarded_items == [(UNIT, b"z")]
    world.settle(58.0)
    assert "end" not in world.a.things.calls
    world.settle(2.0)
    assert world.a.things.calls.count("end") == 1
    assert world.a.plane.where(UNIT) == "b"


def test_late_items_of_a_master_that_was_away_reach_a_unit_that_moved_on(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.a.kill()
    world.b.plane.begin(UNIT, "c", "plan")
    world.settle(70.0)
    assert world.b.things.calls.count("end") == 1
    world.a.start()
    world.c.kill()
    world.a.things.comes_late(UNIT, b"x")
    world.a.things.comes_late(UNIT, b"y")
    world.settle(3.0)
    # Nobody has it, so nobody says so; and whoever is restarted, it is sent again.
    assert [each[1] for each in world.a.things.late_items[UNIT]] == [b"x", b"y"]
    world.b.kill()
    world.b.start()
    world.b.things.late_items.clear()
    world.c.start()
    world.settle(3.0)
    assert world.c.things.forwarded_items == [(UNIT, b"x"), (UNIT, b"y")]
    assert not world.b.things.forwarded_items
    assert not world.a.things.late_items[UNIT]


def test_late_items_of_a_unit_that_was_removed_are_dropped(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    del world.b.things.here[UNIT]
    world.b.things.final.clear()
    world.a.things.comes_late(UNIT, b"x")
    world.settle()
    assert not world.a.things.late_items[UNIT]
    assert not world.b.things.forwarded_items
    assert not world.b.said


def test_late_items_of_a_unit_whose_master_lost_its_disk_are_told(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.b.kill()
    world.b.disk = Disk()
    world.b.start()
    for each in (b"x", b"y"):
        world.a.things.comes_late(UNIT, each)
        world.settle(5.0)
    assert not world.a.things.late_items[UNIT]
    [line] = world.b.said
    assert line.startswith(
        "late items from a: it gave processor comfort to this master, which has no record of that"
    )
    # Perhaps `a` is its standby, and has it in a moment.
    assert "unless its standby takes it over, remove it at a" in line
    for number in range(2 * MAX_UNKNOWN):
        world.b.plane._late.arrived(Unit(UNIT.kind, f"t{number}"), "a", w.MoveLate(number, b"x"))
    assert len(world.b.said) == 2


def test_late_items_are_waited_for_while_the_disk_refuses(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.a.disk.refusing = True
    world.settle(70.0)
    world.a.disk.refusing = False
    world.settle(30.0)
    assert "end" not in world.a.things.calls
    world.a.things.comes_late(UNIT, b"x")
    world.settle()
    assert world.b.things.forwarded_items == [(UNIT, b"x")]


def test_late_items_are_waited_for_until_the_release_is_on_disk(world):
    """Otherwise a kill would have the unit back where publishers no longer know it to be."""

    def hang(_source, _target, message):
        final = isinstance(message, w.MoveState) and "pause" in world.a.things.calls
        world.a.disk.slow |= final

    world.on_message = hang
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(100.0)
    assert world.a.disk.waiting
    assert UNIT in world.a.things.late_items
    assert "end" not in world.a.things.calls
    world.on_message = lambda *_: None
    world.a.disk.slow = False
    world.a.disk.done()
    world.settle(61.0)
    assert world.a.things.calls.count("end") == 1


def test_late_items_that_cannot_be_read_are_dropped_with_a_line(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.a.things.comes_late(UNIT, b"damaged")
    world.a.things.comes_late(UNIT, b"y")
    world.settle(5.0)
    assert world.b.things.forwarded_items == [(UNIT, b"damaged"), (UNIT, b"y")]
    line = "late items from a: those of processor comfort are unreadable and dropped\n"
    assert world.b.said == [line]


def test_a_flood_of_late_items_that_cannot_be_read_is_a_line_a_second(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    for number in range(100):
        world.b.plane._late.arrived(UNIT, "a", w.MoveLate(number, b"damaged"))
    world.settle(5.0)
    assert len(world.b.said) == 1


def test_what_a_later_version_released_is_passed_over(world, monkeypatch):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.a.kill()
    monkeypatch.setattr(Things, "knows", False)
    world.a.start()
    world.settle(100.0)
    assert "end" not in world.a.things.calls


def test_late_items_are_forwarded_after_a_restart(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle()
    world.a.kill()
    world.a.start()
    assert world.a.plane.where(UNIT) == "b"
    world.a.things.comes_late(UNIT, b"x")
    world.settle()
    assert world.b.things.forwarded_items == [(UNIT, b"x")]


def test_what_is_late_goes_on_although_a_unit_that_returns_is_taken_back(world):
    world.a.plane.begin(UNIT, "b", "plan")
    world.settle(1.0)

    def killed_when_it_has_taken(source, target, message):
        if isinstance(message, w.MoveState) and message.epoch and target == "a":
            world.a.disk.done()
            assert world.a.disk.records[UNIT].standing == "taken"
            world.a.kill()
            world.sent.clear()

    world.on_message = killed_when_it_has_taken
    world.b.plane.begin(UNIT, "a", "plan")
    world.settle(30.0)
    assert owners(world) == ["b"]
    world.a.start()
    world.a.things.comes_late(UNIT, b"x")
    world.settle(2.0)
    assert owners(world) == ["b"]
    assert world.b.things.forwarded_items == [(UNIT, b"x")]
