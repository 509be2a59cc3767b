"""The baseline over random overlays, under random clients and in any order of messages: links keep
theirs, and nothing else does. Beside a plain model of who wants what."""

from __future__ import annotations

from collections import Counter, deque
from itertools import pairwise
from random import Random
from typing import Any, get_args

import pytest

from agent.overlay.events import (
    Advertise,
    Deliver,
    Publish,
    Received,
    Send,
    Settled,
    Subscribe,
    Unadvertise,
    Undeliverable,
    Unsubscribe,
)
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Filter, Predicate
from lab.overlay.tid import Matching, TidBroker, TidNotification

MATCHINGS: tuple[Matching, ...] = get_args(Matching)
Range = tuple[int, int]
Client = tuple[BrokerId, str]
SCHEDULES = 150


def overlay(random: Random) -> Scot:
    order = random.randint(1, 6)
    links = [(f"v{random.randrange(child)}", f"v{child}") for child in range(1, order)]
    return Scot(links, random.randint(1, 4), [f"v{vertex}" for vertex in range(order)])


def filter_of(ranges: list[Range]) -> Filter:
    return tuple(
        (Predicate("x", ">=", (low,)), Predicate("x", "<=", (high,))) for low, high in ranges
    )


def holds(ranges: list[Range], x: int) -> bool:
    return any(low <= x <= high for low, high in ranges)


def meet(a: list[Range], b: list[Range]) -> bool:
    return any(max(i, k) <= min(j, m) for i, j in a for k, m in b)


class World:
    """Brokers, their links, their clients, and what those should have got."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.scot = overlay(random)
        self.matching = matching = random.choice(MATCHINGS)
        self.places = list(self.scot.brokers())
        self.brokers = {at: TidBroker(at, self.scot, matching=matching) for at in self.places}
        self.links: dict[tuple[BrokerId, BrokerId], deque[Any]] = {}
        self.messages: Counter[str] = Counter()
        self.advertised: dict[Client, list[Range]] = {}
        self.subscribed: dict[Client, list[Range]] = {}
        self.published = 0
        self.got: Counter[tuple[int, Client]] = Counter()
        self.told: dict[int, type] = {}
        self.visits: Counter[tuple[int, BrokerId]] = Counter()

    def happen(self, at: BrokerId, event: Any) -> None:
        for instruction in self.brokers[at].handle(event, 0.0):
            match instruction:
                case Send(neighbour=neighbour, message=message):
                    self.messages[type(message).__name__] += 1
                    self.links.setdefault((at, neighbour), deque()).append(message)
                case Deliver(subscriptions=names, notification=notification):
                    sequence = notification.origin.sequence
                    self.got.update((sequence, (at, name)) for name in names)
                case Settled(origin=origin) | Undeliverable(origin=origin):
                    assert origin.sequence not in self.told
                    self.told[origin.sequence] = type(instruction)

    def step(self) -> bool:
        """One message arrives, whichever; False if none is under way."""
        if not self.links:
            return False
        link = self.random.choice(list(self.links))
        message = self.links[link].popleft()
        if not self.links[link]:
            del self.links[link]
        if isinstance(message, TidNotification):
            self.visits[message.notification.origin.sequence, link[1]] += 1
        self.happen(link[1], Received(link[0], message))
        return True

    def settle(self) -> None:
        while self.step():
            pass

    def churn(self) -> None:
        """A client comes, changes its mind, or goes."""
        at, name = self.random.choice(self.places), f"c{self.random.randrange(2)}"
        known = self.random.choice((self.advertised, self.subscribed))
        if (at, name) in known and self.random.random() < 0.5:
            del known[at, name]
            event = Unadvertise(name) if known is self.advertised else Unsubscribe(name)
        else:
            ranges = [self.range() for _ in range(self.random.randint(1, 2))]
            known[at, name] = ranges
            wanted = filter_of(ranges)
            advertises = known is self.advertised
            event = Advertise(name, wanted) if advertises else Subscribe(name, wanted)
        self.happen(at, event)

    def range(self) -> Range:
        low = self.random.randint(0, 9)
        return low, low + self.random.randint(0, 4)

    def publish(self, at: BrokerId, x: int) -> int:
        self.published += 1
        origin = Origin("p", "h", self.published)
        self.happen(at, Publish(Notification(origin, 0, {"x": x})))
        return self.published

    def withdraw_all(self) -> None:
        clients = [(Unadvertise, each) for each in self.advertised]
        clients += [(Unsubscribe, each) for each in self.subscribed]
        self.random.shuffle(clients)
        for withdraw, (at, name) in clients:
            self.happen(at, withdraw(name))
            for _ in range(self.random.randrange(4)):
                self.step()
        self.advertised.clear()
        self.subscribed.clear()


def way(world: World, subscriber: Client, root: BrokerId, number: int) -> list[BrokerId]:
    """From a subscriber's broker to the root, in the tree that the flood happened to grow."""
    brokers = [subscriber[0]]
    while brokers[-1] != root:
        brokers.append(world.brokers[brokers[-1]]._srt._last_hops[root, number])
    return brokers


