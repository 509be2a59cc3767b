"""A client's subscription on its way: what its client, time and the disk may do to it meanwhile."""

from __future__ import annotations

import msgspec
import pytest

from agent.alerts.inbox_events import ContentArrived, InboxesDue, UnsubscribeArrived
from agent.alerts.inbox_handover import MAX_REACHED, InboxCopy
from agent.master.moves.movable import UNREADABLE
from agent.master.moves.subscriber_homes import UNREACHED_MS, SubscriberCopy
from agent.wire import handover as w
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Predicate
from agent.wire.push import GivenMaster, ShortForm, Subscribe, Subscribed, Unsubscribe
from tests.alerts.samples import OTHER_FILTER, notification
from tests.master.moves.test_subscriber_homes_model import NAME, UNIT, World

INBOX = InboxCopy(OTHER_FILTER, 0, 0)
EIGHT_DAYS_S = 8 * 86_400.0


@pytest.fixture
def world():
    world = World(1)
    while not world.client.begun:
        world.deliver()
        world.pass_time(0.1)
    return world


HERE, THERE = GivenMaster("at a", 1.0), GivenMaster("at b", 6.0)


def ask(world, *masters, iad="a", wanted=OTHER_FILTER, **more):
    """The client subscribes with these masters."""
    master = world.masters[iad]
    master.hears("p", Subscribe("log", wanted, durable=True, masters=masters, **more))


def choices(world, iad="a"):
    return list(world.masters[iad].homes.choices())


def test_where_a_client_may_go_is_what_it_names_by_the_addresses_of_other_masters(world):
    assert choices(world) == []  # It named nothing yet.
    ask(world, HERE, GivenMaster("tcp://elsewhere"))
    assert choices(world) == []
    # Its own address may be another one than masters know.
    ask(world, GivenMaster("tcp://localhost:1", 1.0), GivenMaster("nowhere"), THERE)
    (choice,) = choices(world)
    assert choice == (UNIT.name, {"a": 0.5, "b": 3.0}, {}, [])
    ask(world, HERE, GivenMaster("at b"))
    (choice,) = choices(world)
    assert choice.ways_ms == {"a": 0.5, "b": UNREACHED_MS}
    # Both for a client that does not name them any more, and for one of an earlier version.
    ask(world)
    assert choices(world) == []


def test_what_it_is_given_is_counted_and_what_it_names_is_heard(world):
    a = world.masters["a"]
    ask(world, HERE, THERE, wanted=(*OTHER_FILTER, (Predicate("topic", "in", ("t2", "t1")),)))
    (name,) = a.push.names
    for sequence in (1, 2):
        content = notification(sequence, publisher="b")
        a.push.take(a.push.inboxes.handle(ContentArrived((name,), content), 0.0))
    (choice,) = choices(world)
    assert (choice.counts, choice.hears) == ({"b": 2}, ["t1", "t2"])
    topic = {"topic": "clone.0123456789abcdef", "kind": "output"}
    ask(world, GivenMaster("at a"), THERE)
    (choice,) = choices(world)
    assert choice == (UNIT.name, {"a": None, "b": 3.0}, {}, [])  # It has no price.
    content = Notification(Origin("a", "h", 1), 0, topic)
    a.push.take(a.push.inboxes.handle(ContentArrived((name,), content), 0.0))
    assert choices(world) == []  # Elsewhere it would hear that no more.


def test_a_choice_is_that_of_the_master_where_it_lives_and_where_its_client_has_come(world):
    ask(world, HERE, THERE)
    world.move()
    pass_on(world, w.MoveTook)
    assert [each.name for each in choices(world)] == [UNIT.name]
    assert choices(world, "b") == []
    world.heal()
    assert choices(world) == choices(world, "b") == []
    ask(world, THERE, HERE, iad="b")
    (choice,) = choices(world, "b")
    assert choice.ways_ms == {"b": 3.0, "a": 0.5}


