"""Alerts through real masters: from a node's event to subscribers, whoever is killed."""

from __future__ import annotations

import itertools
import signal

import pytest

from agent.wire.base import TRIGGER_CLEARED
from agent.wire.overlay import Notification, Origin
from fleet.testbed.ports import free_address
from tests.master.push_rig import PLACES, Node, PushMaster, Subscriber, overlay_text

HOT = 'metric = "temperature" and value > 30'
SHORT_MS = 50  # between two attempts


@pytest.fixture
def alone(tmp_path):
    made = PushMaster(tmp_path, "iad1")
    yield made
    made.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def masters(tmp_path_factory):
    """A path of two times a complete graph of two."""
    folder = tmp_path_factory.mktemp("four")
    addresses = {iad: free_address() for iad in PLACES}
    made = {
        iad: PushMaster(folder / iad, iad, address, overlay_text(iad, addresses, PLACES))
        for iad, address in addresses.items()
    }
    yield made
    for master in made.values():
        master.stop(signal.SIGKILL)


@pytest.fixture
def four(masters):
    """They, with all links up and nothing that is wanted or waits."""
    for master in masters.values():
        master.wait_until(
            lambda c: c["overlay_links_up"] == 2 and not c["overlay_subscriptions"] + c["spool"]
        )
    wanted_in(masters, 0)
    return masters


def wanted_in(four, clusters):
    """Until iad1 knows that what it announces is wanted in so many other clusters."""
    four["iad1"].wait_until(lambda counters: counters["overlay_targets"] == clusters)


def settled(master):
    """Its counters, once nothing that it published is under way."""
    return master.wait_until(lambda counters: counters["spool"] == 0)


def test_an_alert_is_told_once_and_says_nothing_of_the_node(alone, context):
    node, subscriber = Node(context, alone), Subscriber(context, alone, HOT)
    assert subscriber.opened.state == "open"
    node.tell(7)
    assert subscriber.notified().notification == Notification(
        Origin("iad1", node.told_history, 7 * 16),
        1_007,
        {
            "iad": "iad1",
            "kind": "raised",
            "trigger": "hot",
            "metric": "temperature",
            "value": 31.5,
            "area": "b1/f4/r1",
        },
    )
    node.await_taken(7)
    node.tell(7, 8, value=29.5)
    node.tell(9, kind=TRIGGER_CLEARED, value=30.5, areas=("b1/f4/r1", "b1/f4/r2"))
    node.await_taken(7, 8)
    node.await_taken(9)
    areas = [subscriber.notified().notification.attributes["area"] for _ in range(2)]
    assert areas == ["b1/f4/r1", "b1/f4/r2"]
    counters = settled(alone)
    assert counters["spooled_settled"] == 4
    node.tell(10)
    subscriber.last(node, 10)


def test_an_alert_that_nobody_wants_is_settled(alone, context):
    Node(context, alone).tell(1)
    alone.wait_until(lambda counters: counters["spooled_settled"] == 1)


def test_a_filter_that_makes_no_sense_is_refused(alone, context):
    opened = Subscriber(context, alone, "value >").opened
    assert opened.state == "refused"
    assert "value >" in opened.message or "expected" in opened.message


def test_an_alert_crosses_the_overlay_once(four, context):
    subscribers = {iad: Subscriber(context, master, HOT) for iad, master in four.items()}
    others = Subscriber(context, four["iad4"], 'iad = "iad2"', name="others")
    wanted_in(four, 1)
    for iad, count in (("iad1", 2), ("iad3", 3)):
        four[iad].wait_until(lambda counters, n=count: counters["overlay_subscriptions"] == n)
    node = Node(context, four["iad1"])
    node.tell(1)
    for subscriber in subscribers.values():
        assert subscriber.notified().notification.origin == Origin("iad1", node.told_history, 16)
    node.tell(2)
    for subscriber in subscribers.values():
        assert subscriber.notified().notification.origin.sequence == 32
    settled(four["iad1"])
    node.tell(3)
    for subscriber in subscribers.values():
        subscriber.last(node, 3)
        subscriber.end()
    # Who wants those of iad2 alone hears of none until there is one.
    wanted = Node(context, four["iad2"])
    sequences = itertools.count(1)
    while not others.socket.poll(SHORT_MS):
        wanted.tell(next(sequences))
    assert others.notified().notification.attributes["iad"] == "iad2"
    others.end()
    for iad in ("iad1", "iad2"):
        settled(four[iad])


def test_a_durable_subscription_gets_what_came_while_its_master_was_killed(four, context):
    home, publisher = four["iad4"], Node(context, four["iad1"])
    first = Subscriber(context, home, HOT, durable=True)
    wanted_in(four, 1)
    publisher.tell(1)
    assert first.notified().position == 1
    home.stop(signal.SIGKILL)
    publisher.tell(2)
    publisher.await_taken(1)
    publisher.await_taken(2)
    # Word of the first may not have come either.
    assert four["iad1"].status().counters["spool"] in (1, 2)
    home.start()
    again = Subscriber(context, home, HOT, durable=True, after=1)
    assert again.opened.state == "open"
    found = again.notified()
    assert (found.position, found.notification.origin.sequence) == (2, 32)
    settled(four["iad1"])
    publisher.tell(3)
    assert again.notified().position == 3
    settled(four["iad1"])
    publisher.tell(4)
    again.last(publisher, 4)
    again.end()


def test_what_is_spooled_survives_the_publishers_master(four, context):
    home, source = four["iad4"], four["iad1"]
    Subscriber(context, home, HOT, durable=True)
    wanted_in(four, 1)
    home.stop(signal.SIGKILL)
    node = Node(context, source)
    node.tell(1)
    node.await_taken(1)
    source.stop(signal.SIGKILL)
    source.start()
    assert source.status().counters["spool"] == 1
    home.start()
    again = Subscriber(context, home, HOT, durable=True, after=0)
    assert again.notified().notification.origin == Origin("iad1", node.told_history, 16)
    settled(source)
    later = Node(context, source)
    later.tell(1)
    again.last(later, 1)
    again.end()


def test_an_alert_goes_round_a_master_that_is_gone(four, context):
    source, home = four["iad1"], four["iad4"]
    subscriber = Subscriber(context, home, HOT)
    wanted_in(four, 1)
    node = Node(context, source)
    node.tell(1)
    assert subscriber.notified().position == 1
    # The only one of the subscriber's cluster with a link to the publisher's master.
    four["iad3"].stop(signal.SIGKILL)
    node.tell(2)
    assert subscriber.notified().notification.origin.sequence == 32
    four["iad3"].start()
    source.wait_for_links()
    node.tell(3)
    assert subscriber.notified().notification.origin.sequence == 48
    settled(source)
    node.tell(4)
    subscriber.last(node, 4)
    subscriber.end()
    assert source.status().counters["overlay_relayed"] > 0