def check_tables(world: World) -> None:
    expected: set[tuple[BrokerId, Client, BrokerId]] = set()
    for subscriber, wanted in world.subscribed.items():
        expected.add((subscriber[0], subscriber, subscriber[0]))
        for (root, name), announced in world.advertised.items():
            if meet(wanted, announced):
                number = world.brokers[root]._advertised[name].number
                brokers = way(world, subscriber, root, number)
                expected.update((at, subscriber, last) for last, at in pairwise(brokers))
    entries = Counter(at for at, _, _ in expected)
    for at, broker in world.brokers.items():
        assert broker.srt_entries == len(world.advertised)
        assert broker.prt_entries == entries[at]


def expected_visits(world: World, root: BrokerId, x: int) -> set[BrokerId]:
    """The other brokers that a notification comes to: those on the ways of who wants it; if it is
    matched at the ends only, all of the tree behind the first hops of these ways."""
    numbers = [
        world.brokers[root]._advertised[name].number
        for (at, name), ranges in world.advertised.items()
        if at == root and holds(ranges, x)
    ]
    if not numbers:
        return set()
    (announced,) = (
        ranges
        for (at, name), ranges in world.advertised.items()
        if at == root and world.brokers[root]._advertised[name].number == min(numbers)
    )
    ways = {
        each: way(world, each, root, min(numbers))
        for each, wanted in world.subscribed.items()
        if meet(wanted, announced) and each[0] != root
    }
    wanting = [brokers for each, brokers in ways.items() if holds(world.subscribed[each], x)]
    if world.matching == "ends":
        hops = {brokers[-2] for brokers in wanting}
        wanting = [brokers for brokers in ways.values() if brokers[-2] in hops]
    return {at for brokers in wanting for at in brokers} - {root}


def check_notifications(world: World) -> None:
    """Some values from some brokers: to all who want them, once, over no broker twice."""
    expected: dict[int, tuple[set[Client], set[BrokerId]]] = {}
    events = [(at, x) for at in world.places for x in range(14)]
    for at, x in world.random.sample(events, min(len(events), 20)):
        announced = any(
            holds(ranges, x) for (root, _), ranges in world.advertised.items() if root == at
        )
        wanted = {each for each, ranges in world.subscribed.items() if holds(ranges, x)}
        sequence = world.publish(at, x)
        assert world.told[sequence] == (Settled if announced else Undeliverable)
        expected[sequence] = wanted if announced else set(), expected_visits(world, at, x)
        for _ in range(world.random.randrange(3)):
            world.step()
    world.settle()
    for sequence, (clients, brokers) in expected.items():
        got = {each: n for (number, each), n in world.got.items() if number == sequence}
        assert got == dict.fromkeys(clients, 1)
        visits = {at: n for (number, at), n in world.visits.items() if number == sequence}
        assert visits == dict.fromkeys(brokers, 1)


def check_floods(world: World) -> None:
    """Whatever the order, a flood costs as much as if each broker sent to all but one neighbour."""
    before = Counter(world.messages)
    at = world.random.choice(world.places)
    for event, kind in (
        (Advertise("flood", filter_of([(99, 99)])), "TidAdvertisement"),
        (Unadvertise("flood"), "TidUnadvertisement"),
    ):
        world.happen(at, event)
        world.settle()
        sent = world.messages[kind] - before[kind]
        assert sent == 2 * world.scot.size - world.scot.order + 1


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_any_order_of_messages(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(3):
        for _ in range(world.random.randint(1, 12)):
            world.churn()
            if world.random.random() < 0.3:
                # Tables are not settled: perhaps not to all, but to nobody twice.
                world.publish(world.random.choice(world.places), world.random.randint(0, 13))
            for _ in range(world.random.randrange(6)):
                world.step()
        world.settle()
        check_tables(world)
        check_notifications(world)
    check_floods(world)
    assert set(world.got.values()) <= {1}
    assert set(world.visits.values()) <= {1}
    world.withdraw_all()
    world.settle()
    assert all(each.srt_entries == each.prt_entries == 0 for each in world.brokers.values())
    for broker in world.brokers.values():
        tables = broker._announced, broker._wanted, broker._advertised, broker._subscribed
        filters = broker._srt._filters, broker._prt._filters
        assert not any(map(len, (*tables, *filters, broker._prt._entries, broker._prt._hops)))
