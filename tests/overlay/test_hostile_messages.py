"""Whatever a neighbour says, a broker goes on: what makes no sense is counted and left."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.alerts.limits import Limits as InboxLimits
from agent.overlay.broker import Broker
from agent.overlay.events import Advertise, LinkDown, LinkUp, Publish, Received, Send, Subscribe
from agent.overlay.scot import BrokerId as Place
from agent.overlay.scot import Scot
from agent.overlay.subscriptions import Subscriptions
from agent.wire import overlay as o
from agent.wire.predicates import Predicate
from tests.examples import examples

SCOT = Scot([("a", "b"), ("b", "c")], 3)
OWN = Place("b", 1)
NEIGHBOURS = [*SCOT.cluster_neighbours(OWN), *SCOT.region_neighbours(OWN)]

names = st.sampled_from(["a", "b", "c", "nowhere"])
own = st.just(("b", 1))
hops = own | st.tuples(names, st.sampled_from([0, 1, 2, 3, 1_023]))
counts = st.sampled_from([0, 1, 2, 3, 2**53 - 1])
values = st.sampled_from([True, 1.0, 31.5, "b1/f4", ""])
predicates = st.builds(
    Predicate,
    st.sampled_from(["value", "area"]),
    st.sampled_from(["=", "<", "under", "in", "present", "prefix"]),
    st.lists(values, max_size=2).map(tuple),
)
filters = st.lists(st.lists(predicates, max_size=2).map(tuple), min_size=1, max_size=2).map(tuple)
entries = st.lists(st.tuples(counts, filters), max_size=3).map(tuple)
clusters = st.binary(max_size=3)
origins = st.builds(o.Origin, names, st.just("h"), counts)
notifications = st.builds(
    o.Notification,
    origins,
    st.just(0),
    st.dictionaries(st.sampled_from(["value", "area"]), values),
)
stamps = st.tuples(counts, counts)
keys = st.lists(counts, max_size=3).map(tuple)
versions = st.builds(o.HomeVersion, names, counts, counts)
kept = st.builds(o.Kept, origins, clusters)
direct = st.one_of(
    st.builds(o.SubscriptionChange, names, counts, counts, counts, st.none() | filters),
    st.builds(o.SubscriptionPart, names, counts, counts, counts, counts, entries),
    st.builds(o.SubscriptionVersions, st.lists(versions, max_size=3).map(tuple), st.booleans()),
    st.builds(o.AdvertisementChange, counts, counts, counts, st.none() | filters),
    st.builds(o.AdvertisementPart, counts, counts, counts, counts, entries),
    st.builds(o.AdvertisementVersion, counts, counts),
    st.builds(o.CibSet, counts, counts, stamps),
    st.builds(o.CibClear, counts, counts, stamps),
    st.builds(o.CibState, counts, keys, keys, stamps),
    st.builds(o.Notify, notifications, clusters),
    st.builds(o.Have, st.lists(kept, max_size=3).map(tuple)),
)
paths = st.lists(hops, min_size=1, max_size=4).map(tuple)
messages = direct | st.one_of(
    st.builds(o.Relay, hops, paths, counts, direct),
    st.builds(o.NoWay, hops, paths, counts, st.sampled_from([-1, 0, 1, 5]), direct),
    st.builds(o.NoWay, own, paths, st.integers(0, 3), st.just(-1), direct),
)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NEIGHBOURS), messages), max_size=12),
    st.sets(st.sampled_from(NEIGHBOURS)),
)
def test_whatever_neighbours_say_a_broker_goes_on(said, down):
    broker = Broker(OWN, SCOT, epoch=2)
    wanted = ((Predicate("value", ">", (30.0,)),),)
    broker.handle(Subscribe("s", wanted), 0.0)
    broker.handle(Advertise("p", wanted), 0.0)
    for neighbour in NEIGHBOURS:
        broker.handle(LinkUp(neighbour), 0.0)
    for neighbour in sorted(down):
        broker.handle(LinkDown(neighbour), 0.0)
    for number, (neighbour, message) in enumerate(said):
        broker.handle(Received(neighbour, message), float(number))
    told = o.Notification(o.Origin("own", "h", 7), 0, {"value": 31.0})
    broker.handle(Publish(told), 20.0)


# --- what comes by others ------------------------------------------------------------------------

A, C, B0, B2 = Place("a", 1), Place("c", 1), Place("b", 0), Place("b", 2)
CHANGE = o.SubscriptionChange("a", 1, 1, 1, ((),))
ASKED = o.SubscriptionVersions((), True)


def joined(*up):
    broker = Broker(OWN, SCOT, epoch=2)
    for neighbour in up:
        broker.handle(LinkUp(neighbour), 0.0)
    return broker


def answers(broker, sender, message):
    out = broker.handle(Received(sender, message), 0.0)
    return [(each.neighbour, each.message) for each in out if isinstance(each, Send)]


def test_a_set_that_no_master_has_is_refused_at_its_first_part():
    broker = joined(A)
    for total in (InboxLimits().most_subscriptions, 2 * InboxLimits().most_subscriptions):
        part = o.SubscriptionPart("a", 1, total, 0, total, ((1, ((),)),))
        broker.handle(Received(A, part), 0.0)
        assert broker.counters["unusable"] == (total > InboxLimits().most_subscriptions)


@pytest.mark.parametrize("message", [CHANGE, ASKED])
@pytest.mark.parametrize("end", [("nowhere", 1), ("a", 9), ("b", 1), ("c", 1)])
def test_what_was_never_sent_does_not_come_back(end, message):
    broker = joined(A)
    back = o.NoWay(OWN, (A, ("a", 0), end), 0, -1, message)
    assert answers(broker, A, back) == []
    assert broker.counters["malformed"] == 1
    assert broker.counters["returned"] == 0


def test_what_was_sent_comes_back_as_often_as_it_was():
    broker = joined(A, B0)
    out = broker.handle(Subscribe("s", ((),)), 0.0)
    relay = next(e.message for e in out if isinstance(getattr(e, "message", None), o.Relay))
    first = relay.path[0]
    broken = o.NoWay(OWN, relay.path, 0, -1, relay.message)
    changed = o.NoWay(OWN, relay.path, 0, -1, ASKED)
    answers(broker, first, changed)
    assert broker.counters["returned"] == 0
    for _ in range(2):
        answers(broker, first, broken)
    assert broker.counters["returned"] == 1
    assert broker.counters["malformed"] == 2


@pytest.mark.parametrize(
    "path",
    [
        (OWN, A, OWN, A),
        (OWN, B0, Place("a", 0), A),  # its source again
        (OWN, *(Place("x", i) for i in range(100))),
    ],
)
def test_a_path_that_no_broker_sends_is_refused(path):
    broker = joined(A, B0)
    assert answers(broker, A, o.Relay(A, path, 0, CHANGE)) == []
    assert broker.counters["malformed"] == 1


def test_a_relay_comes_from_the_hop_before():
    broker = joined(A, B0)
    for source, path, step in [(B2, (OWN,), 0), (B2, (B0, OWN), 1), (B2, (B0, OWN, C), 1)]:
        assert answers(broker, A, o.Relay(source, path, step, ASKED)) == []
    assert broker.counters["malformed"] == 3
    back = o.NoWay(B2, (B0, OWN, C, Place("c", 0)), 2, 1, ASKED)
    assert answers(broker, A, back) == []
    assert broker.counters["malformed"] == 4
    assert answers(broker, C, back) == [(B0, o.NoWay(B2, back.path, 2, 0, ASKED))]
    assert answers(broker, B0, o.Relay(C, (Place("c", 0), B0, OWN), 2, ASKED))


def test_each_advertisement_is_looked_for_once_however_many_subscriptions_change(monkeypatch):
    looked = []

    def wants(_self, announced):
        looked.append(announced)
        return True  # as somebody else wants it, too

    monkeypatch.setattr(Subscriptions, "wants", wants)
    broker = joined(A, B0)
    for home in (A, C):
        broker.handle(Received(home, o.SubscriptionPart(home.vertex, 1, 0, 0, 0, ())), 0.0)
    everything = ((),)
    hosted = tuple((key, everything) for key in range(1, 101))
    broker.handle(Received(B0, o.AdvertisementPart(1, 100, 0, 100, hosted)), 0.0)
    many = tuple((key, everything) for key in range(1, 1_001))
    for part in (
        o.SubscriptionPart("a", 2, 1_000, 0, 1_000, many),
        o.SubscriptionPart("a", 3, 0, 0, 0, ()),
    ):
        looked.clear()
        broker.handle(Received(A, part), 0.0)
        assert len(looked) <= 100
