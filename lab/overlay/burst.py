"""A bursting publisher, and the delays of everyone's notifications (OctopiA Fig. 11, IDR)."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from agent.overlay.events import Advertise, Publish, Subscribe
from agent.overlay.link_congestion import WINDOW_S
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Attributes
from lab.overlay import quotes
from lab.overlay.contenders import CONTENDERS
from lab.overlay.model import Bottleneck, costs_of
from lab.overlay.topology import paper
from lab.overlay.world import Happening, World

# The paper's values, at size 1.
SUBSCRIBERS: Final = 2_000
PUBLISHERS: Final = 100
EACH: Final = 2_000
EVERY_S: Final = 1.0
IN_BURST: Final = 100_000
RATES_PER_MIN: Final = (60_000, 80_000, 100_000)
WANT_BURST: Final = 0.02

BURSTING: Final = "burst"
SYMBOL: Final = "BURST"
BEFORE_S: Final = 10.0
# A point of the curve is the longest delay of this many consecutive deliveries.
SEQUENCE: Final = 1_000
MAX_POINTS: Final = 400
SOON_S: Final = 1.0


class Crowd(Struct, frozen=True):
    """Subscribers, publishers, and the share of subscribers that want the burst."""

    subscribers: int = SUBSCRIBERS
    publishers: int = PUBLISHERS
    want_burst: float = WANT_BURST


class Burst(Struct, frozen=True, repr_omit_defaults=True):
    """One run: a burst of `rate_per_min`, with a share `size` of the paper's notifications."""

    contender: str
    rate_per_min: int
    size: float
    bottleneck: Bottleneck
    seed: int
    crowd: Crowd = Crowd()


class Delays(Struct, frozen=True):
    """Delays of some deliveries, in seconds, and the share that took no more than `SOON_S`."""

    deliveries: int
    mean_s: float
    p99_s: float
    most_s: float
    soon: float


class BurstResult(Struct, frozen=True):
    """The result: `everything`, and `bursting` for the notifications of the bursting publisher
    alone.

    `expected` deliveries are due; `stable_s` after the beginning of the burst the last thousand
    with a delay above `SOON_S` ended; `curve` is (seconds from then, longest delay in seconds);
    `messages` between brokers by the name of their class; `a_link_wait_s` and `i_link_wait_s` are
    how long a notification waits before it is sent over such a link.
    """

    case: Burst
    expected: int
    everything: Delays
    bursting: Delays
    stable_s: float
    messages: dict[str, int]
    a_link_wait_s: float
    i_link_wait_s: float
    curve: list[tuple[float, float]]


class _Deliveries:
    """The publishers' schedules, and the deliveries of their notifications."""

    def __init__(self) -> None:
        self.schedule: dict[str, tuple[float, float]] = {}
        self.time_s = array("d")
        self.delay_s = array("d")
        self.bursting = array("b")

    def __call__(self, subscriptions: tuple[str, ...], one: Notification, now: float) -> None:
        origin = one.origin
        first_s, every_s = self.schedule[origin.publisher]
        delay_s = now - first_s - every_s * origin.sequence
        for _ in subscriptions:
            self.time_s.append(now)
            self.delay_s.append(delay_s)
            self.bursting.append(origin.publisher == BURSTING)


class _Clients(Struct, frozen=True):
    """The clients' places and filters: the same for all contenders."""

    publishers: list[tuple[str, str, BrokerId]]  # name, symbol, where
    subscribers: list[tuple[str, tuple[str, ...], BrokerId]]  # name, symbols, where


def measure(case: Burst) -> BurstResult:
    """Run it. Deterministic."""
    contender, scot = CONTENDERS[case.contender], paper()
    draw = random.Random(f"burst {case.seed}")
    clients = _clients(scot, case.crowd, draw)
    deliveries = _Deliveries()
    world = World(
        scot,
        contender.maker(scot),
        costs_of(contender, case.bottleneck),
        measured=contender.notifications,
        window_s=WINDOW_S if contender.measures else None,
        delivered=deliveries,
    )
    world.connect()
    _settle(world, clients)
    world.messages.clear()
    start_s = world.now + 1.0
    expected = _publish(world, deliveries, clients, case, start_s, draw)
    world.run()
    return _result(case, world, deliveries, expected, start_s + BEFORE_S * case.size)


def _clients(scot: Scot, crowd: Crowd, draw: random.Random) -> _Clients:
    brokers, symbols = list(scot.brokers()), sorted(quotes.shipped())
    home = draw.choice(brokers)
    others = [broker for broker in brokers if broker != home]
    publishers = [
        (f"p{number}", symbol, place)
        for number, (symbol, place) in enumerate(
            zip(
                quotes.offered(symbols, crowd.publishers),
                quotes.placed(brokers, crowd.publishers, draw),
                strict=True,
            )
        )
    ]
    want = round(crowd.want_burst * crowd.subscribers)
    places = quotes.placed(others, want, draw)
    while len({place.cluster for place in places}) < scot.clusters:
        places = quotes.placed(others, want, draw)  # all clusters are targets
    subscribers: list[tuple[str, tuple[str, ...], BrokerId]] = [
        (f"b{number}", (SYMBOL,), place) for number, place in enumerate(places)
    ]
    for number, place in enumerate(quotes.placed(brokers, crowd.subscribers - want, draw)):
        wanted = tuple(draw.sample(symbols, quotes.SYMBOLS_WANTED))
        subscribers.append((f"s{number}", wanted, place))
    return _Clients([*publishers, (BURSTING, SYMBOL, home)], subscribers)


