"""The baseline by hand: floods, trees, ways of subscriptions, notifications."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any

import pytest

from agent.overlay.events import (
    Advertise,
    Deliver,
    LinkDown,
    LinkUp,
    Publish,
    Received,
    Send,
    Settled,
    Subscribe,
    Tick,
    Unadvertise,
    Undeliverable,
    Unsubscribe,
)
from agent.overlay.matcher import Matcher
from agent.overlay.scot import BrokerId, Scot, ScotError
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Filter, Predicate
from lab.overlay.tid import Matching, TidBroker, TidNotification, TidSubscription

# Two vertices times two clusters: a ring of four.
RING = Scot([("a", "b")], clusters=2)
A0, A1, B0, B1 = (BrokerId("a", 0), BrokerId("a", 1), BrokerId("b", 0), BrokerId("b", 1))


def between(low: float, high: float) -> Filter:
    return ((Predicate("x", ">=", (low,)), Predicate("x", "<=", (high,))),)


def event(x: float, sequence: int = 1) -> Notification:
    return Notification(Origin("p", "h", sequence), 0, {"x": x})


class Net:
    """Brokers and one queue of messages for all: first sent, first handled."""

    def __init__(self, scot: Scot, matching: Matching = "ends") -> None:
        self.brokers = {at: TidBroker(at, scot, matching=matching) for at in scot.brokers()}
        self.sent: list[tuple[BrokerId, BrokerId, Any]] = []
        self.told: list[tuple[BrokerId, Any]] = []

    def happen(self, at: BrokerId, what: Any) -> None:
        pending: deque[tuple[BrokerId, Any]] = deque([(at, what)])
        while pending:
            where, happening = pending.popleft()
            for instruction in self.brokers[where].handle(happening, 0.0):
                if isinstance(instruction, Send):
                    self.sent.append((where, instruction.neighbour, instruction.message))
                    received = Received(where, instruction.message)
                    pending.append((instruction.neighbour, received))
                else:
                    self.told.append((where, instruction))

    def counts(self) -> Counter[str]:
        """Messages by their class, since the last call."""
        counted = Counter(type(message).__name__ for _, _, message in self.sent)
        self.sent.clear()
        return counted

    def delivered(self) -> list[tuple[BrokerId, tuple[str, ...], float]]:
        """What subscribers got since the last call."""
        found = [
            (at, told.subscriptions, told.notification.attributes["x"])
            for at, told in self.told
            if isinstance(told, Deliver)
        ]
        self.told.clear()
        return found

    def entries(self) -> tuple[dict[BrokerId, int], dict[BrokerId, int]]:
        """Those of the SRTs and of the PRTs that are not empty."""
        srt = {at: broker.srt_entries for at, broker in self.brokers.items() if broker.srt_entries}
        prt = {at: broker.prt_entries for at, broker in self.brokers.items() if broker.prt_entries}
        return srt, prt


@pytest.mark.parametrize(
    ("scot", "messages"),
    [
        (RING, 5),  # 2 · 4 − 4 + 1
        (Scot([], 1, ["a"]), 0),
        (Scot([("a", "b"), ("b", "c")], 1), 2),
        (Scot([], 4, ["a"]), 9),
    ],
)
def test_a_flood_crosses_links_outside_its_tree_twice(scot: Scot, messages: int) -> None:
    net = Net(scot)
    root = next(scot.brokers())
    net.happen(root, Advertise("ad", between(0, 9)))
    assert messages == 2 * scot.size - scot.order + 1
    assert sum(net.counts().values()) == messages
    duplicates = sum(broker.counters["duplicates"] for broker in net.brokers.values())
    assert duplicates == messages - (scot.order - 1)
    assert net.entries() == (dict.fromkeys(scot.brokers(), 1), {})
    net.happen(root, Unadvertise("ad"))
    assert net.counts() == Counter(TidUnadvertisement=messages)
    assert net.entries() == ({}, {})


def test_the_flood_of_the_paper_s_overlay() -> None:
    # 14 vertices, 4 of them inner ones, times 5 clusters.
    inner = [("F", "G"), ("G", "H"), ("H", "I")]
    edges = [(each, "FGHI"[index % 4]) for index, each in enumerate("ABCDEJKLMN")]
    net = Net(Scot([*inner, *edges], clusters=5))
    net.happen(BrokerId("A", 0), Advertise("ad", between(0, 9)))
    assert net.counts() == Counter(TidAdvertisement=341)


def test_a_subscription_goes_in_reverse_along_the_tree_and_its_notifications_come_along_it() -> (
    None
):
    net = Net(RING)
    net.happen(A0, Advertise("ad", between(0, 9)))
    net.counts()
    # First come, first served: b0 and a1 hang at a0, and b1 at b0.
    net.happen(B1, Subscribe("s", between(3, 12)))
    assert [(a, b, type(m)) for a, b, m in net.sent] == [
        (B1, B0, TidSubscription),
        (B0, A0, TidSubscription),
    ]
    assert net.entries()[1] == {A0: 1, B0: 1, B1: 1}
    net.counts()
    net.happen(A0, Publish(event(5)))
    assert [(a, b, type(m)) for a, b, m in net.sent] == [
        (A0, B0, TidNotification),
        (B0, B1, TidNotification),
    ]
    assert net.told[0] == (A0, Settled(Origin("p", "h", 1)))
    assert net.delivered() == [(B1, ("s",), 5)]
    net.counts()
    # Announced, but nobody wants it.
    net.happen(A0, Publish(event(1)))
    assert not net.sent
    assert net.delivered() == []


def test_a_subscription_waits_for_its_advertisement_at_its_subscriber() -> None:
    net = Net(RING)
    net.happen(B1, Subscribe("s", between(3, 12)))
    net.happen(B1, Subscribe("other", between(20, 30)))
    assert not net.sent
    assert net.entries()[1] == {B1: 2}
    net.happen(A0, Advertise("ad", between(0, 9)))
    assert net.counts() == Counter(TidAdvertisement=5, TidSubscription=2)
    net.happen(A0, Publish(event(9)))
    assert net.delivered() == [(B1, ("s",), 9)]


def test_what_is_not_announced_is_not_sent() -> None:
    net = Net(RING)
    net.happen(A0, Advertise("ad", between(0, 9)))
    net.happen(A0, Subscribe("s", between(0, 99)))
    net.happen(A0, Publish(event(10)))
    reason = "no advertisement here announces it"
    assert net.told == [(A0, Undeliverable(Origin("p", "h", 1), reason))]


def test_two_advertisements_that_announce_the_same_bring_it_once() -> None:
    net = Net(RING)
    net.happen(A0, Advertise("one", between(0, 9)))
    net.happen(A0, Advertise("two", between(5, 15)))
    net.happen(B1, Subscribe("s", between(7, 7)))
    net.happen(A0, Subscribe("here", between(7, 7)))
    net.happen(A0, Publish(event(7)))
    assert net.delivered() == [(A0, ("here",), 7), (B1, ("s",), 7)]
    net.happen(A0, Unadvertise("one"))
    net.happen(A0, Publish(event(7)))
    assert net.delivered() == [(A0, ("here",), 7), (B1, ("s",), 7)]


def test_trees_over_different_last_hops_are_different_entries() -> None:
    # b1 gets the tree of a0 from b0, and that of a1 from a1.
    net = Net(RING)
    net.happen(A0, Advertise("ad", between(0, 9)))
    net.happen(A1, Advertise("ad", between(0, 9)))
    net.counts()
    net.happen(B1, Subscribe("s", between(0, 9)))
    assert [(a, b) for a, b, _ in net.sent] == [(B1, B0), (B1, A1), (B0, A0)]
    assert net.entries()[1] == {A0: 1, A1: 1, B0: 1, B1: 1}
    net.happen(A0, Unadvertise("ad"))
    assert net.entries()[1] == {A1: 1, B1: 1}
    net.counts()
    net.happen(B1, Unsubscribe("s"))
    assert net.counts() == Counter(TidUnsubscription=1)
    assert net.entries()[1] == {}


def two_subscribers(matching: Matching) -> Net:
    # A path whose middle is not an end; the far subscriber wants less.
    net = Net(Scot([("a", "b"), ("b", "c"), ("b", "d")], clusters=1), matching)
    net.happen(A0, Advertise("ad", between(0, 9)))
    net.happen(BrokerId("c", 0), Subscribe("all", between(0, 9)))
    net.happen(BrokerId("d", 0), Subscribe("five", between(5, 5)))
    net.counts()
    return net


def test_matched_at_the_ends_a_notification_fills_its_tree() -> None:
    net = two_subscribers("ends")
    net.happen(A0, Publish(event(4)))
    assert net.counts() == Counter(TidNotification=3)
    assert net.delivered() == [(BrokerId("c", 0), ("all",), 4)]
    counted = {at.vertex: broker.counters["matchings"] for at, broker in net.brokers.items()}
    assert counted == {"a": 1, "b": 0, "c": 1, "d": 1}


def test_matched_everywhere_it_goes_where_it_is_wanted() -> None:
    net = two_subscribers("everywhere")
    net.happen(A0, Publish(event(4)))
    assert net.counts() == Counter(TidNotification=2)
    assert net.delivered() == [(BrokerId("c", 0), ("all",), 4)]
    counted = {at.vertex: broker.counters["matchings"] for at, broker in net.brokers.items()}
    assert counted == {"a": 1, "b": 1, "c": 1, "d": 0}


def test_a_change_takes_the_place_of_what_was_there() -> None:
    net = Net(RING)
    net.happen(A0, Advertise("ad", between(0, 9)))
    net.happen(B1, Subscribe("s", between(0, 3)))
    net.counts()
    net.happen(A0, Advertise("ad", between(0, 9)))
    net.happen(B1, Subscribe("s", between(0, 3)))
    assert not net.sent  # nothing is new
    net.happen(B1, Subscribe("s", between(5, 6)))
    assert net.counts() == Counter(TidUnsubscription=2, TidSubscription=2)
    net.happen(A0, Advertise("ad", between(4, 9)))
    assert net.counts() == Counter(TidAdvertisement=5, TidUnadvertisement=5, TidSubscription=2)
    assert net.entries() == (dict.fromkeys(RING.brokers(), 1), {A0: 1, B0: 1, B1: 1})
    net.happen(A0, Publish(event(5)))
    assert net.delivered() == [(B1, ("s",), 5)]
    net.happen(A0, Unadvertise("ad"))
    net.happen(B1, Unsubscribe("s"))
    assert net.entries() == ({}, {})


def test_a_change_to_nonsense_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(RING)
    net.happen(A0, Advertise("ad", between(0, 9)))
    net.happen(B1, Subscribe("s", between(0, 3)))

    def refuse(*args: object) -> None:
        raise ValueError("it makes no sense")

    with monkeypatch.context() as patch:
        patch.setattr(Matcher, "put", refuse)
        for at, what in ((A0, Advertise("ad", ((),))), (B1, Subscribe("s", ((),)))):
            with pytest.raises(ValueError, match="no sense"):
                net.brokers[at].handle(what, 0.0)
    net.happen(A0, Publish(event(2)))
    assert net.delivered() == [(B1, ("s",), 2)]


def test_withdrawing_what_is_not_there_is_nothing() -> None:
    net = Net(RING)
    net.happen(A0, Unadvertise("ad"))
    net.happen(A0, Unsubscribe("s"))
    net.happen(A0, LinkUp(A1))
    net.happen(A0, Tick())
    assert (net.sent, net.told) == ([], [])
    assert net.brokers[A0].next_tick is None


def test_a_dead_link_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot go round"):
        TidBroker(A0, RING).handle(LinkDown(A1), 0.0)


def test_a_broker_is_one_of_the_overlay() -> None:
    with pytest.raises(ScotError):
        TidBroker(BrokerId("a", 2), RING)


def messages_of(instructions: Iterable[Any]) -> list[tuple[BrokerId, str]]:
    return [(each.neighbour, type(each.message).__name__) for each in instructions]


def test_a_late_copy_of_a_withdrawn_advertisement_is_thrown_away() -> None:
    root, other = TidBroker(A0, RING), TidBroker(B0, RING)
    (flooded, _) = root.handle(Advertise("ad", between(0, 9)), 0.0)
    (withdrawn, _) = root.handle(Unadvertise("ad"), 0.0)
    other.handle(Received(A0, flooded.message), 0.0)
    other.handle(Received(A0, withdrawn.message), 0.0)
    assert other.handle(Received(B1, flooded.message), 0.0) == []
    assert other.handle(Received(B1, withdrawn.message), 0.0) == []
    assert (other.srt_entries, other.counters["duplicates"]) == (0, 2)


def test_withdrawn_trees_are_remembered_up_to_a_number() -> None:
    root, other = TidBroker(A0, RING), TidBroker(B0, RING, max_withdrawn=2)
    copies = []
    for _ in range(3):
        for what in (Advertise("ad", between(0, 9)), Unadvertise("ad")):
            (sent, _) = root.handle(what, 0.0)
            other.handle(Received(A0, sent.message), 0.0)
            copies.append(sent.message)
    assert other.handle(Received(B1, copies[2]), 0.0) == []
    assert messages_of(other.handle(Received(B1, copies[0]), 0.0)) == [(A0, "TidAdvertisement")]


def test_a_subscription_to_a_tree_that_has_gone_ends_there() -> None:
    root, middle = TidBroker(A0, RING), TidBroker(B0, RING)
    subscriber = TidBroker(B1, RING)
    (flooded, _) = root.handle(Advertise("ad", between(0, 9)), 0.0)
    (withdrawn, _) = root.handle(Unadvertise("ad"), 0.0)
    middle.handle(Received(A0, flooded.message), 0.0)
    subscriber.handle(Received(B0, flooded.message), 0.0)
    (subscribed,) = subscriber.handle(Subscribe("s", between(0, 9)), 0.0)
    assert subscribed.neighbour == B0
    middle.handle(Received(A0, withdrawn.message), 0.0)
    assert middle.handle(Received(B1, subscribed.message), 0.0) == []
    assert middle.prt_entries == 0
