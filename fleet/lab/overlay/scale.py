"""Overlays of many shapes: tables, messages and memory, measured beside the arithmetic."""

from __future__ import annotations

import random
from typing import Final

from msgspec import Struct

from agent.overlay.events import Advertise, Publish, Subscribe
from agent.overlay.scot import Broker
from agent.wire.overlay import Notification, Origin
from fleet.lab.overlay import formulas, quotes
from fleet.lab.overlay.contenders import CONTENDERS
from fleet.lab.overlay.formulas import Expected, Load
from fleet.lab.overlay.model import costs_of
from fleet.lab.overlay.topology import spread
from fleet.lab.overlay.world import World

# What is measured with: a subscription wants two of the hundred symbols.
ADVERTISEMENTS: Final = 200
NOTIFICATIONS: Final = 500
CONTENDER: Final = "snr"
# (|V_a|, |V_c|, subscriptions)
MEASURED: Final = (
    *((14, 5, 2_000), (32, 8, 2_000), (8, 32, 2_000)),
    *((64, 16, 2_000), (16, 64, 2_000), (200, 10, 2_000)),
)
# (|V_a|, |V_c|)
ON_PAPER: Final = (
    *((10, 1_000), (32, 313), (100, 100), (313, 32)),
    *((1_000, 10), (2_500, 4), (10_000, 1)),
)
MILLION: Final = Load(10_000, 1_000_000, 100.0, 100.0)


class Shape(Struct, frozen=True):
    """One run: an overlay of |V_a| × |V_c| brokers, with so many subscriptions."""

    vertices: int
    clusters: int
    subscriptions: int
    seed: int


class Measured(Struct, frozen=True):
    """Means over brokers, advertisements, subscriptions and notifications, as in `Expected`; and
    how many subscriptions a notification reached."""

    shape: Shape
    expected: Expected
    srt: float
    prt: float
    prt_most: int
    advertisement_messages: float
    subscription_messages: float
    notification_messages: float
    delivered: float
    due: float


def measure(shape: Shape) -> Measured:
    """Run it. Deterministic."""
    contender, scot = CONTENDERS[CONTENDER], spread(shape.vertices, shape.clusters)
    draw = random.Random(f"scale {shape}")
    delivered: list[int] = []
    world = World(
        scot,
        contender.maker(scot),
        costs_of(contender),
        delivered=lambda to, *_: delivered.append(len(to)),
    )
    world.connect()
    brokers, known = list(scot.brokers()), quotes.shipped()
    symbols = sorted(known)
    offers = quotes.offered(symbols, ADVERTISEMENTS)
    homes = quotes.placed(brokers, ADVERTISEMENTS, draw)
    for number, (symbol, place) in enumerate(zip(offers, homes, strict=True)):
        world.happen(world.now, place, Advertise(f"p{number}", quotes.of(symbol)))
    advertising = _sent(world)
    wants = [draw.sample(symbols, quotes.SYMBOLS_WANTED) for _ in range(shape.subscriptions)]
    for number, wanted in enumerate(wants):
        event = Subscribe(f"s{number}", quotes.of(*wanted))
        world.happen(world.now, draw.choice(brokers), event)
    subscribing = _sent(world)
    due = _publish(world, offers, homes, wants, draw)
    world.run()
    notifying = sum(world.messages[kind] for kind in contender.notifications)
    prt = [broker.prt_entries for broker in world.brokers]
    share = quotes.SYMBOLS_WANTED / len(symbols)
    interested = shape.subscriptions * share
    return Measured(
        shape=shape,
        expected=formulas.octopia(
            scot, Load(ADVERTISEMENTS, shape.subscriptions, interested, interested)
        ),
        srt=sum(broker.srt_entries for broker in world.brokers) / len(brokers),
        prt=sum(prt) / len(brokers),
        prt_most=max(prt),
        advertisement_messages=advertising / ADVERTISEMENTS,
        subscription_messages=subscribing / shape.subscriptions,
        notification_messages=notifying / NOTIFICATIONS,
        delivered=sum(delivered) / NOTIFICATIONS,
        due=due / NOTIFICATIONS,
    )


def _sent(world: World) -> int:
    """Run until it is quiet; the messages that it took."""
    world.messages.clear()
    world.run()
    count = world.messages.total()
    world.messages.clear()
    return count


def _publish(
    world: World,
    offers: list[str],
    homes: list[Broker],
    wants: list[list[str]],
    draw: random.Random,
) -> int:
    """One notification after the other, of publishers in turn; how many deliveries are due."""
    known, due = quotes.shipped(), 0
    for number in range(NOTIFICATIONS):
        publisher = draw.randrange(len(offers))
        symbol = offers[publisher]
        one = Notification(
            Origin(f"p{publisher}", quotes.HISTORY, number), 0, draw.choice(known[symbol])
        )
        world.happen(world.now + number, homes[publisher], Publish(one))
        due += sum(symbol in wanted for wanted in wants)
    return due
