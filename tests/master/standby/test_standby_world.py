"""Random lives of a topic with a standby: nothing that it puts out is doubled or lost, and in the
end it works at one master."""

import msgspec
import pytest
from msgspec.structs import replace

from agent.alerts.inbox_handover import MAX_REACHED, InboxCopy
from agent.placement.world import Unit
from agent.topics.contents import inputs_of
from agent.topics.events import Progress
from agent.topics.shadow import Checkpoint, Named
from agent.wire.base import MAX_COUNTED
from agent.wire.handover import StandbyAsk, StandbyRefuse, StandbyUpdate
from agent.wire.topics import Topic
from tests.examples import share
from tests.master.standby_world import MEMORY, UNIT, Broken, Master, World, campaign


def names(seed):
    return ("a", "b", "c") if seed % 3 else ("a", "b", "c", "d", "e")


def test_nothing_is_doubled_or_lost():
    assert sum(campaign(seed, names(seed)) for seed in range(24)) > 3


@pytest.mark.long
def test_nothing_is_doubled_or_lost_in_many_lives():
    count = share(1_000)
    assert sum(campaign(seed, names(seed)) for seed in range(1_000, 1_000 + count)) > count // 5


@pytest.fixture
def world():
    world = World(1, losses=0.0)
    world.run(5.0)
    (guard,) = world.masters["a"].guards._guards.values()
    assert world.masters["a"].guards.told(guard.unit) == guard.other
    return world, world.masters[guard.other]


def test_a_dead_masters_topic_lives_elsewhere_within_a_lease_and_two_seconds(world):
    world, standby = world
    died_s = world.now
    world.crash("a")
    while not standby.works:
        world.step()
        assert world.now <= died_s + 5.0
    world.run(1.0)
    assert {each.origin.publisher for each in world.out.values()} == {"a", standby.name}
    world.check_end()


def test_a_standby_whose_inbox_went_with_a_move_is_asked_anew(world):
    world, standby = world
    standby.has_no_inbox = True
    world.run(10.0)
    assert not standby.has_no_inbox
    (guard,) = world.masters["a"].guards._guards.values()
    assert world.masters["a"].guards.told(guard.unit) == guard.other
    world.crash("a")
    world.run(10.0)
    world.check_end()


def test_a_standby_without_an_inbox_takes_nothing_over(world):
    """A move to there has made it the topic's own. Before, the master ended (KeyError)."""
    world, standby = world
    standby.has_no_inbox = True
    world.crash("a")
    for _ in range(200):
        world.step()
        assert not standby.works
    assert not len(standby.standbys)


def test_what_is_made_waits_for_a_dead_standby_until_a_majority_has_said_so(world):
    world, standby = world
    world.crash(standby.name)
    world.run(1.0)
    before = len(world.out)
    world.run(1.0)
    assert len(world.out) == before
    world.run(4.0)
    assert len(world.out) > before
    world.check_end()


def test_a_master_that_is_cut_off_puts_nothing_out(world):
    world, standby = world
    world.isolate("a")
    world.run(0.5)
    mine = [each for each in world.out.values() if each.origin.publisher == "a"]
    world.run(8.0)
    assert [each for each in world.out.values() if each.origin.publisher == "a"] == mine
    assert standby.works
    world.check_end()
    assert world.masters["a"].where(next(iter(standby.disk.records))) == standby.name


def test_a_topic_is_taken_over_when_its_outputs_have_room(world):
    world, standby = world
    standby.has_room = lambda _: False
    world.crash("a")
    world.run(8.0)
    assert not standby.works
    del standby.has_room
    world.run(1.0)
    assert standby.works
    world.check_end()


@pytest.mark.parametrize("others", [False, True])
def test_what_a_master_had_that_lost_its_disk_is_taken_over_though_it_is_back_at_once(
    world, others
):
    """It asks for its lease again, if it stands by for others; nobody called it dead then."""
    world, standby = world
    world.masters["a"].has_others = others
    world.lose_disk("a")
    world.run(10.0)
    assert standby.works
    world.run(10.0)
    assert (world.masters["a"].leases.held() is not None) == others
    world.check_end()


def test_without_a_majority_nothing_is_taken_over(world):
    world, standby = world
    for name in world.names:
        if name != standby.name:
            world.crash(name)
    world.run(20.0)
    assert not standby.works
    world.check_end()


def others(world, *known):
    return next(name for name in world.names if name not in ("a", *known))


@pytest.mark.parametrize("seed", range(4))
def test_an_owner_does_not_take_a_standby_for_gone_that_took_the_unit_over_and_died(seed):
    world = World(seed, losses=0.0)
    world.run(5.0)
    world.isolate("a")
    world.run(8.0)
    (name,) = [each for each in world.works() if each != "a"]
    # It is judged by the owner and the third, who do not know what it did; the owner may hear of
    # its own end later than of the standby's.
    world.crash(name)
    world.cut = set()
    world.losses = 0.6
    world.run(8.0)
    world.check_end()


@pytest.mark.parametrize("seed", range(4))
def test_a_standby_without_which_the_owner_went_on_takes_nothing_over(seed):
    world = World(seed, losses=0.0)
    world.run(5.0)
    ((_, guard),) = world.masters["a"].guards._guards.items()
    name = guard.other
    world.isolate(name)
    before = len(world.out)
    world.run(8.0)
    assert len(world.out) > before  # without it
    third = others(world, name)
    world.crash("a")
    if seed % 2:
        # Nobody tells it for a while that its term is over, but that its owner is dead.
        world.cut = {(third, name)}
    else:
        world.cut = set()
    world.run(10.0)
    world.cut = set()
    world.run(10.0)
    assert not world.masters[name].works
    world.check_end()