def test_one_whose_move_comes_to_nothing_is_as_its_client_asked(world):
    a = world.masters["a"]
    ask(world, HERE, THERE, short=ShortForm(1, ("iad",)))
    asked = a.push.inboxes.again("carla", "log")
    assert asked.masters == (HERE, THERE)
    world.move()
    pass_on(world, w.MoveTook)
    world.between.clear()
    a.homes.resume(NAME)
    assert a.push.inboxes.again("carla", "log") == asked
    assert choices(world)


def pass_on(world, kind):
    """All between the masters, up to the first message of this kind, which is not delivered."""
    while True:
        world.settle_writes()
        _, _, frame = world.between[0]
        if isinstance(world.decoder.decode(frame)[0].message, kind):
            return
        world.pass_between()


def test_what_is_on_its_way_is_not_unsubscribed_until_it_has_moved_or_stays(world):
    a = world.masters["a"]
    world.move()
    pass_on(world, w.MoveState)
    world.to_client.clear()
    assert a.push.subscribers.sift("p", "carla", Unsubscribe("log")) is None
    line = "subscription 'log' is on its way between masters; try again in a moment"
    assert list(world.to_client) == [("a", "p", Subscribed("log", "refused", message=line))]
    assert a.push.subscribers.sift("p", "carla", Unsubscribe("other")) == Unsubscribe("other")
    world.between.clear()  # both give it up in the end
    world.pass_time(40.0)
    assert not a.plane.moving(UNIT)
    assert a.push.subscribers.sift("p", "carla", Unsubscribe("log")) == Unsubscribe("log")


def test_one_that_is_ended_before_it_was_copied_is_not_moved(world):
    a = world.masters["a"]
    world.move()
    pass_on(world, w.MoveGrant)
    a.push.take(a.push.inboxes.handle(UnsubscribeArrived("p", "carla", Unsubscribe("log")), 0.0))
    world.pass_between()
    assert [each.trouble for each in a.plane.moves] == ["it does not live here any more"]


def test_late_items_that_name_a_loss_too_many_cannot_be_read(world):
    said = []
    damaged = msgspec.msgpack.encode([[None], []])
    world.masters["a"].homes.forwarded(NAME, damaged, said.append)
    assert said == [UNREADABLE]


def test_a_copy_with_contents_is_not_loaded(world):
    said = []
    inbox = InboxCopy(OTHER_FILTER, 0, 1, (("a", "h"),), (0,), (1,), (), (notification(1),))
    copy = msgspec.msgpack.encode(SubscriberCopy("a", inbox))
    world.masters["b"].homes.load(NAME, copy, said.append)
    assert said == ["its copy has what only its final state has"]


def test_a_subscription_that_has_counted_further_than_any_does_is_not_taken(world):
    said, homes = [], world.masters["b"].homes
    inbox = InboxCopy(OTHER_FILTER, 0, MAX_REACHED + 1)
    copy = msgspec.msgpack.encode(SubscriberCopy("a", inbox))
    homes.load(NAME, copy, said.append)
    assert "which nothing does" in said[0]
    homes.load(NAME, msgspec.msgpack.encode(SubscriberCopy("a", INBOX)), said.append)
    assert "which nothing does" in homes.accept(NAME, copy)


def test_one_whose_inbox_was_lost_is_owned_nevertheless(world):
    a = world.masters["a"]
    world.move()
    world.heal()
    world.move()
    pass_on(world, w.MoveSettled)
    a.push.take(a.push.inboxes.end("carla", "log"))
    world.pass_between()
    world.pass_time(5.0)
    assert not a.plane.moving(UNIT)


def test_one_on_its_way_does_not_expire(world):
    a, b = world.masters["a"], world.masters["b"]
    world.move()
    pass_on(world, w.MoveReady)
    for master in (a, b):
        later = world.now + EIGHT_DAYS_S
        master.push.take(master.push.inboxes.handle(InboxesDue(), later))
        later += EIGHT_DAYS_S
        master.push.take(master.push.inboxes.handle(InboxesDue(), later))
    assert a.homes.lives(NAME)
    pass_on(world, w.MoveTook)
    for master in (a, b):
        master.push.take(master.push.inboxes.handle(InboxesDue(), later + EIGHT_DAYS_S))
        assert master.push.inboxes.has("carla", "log")
    world.heal()
    world.check()
    assert b.homes.lives(NAME)
