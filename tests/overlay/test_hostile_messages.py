"""Whatever a neighbour says, a broker goes on: what makes no sense is counted and left."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.overlay.broker import Broker
from agent.overlay.events import Advertise, LinkUp, Publish, Received, Subscribe
from agent.overlay.scot import Broker as Place
from agent.overlay.scot import Scot
from agent.wire import overlay as o
from agent.wire.predicates import Predicate

SCOT = Scot([("a", "b"), ("b", "c")], 3)
OWN = Place("b", 1)
NEIGHBOURS = [*SCOT.cluster_neighbours(OWN), *SCOT.region_neighbours(OWN)]

names = st.sampled_from(["a", "b", "c", "nowhere"])
hops = st.tuples(names, st.sampled_from([0, 1, 2, 3, 1_023]))
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
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NEIGHBOURS), messages), max_size=12))
def test_whatever_neighbours_say_a_broker_goes_on(said):
    broker = Broker(OWN, SCOT, epoch=2)
    wanted = ((Predicate("value", ">", (30.0,)),),)
    broker.handle(Subscribe("s", wanted), 0.0)
    broker.handle(Advertise("p", wanted), 0.0)
    for neighbour in NEIGHBOURS:
        broker.handle(LinkUp(neighbour), 0.0)
    for number, (neighbour, message) in enumerate(said):
        broker.handle(Received(neighbour, message), float(number))
    told = o.Notification(o.Origin("own", "h", 7), 0, {"value": 31.0})
    broker.handle(Publish(told), 20.0)