def _settle(world: World, clients: _Clients) -> None:
    """All advertisements, then all subscriptions, before anything is published."""
    for name, symbol, place in clients.publishers:
        world.happen(world.now, place, Advertise(name, quotes.of(symbol)))
    world.run()
    for name, symbols, place in clients.subscribers:
        world.happen(world.now, place, Subscribe(name, quotes.of(*symbols)))
    world.run()


def _publish(
    world: World,
    deliveries: _Deliveries,
    clients: _Clients,
    case: Burst,
    start_s: float,
    draw: random.Random,
) -> int:
    """Publish everything; returns the number of deliveries due."""
    known, expected = quotes.shipped(), 0
    for name, symbol, place in clients.publishers:
        bursting = name == BURSTING
        count = round((IN_BURST if bursting else EACH) * case.size)
        every_s = 60.0 / case.rate_per_min if bursting else EVERY_S
        first_s = start_s + (BEFORE_S * case.size if bursting else draw.random() * EVERY_S)
        deliveries.schedule[name] = first_s, every_s
        quote = known.get(symbol) or [{**known["DELL"][0], "symbol": SYMBOL}]
        world.feed(_events(name, quote, place, count, first_s, every_s))
        expected += count * sum(symbol in symbols for _, symbols, _ in clients.subscribers)
    return expected


def _events(
    name: str, quote: Sequence[Attributes], at: BrokerId, count: int, first_s: float, every_s: float
) -> Iterator[Happening]:
    for number in range(count):
        origin = Origin(name, quotes.HISTORY, number)
        event = Publish(Notification(origin, 0, quote[number % len(quote)]))
        yield first_s + number * every_s, at, event


def _result(
    case: Burst, world: World, deliveries: _Deliveries, expected: int, burst_s: float
) -> BurstResult:
    times, delays = np.array(deliveries.time_s), np.array(deliveries.delay_s)
    order = np.argsort(times, kind="stable")
    times, delays = times[order] - burst_s, delays[order]
    bursting = np.array(deliveries.bursting, dtype=bool)[order]
    ends = np.append(np.arange(SEQUENCE, len(times), SEQUENCE), len(times)) - 1
    longest = np.maximum.reduceat(delays, np.arange(0, len(times), SEQUENCE))
    late = ends[: len(longest)][longest > SOON_S]
    return BurstResult(
        case=case,
        expected=expected,
        everything=_delays(delays),
        bursting=_delays(delays[bursting]),
        stable_s=float(times[late[-1]]) if len(late) else 0.0,
        messages=dict(sorted(world.messages.items())),
        a_link_wait_s=world.mean_wait_s("aLink"),
        i_link_wait_s=world.mean_wait_s("iLink"),
        curve=_thinned(times[ends[: len(longest)]], longest),
    )


def _delays(delays: np.ndarray) -> Delays:
    return Delays(
        deliveries=len(delays),
        mean_s=float(delays.mean()),
        p99_s=float(np.percentile(delays, 99)),
        most_s=float(delays.max()),
        soon=float((delays <= SOON_S).mean()),
    )


def _thinned(times: np.ndarray, longest: np.ndarray) -> list[tuple[float, float]]:
    """At most `MAX_POINTS` points, each the maximum of its neighbours."""
    step = -(-len(times) // MAX_POINTS)
    return [
        (float(times[at : at + step][-1]), float(longest[at : at + step].max()))
        for at in range(0, len(times), step)
    ]


ORDER: Final = ("idr", "snr", "tid")


SHORT: Final[dict[Bottleneck, str]] = {
    "links": "All links are short of bandwidth",
    "iLinks": "iLinks are short of bandwidth",
    "brokers": "Brokers are short of time",
}


def runs(
    results: Sequence[BurstResult], bottleneck: Bottleneck, rate: int, contender: str
) -> list[BurstResult]:
    """Of one contender in one case, by seed."""
    return [
        each
        for each in results
        if (each.case.bottleneck, each.case.rate_per_min, each.case.contender)
        == (bottleneck, rate, contender)
    ]


def rates(results: Sequence[BurstResult]) -> list[int]:
    """The rates of the runs, ascending."""
    return sorted({each.case.rate_per_min for each in results})


def bottlenecks(results: Sequence[BurstResult]) -> list[Bottleneck]:
    """The bottlenecks of the runs."""
    return list(dict.fromkeys(each.case.bottleneck for each in results))