@pytest.mark.parametrize("part", ["both", "withholds", "disown"])
def test_an_owner_that_returns_late_puts_nothing_out_that_its_subscriber_forgot(part, monkeypatch):
    """With a part left out it does."""
    if part == "withholds":
        monkeypatch.setattr(Master, "withholds", lambda *_: False)
    if part == "disown":
        monkeypatch.setattr(Master, "disown", lambda *_: None)
    world = World(1, losses=0.0)
    world.run(5.0)
    owner = world.masters["a"]
    # Its outputs have come, but it dies before it hears so.
    while not (late := [each.sequence for each in owner.disk.spool if each.sequence in world.came]):
        world.step()
    world.crash("a")
    while max(world.out) < max(late) + 2 * MEMORY:
        world.step()
    (standby,) = world.works()
    owner.start()
    world.cut = {("a", standby), (standby, "a")}
    if part == "withholds":
        with pytest.raises(Broken, match="second time"):
            world.run(3.0)
        return
    world.run(3.0)
    world.cut = set()
    if part == "disown":
        with pytest.raises(Broken, match="second time"):
            world.check_end()
        return
    world.check_end()
    assert not owner.disk.spool


def test_incomplete_checkpoints_have_a_budget_together(world, monkeypatch):
    standby = world[1].standbys
    each = standby._standbys[UNIT]
    part = StandbyUpdate(99, 1, 1, 99, 1, b"x" * 1_000, 0, 12)
    monkeypatch.setattr("agent.master.standby.standbys.MAX_GATHERED", 1_500)
    standby.heard(UNIT, each.machine.primary, part)
    assert each.gathered.size == 1_000
    standby.heard(UNIT, each.machine.primary, replace(part, part=1))
    assert (each.gathered.size, each.told) == (0, False)


def test_what_an_owner_has_kept_here_has_a_budget_and_its_largest_unit_goes_first(
    world, monkeypatch
):
    standby, told = world[1].standbys, []
    first = standby._standbys[UNIT]
    owner = first.machine.primary
    monkeypatch.setattr(world[1], "tell", lambda to, unit, message: told.append((unit, message)))

    def seed(name, size):
        unit, topic = Unit(UNIT.kind, name), Topic(name, standby=True)
        standby.heard(unit, owner, StandbyAsk(1, msgspec.msgpack.encode(Named(topic, "inc"))))
        inbox = InboxCopy(inputs_of(name), 0, 0)
        checkpoint = Checkpoint(topic, Progress("inc", state=b"x" * size), inbox, (), 0)
        body = msgspec.msgpack.encode(checkpoint)
        standby.heard(unit, owner, StandbyUpdate(1, 1, 1, 1, first.at, body))
        return unit

    monkeypatch.setattr(
        "agent.master.standby.standbys.MAX_HAD", 2 * (first.bytes + 4_000), raising=False
    )
    small, large, middle = seed("small", 100), seed("large", 2_500), seed("middle", 1_500)
    assert standby._standbys.keys() == {UNIT, small, middle}
    assert (large, StandbyRefuse("it stands by for too much already")) in told
    monkeypatch.setattr(
        "agent.master.standby.standbys.MAX_HAD",
        2 * sum(each.bytes for each in standby._standbys.values()),
    )
    seed("another", 10)
    assert standby._standbys.keys() == {UNIT, small, middle}, "not even its name"


@pytest.mark.parametrize("number", ["position", "put_out", "inbox"])
def test_a_standby_takes_no_checkpoint_that_has_counted_further_than_any_does(
    world, monkeypatch, number
):
    standby, told = world[1].standbys, []
    each = standby._standbys[UNIT]
    shadow = each.shadow
    monkeypatch.setattr(world[1], "tell", lambda to, unit, message: told.append(message))
    inbox = InboxCopy(inputs_of("t"), 0, 0)
    progress = Progress("inc", **{number: MAX_REACHED + 1})
    body = msgspec.msgpack.encode(Checkpoint(Topic("t", standby=True), progress, inbox, (), 0))
    standby.heard(UNIT, each.machine.primary, StandbyUpdate(99, 1, 1, 99, each.at, body))
    assert each.shadow is shadow
    assert "which nothing does" in told[-1].reason


def test_a_standby_takes_no_checkpoint_of_an_epoch_that_none_has_reached(world, monkeypatch):
    standby, told = world[1].standbys, []
    each = standby._standbys[UNIT]
    epoch = each.machine.epoch
    monkeypatch.setattr(world[1], "tell", lambda to, unit, message: told.append(message))
    inbox = InboxCopy(inputs_of("t"), 0, 0)
    checkpoint = Checkpoint(Topic("t", standby=True), Progress("inc"), inbox, (), 0)
    body = msgspec.msgpack.encode(checkpoint)
    update = StandbyUpdate(99, MAX_COUNTED, 1, 99, each.at, body)
    standby.heard(UNIT, each.machine.primary, update)
    assert each.machine.epoch == epoch
    assert "which none has reached" in told[-1].reason
