"""Overlays of many shapes: tables and messages, measured and by formula."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from agent.overlay import broker
from agent.overlay.events import Advertise, Publish, Subscribe, Tick
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import Notification, Origin
from lab.overlay import formulas, quotes
from lab.overlay.contenders import LIMITS, SNR
from lab.overlay.formulas import Expected, Load
from lab.overlay.model import costs_of
from lab.overlay.topology import spread
from lab.overlay.world import AnyBroker, World

# In the measurements a subscription wants two of the hundred symbols.
ADVERTISEMENTS: Final = 200
NOTIFICATIONS: Final = 500
Factors = tuple[int, int]  # |V_a| and |V_c|
FEW: Final[tuple[Factors, ...]] = ((14, 5), (32, 8), (8, 32), (64, 16), (16, 64), (200, 10))
TEN_THOUSAND: Final[tuple[Factors, ...]] = (
    (100, 100),
    (500, 20),
    (1_000, 10),
    (2_000, 5),
    (5_000, 2),
)
ON_PAPER: Final[tuple[Factors, ...]] = (
    *((10, 1_000), (32, 313), (100, 100), (313, 32)),
    *((1_000, 10), (2_500, 4), (10_000, 1)),
)
SUBSCRIPTIONS: Final = 2_000
# For large overlays: subscriptions of a broker's table, one population and the next.
ENTRIES: Final = (50, 100)
MILLION: Final = Load(10_000, 1_000_000, 100.0, 100.0)


class Sample(Struct, frozen=True):
    """The advertisements and notifications of a measurement."""

    advertisements: int = ADVERTISEMENTS
    notifications: int = NOTIFICATIONS


WHOLE: Final = Sample()


class Shape(Struct, frozen=True, repr_omit_defaults=True):
    """One run: an overlay of |V_a| × |V_c| brokers, with this many subscriptions, and then as many
    as the next number says. `told`: the brokers skip announcing to their clusters that they have no
    subscriptions."""

    vertices: int
    clusters: int
    populations: tuple[int, ...]
    told: bool
    seed: int
    sample: Sample = WHOLE


class Measured(Struct, frozen=True):
    """Means over brokers, advertisements, subscriptions and notifications, as in `Expected`; the
    number of subscriptions that a notification reached, and that it was due at. `start_messages` is
    None if the announcements were skipped."""

    shape: Shape
    subscriptions: int
    expected: Expected
    srt: float
    prt: float
    prt_most: int
    start_messages: float | None
    advertisement_messages: float
    subscription_messages: float
    notification_messages: float
    delivered: float
    due: float


def few(
    seed: int,
    shapes: Sequence[Factors] = FEW,
    subscriptions: int = SUBSCRIPTIONS,
    sample: Sample = WHOLE,
) -> list[Shape]:
    """Overlays of up to 2,000 brokers, from their start on."""
    return [Shape(*factors, (subscriptions,), False, seed, sample) for factors in shapes]


def ten_thousand(
    seed: int, shapes: Sequence[Factors] = TEN_THOUSAND, sample: Sample = WHOLE
) -> list[Shape]:
    """Overlays of ten thousand, the one with most links first."""
    return [
        Shape(vertices, clusters, tuple(clusters * each for each in ENTRIES), True, seed, sample)
        for vertices, clusters in shapes
    ]


def measure(shape: Shape) -> list[Measured]:
    """Run it; a result for each population. Deterministic."""
    return list(_Run(shape).populations())


class _Run:
    """One overlay, its publishers, and its subscribers so far."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.scot = spread(shape.vertices, shape.clusters)
        self.draw = random.Random(f"scale {shape.vertices} {shape.clusters} {shape.seed}")
        self.delivered = 0
        maker = _told(self.scot) if shape.told else SNR.maker(self.scot)
        self.world = World(self.scot, maker, costs_of(SNR), delivered=self._deliver)
        self.start: float | None = None
        if shape.told:
            self.world.connect_told()
        else:
            self.start = self.world.connect() / self.scot.order
        self.brokers = list(self.scot.brokers())
        self.quotes = quotes.shipped()
        self.symbols = sorted(self.quotes)
        self.offers = quotes.offered(self.symbols, shape.sample.advertisements)
        self.homes = quotes.placed(self.brokers, len(self.offers), self.draw)
        self.wants: list[list[str]] = []

    def _deliver(self, to: Sequence[str], *_: object) -> None:
        self.delivered += len(to)

    def populations(self) -> Iterator[Measured]:
        """Advertise, then subscribe and publish for each."""
        for number, (symbol, place) in enumerate(zip(self.offers, self.homes, strict=True)):
            self.world.happen(self.world.now, place, Advertise(f"p{number}", quotes.of(symbol)))
        advertising, subscribing = self._sent(), 0
        for step, population in enumerate(self.shape.populations):
            self._subscribe(population)
            subscribing += self._sent()
            due, before = self._publish(step * self.shape.sample.notifications), self.delivered
            self.world.run()
            notifying = sum(self.world.messages[kind] for kind in SNR.notifications)
            yield self._measured(advertising, subscribing, notifying, self.delivered - before, due)

    def _sent(self) -> int:
        """Run until no events are left; returns the messages sent."""
        self.world.messages.clear()
        self.world.run()
        count = self.world.messages.total()
        self.world.messages.clear()
        return count

    def _subscribe(self, population: int) -> None:
        for number in range(len(self.wants), population):
            wanted = self.draw.sample(self.symbols, quotes.SYMBOLS_WANTED)
            self.wants.append(wanted)
            event = Subscribe(f"s{number}", quotes.of(*wanted))
            self.world.happen(self.world.now, self.draw.choice(self.brokers), event)

    def _publish(self, first: int) -> int:
        """One notification a second, of publishers in turn; returns the number of deliveries
        due."""
        due = 0
        for number in range(self.shape.sample.notifications):
            publisher = self.draw.randrange(len(self.offers))
            symbol = self.offers[publisher]
            origin = Origin(f"p{publisher}", quotes.HISTORY, first + number)
            one = Notification(origin, 0, self.draw.choice(self.quotes[symbol]))
            self.world.happen(self.world.now + number, self.homes[publisher], Publish(one))
            due += sum(symbol in wanted for wanted in self.wants)
        return due

    def _measured(
        self, advertising: int, subscribing: int, notifying: int, delivered: int, due: int
    ) -> Measured:
        subscriptions, brokers = len(self.wants), self.world.brokers
        prt = [each.prt_entries for each in brokers]
        interested = subscriptions * quotes.SYMBOLS_WANTED / len(self.symbols)
        sample = self.shape.sample
        load = Load(sample.advertisements, subscriptions, interested, interested)
        return Measured(
            shape=self.shape,
            subscriptions=subscriptions,
            expected=formulas.octopia(self.scot, load),
            srt=sum(each.srt_entries for each in brokers) / len(brokers),
            prt=sum(prt) / len(brokers),
            prt_most=max(prt),
            start_messages=self.start,
            advertisement_messages=advertising / sample.advertisements,
            subscription_messages=subscribing / subscriptions,
            notification_messages=notifying / sample.notifications,
            delivered=delivered / sample.notifications,
            due=due / sample.notifications,
        )


def _told(scot: Scot) -> Callable[[BrokerId], AnyBroker]:
    """Brokers that do not wait for the first message of the others in their cluster."""
    limits = msgspec.structs.replace(LIMITS, unknown_s=0.0)

    def make(at: BrokerId) -> AnyBroker:
        made = broker.Broker(at, scot, epoch=1, routing="snr", limits=limits)
        made.handle(Tick(), 0.0)  # it gives the others up, because their names take memory
        return made

    return make


# (what, its name in both `Measured` and `Expected`, digits)
COLUMNS: Final = (
    ("SRT", "srt", 2),
    ("PRT", "prt", 1),
    ("messages an advertisement", "advertisement_messages", 2),
    ("a subscription", "subscription_messages", 2),
    ("a notification", "notification_messages", 2),
)
