"""A bursting publisher at real masters, with static and with dynamic routing in turn (OctopiA Fig.
11)."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from agent.alerts.notifications import NUMBERS
from agent.overlay.forwarding import Routing
from agent.overlay.scot import BrokerId
from lab.overlay import quotes, real_load, real_masters, real_tables, real_twin
from lab.overlay.contenders import CONTENDERS
from lab.overlay.real_load import Alert, Offer, Wish
from lab.overlay.real_masters import Masters, Subscribers
from lab.overlay.real_rig import Rig
from lab.overlay.real_subscribers import Delivery
from lab.overlay.real_twin import Twin

ROUTINGS: Final[tuple[Routing, ...]] = ("idr", "snr")
BURSTING: Final = "BURST"
# A point of the curve is the longest delay of this many consecutive deliveries.
SEQUENCE: Final = 100
# After this time without a delivery, missing ones count as lost.
PATIENCE_S: Final = 30.0
LOOK_EVERY_S: Final = 0.25
IDLE_S: Final = 3.0


class Load(Struct, frozen=True):
    """`publishers` together publish `base_per_s` alerts a second, each of which matches about 2 %
    of the `subscribers`; from `before_s` on one more publishes `in_burst`, which match 2 % in all
    clusters; the others go on for `after_s` when it is done."""

    publishers: int
    subscribers: int
    base_per_s: float
    in_burst: int
    before_s: float
    after_s: float


class Case(Struct, frozen=True):
    """One run: `burst_per_s`, and its number among those with that rate."""

    routing: Routing
    burst_per_s: float
    round: int


class Result(Struct, frozen=True):
    """The result. Of deliveries: how many were due, missing, duplicated and unwanted; delays in
    seconds, of all and of the burst's. `curve` is (seconds since the burst began, longest delay of
    a hundred consecutive deliveries); `messages` between masters by kind; `virtual_s` the mean
    delay of the same alerts in virtual time, 0 if no link is limited; `late_s` the publishers'
    maximum lag behind their own schedule; `cpu_s` of the masters in `seconds`; how often a link
    went down."""

    case: Case
    due: int
    missing: int
    repeated: int
    unwanted: int
    delays_s: list[float]
    burst_delays_s: list[float]
    curve: list[tuple[float, float]]
    messages: dict[str, int]
    virtual_s: float
    late_s: float
    cpu_s: float
    seconds: float
    links_lost: int


class Idle(Struct):
    """The masters' resources before anything is published: memory of each, processor share of
    all."""

    seconds: float = IDLE_S
    memory_bytes: float = 0.0
    cores: float = 0.0

    def look(self, masters: Masters) -> None:
        """Measure for a few seconds."""
        cpu_s = masters.cpu_s()
        time.sleep(self.seconds)
        self.cores = (masters.cpu_s() - cpu_s) / self.seconds
        self.memory_bytes = masters.memory_bytes() / len(masters.plan.places)


class Clients(NamedTuple):
    """The clients' places; the last publisher is the one that bursts."""

    offers: list[Offer]
    wishes: list[Wish]


class Told(NamedTuple):
    """A published alert: its trigger, and its time in monotonic nanoseconds."""

    trigger: str
    time_ns: int


def clients(brokers: Sequence[BrokerId], load: Load, want: float, seed: int) -> Clients:
    """The same for both ways of routing. No subscriber at the bursting publisher's broker wants its
    alerts, and some subscriber in each cluster does."""
    draw = random.Random(f"real burst {seed}")
    home = draw.choice(brokers)
    others = [each for each in brokers if each != home]
    few = round(want * load.subscribers)
    clusters = {each.cluster for each in others}
    places = quotes.placed(others, few, draw)
    while {each.cluster for each in places} != clusters:
        places = quotes.placed(others, few, draw)
    wishes = [Wish(f"b{number}", place, (BURSTING,)) for number, place in enumerate(places)]
    wishes += real_load.wishes(brokers, load.subscribers - few, draw)
    offers = real_load.offers(brokers, load.publishers, draw)
    return Clients([*offers, Offer(home, BURSTING)], wishes)


def schedule(offers: Sequence[Offer], load: Load, burst_per_s: float, seed: int) -> list[Alert]:
    """The schedule of the whole run, in order of time."""
    draw = random.Random(f"real schedule {seed}")
    *others, bursting = offers
    end_s = load.before_s + load.in_burst / burst_per_s + load.after_s
    every_s = len(others) / load.base_per_s
    alerts = [
        Alert(load.before_s + number / burst_per_s, bursting) for number in range(load.in_burst)
    ]
    for offer in others:
        first_s = draw.random() * every_s
        count = max(0, int(np.ceil((end_s - first_s) / every_s)))
        alerts += [Alert(first_s + number * every_s, offer) for number in range(count)]
    return sorted(alerts)


def measure(
    rig: Rig,
    load: Load,
    want: float,
    rates_per_s: Sequence[float],
    rounds: int,
    seed: int,
    idle: Idle,
) -> Iterator[Result]:
    """Measure. Both overlays run side by side, and the one whose turn it is not is idle."""
    who = clients(rig.brokers, load, want, seed)
    announced = real_load.announced(who.offers)
    with ExitStack() as stack:
        overlays = {}
        for routing in ROUTINGS:
            masters, subscribers = stack.enter_context(
                rig.start(announced, who.wishes, routing=routing)
            )
            real_tables.subscribed(masters, subscribers, len(who.wishes))
            overlays[routing] = masters, subscribers
        idle.look(overlays[ROUTINGS[0]][0])
        for number in range(rounds):
            for rate in rates_per_s:
                for routing in ROUTINGS[:: 1 if number % 2 == 0 else -1]:
                    case = Case(routing, rate, number)
                    alerts = schedule(who.offers, load, rate, seed + number)
                    found = _run(case, *overlays[routing], who.wishes, alerts, load)
                    yield replace(found, virtual_s=virtual_s(rig, who, case, alerts))


def virtual_s(rig: Rig, who: Clients, case: Case, alerts: Sequence[Alert]) -> float:
    """The mean delay of these alerts in virtual time, where iLinks are limited; 0 otherwise."""
    if rig.i_link_bytes_s is None:
        return 0.0
    contender = CONTENDERS[case.routing]
    costs = real_twin.short(contender, rig.i_link_bytes_s)
    twin = Twin(rig.plan, contender, real_load.announced(who.offers), costs)
    twin.subscribe(who.wishes)
    return float(np.mean(twin.publish(alerts)))


def _run(
    case: Case,
    masters: Masters,
    subscribers: Subscribers,
    wishes: Sequence[Wish],
    alerts: Sequence[Alert],
    load: Load,
) -> Result:
    want = Counter(trigger for wish in wishes for trigger in wish.triggers)
    due = sum(want[each.offer.trigger] for each in alerts)
    subscribers.take()
    had, before = subscribers.count(), masters.counters()
    start_s, cpu_s = time.monotonic(), masters.cpu_s()
    told, late_s = _publish(masters, alerts, start_s)
    _await(subscribers, had + due)
    seconds, cpu_s = time.monotonic() - start_s, masters.cpu_s() - cpu_s
    after = masters.wait(lambda _: not masters.untaken(), "all alerts on disk")
    said, said_before = real_masters.sent(after), real_masters.sent(before)
    came = subscribers.take()
    burst_ns = round((start_s + load.before_s) * 1e9)
    took_s, bursting, curve = delays(came, told, burst_ns)
    missing, repeated, unwanted = check(came, told, wishes)
    lost = "overlay_links_lost"
    return Result(
        case=case,
        due=due,
        missing=missing,
        repeated=repeated,
        unwanted=unwanted,
        delays_s=took_s,
        burst_delays_s=bursting,
        curve=curve,
        messages={kind: number - said_before[kind] for kind, number in said.items()},
        virtual_s=0.0,
        late_s=late_s,
        cpu_s=cpu_s,
        seconds=seconds,
        links_lost=real_masters.total(after, lost) - real_masters.total(before, lost),
    )


def _publish(
    masters: Masters, alerts: Sequence[Alert], start_s: float
) -> tuple[dict[tuple[str, int], Told], float]:
    """Alerts by IAD and number; and the maximum lag."""
    told, late_s = {}, 0.0
    for alert in alerts:
        iad = masters.plan.iads[alert.offer.place]
        wait_s = start_s + alert.at_s - time.monotonic()
        late_s = max(late_s, -wait_s)
        time.sleep(max(0.0, wait_s))
        now_ns = time.monotonic_ns()
        number = masters.publish(iad, alert.offer.trigger, alert.at_s)
        told[iad, number] = Told(alert.offer.trigger, now_ns)
    return told, late_s


def _await(subscribers: Subscribers, count: int) -> None:
    found, since = -1, time.monotonic()
    while found < count and time.monotonic() < since + PATIENCE_S:
        time.sleep(LOOK_EVERY_S)
        if (now := subscribers.count()) != found:
            found, since = now, time.monotonic()


def check(
    came: Sequence[Delivery], told: Mapping[tuple[str, int], Told], wishes: Sequence[Wish]
) -> tuple[int, int, int]:
    """Numbers of missing, duplicated and unwanted deliveries."""
    wanting: dict[str, list[str]] = {}
    for wish in wishes:
        for trigger in wish.triggers:
            wanting.setdefault(trigger, []).append(wish.id)
    due = {(id_, key) for key, one in told.items() for id_ in wanting.get(one.trigger, ())}
    found = Counter((each.id, _key(each)) for each in came)
    missing = len(due - found.keys())
    unwanted = sum(count for each, count in found.items() if each not in due)
    repeated = sum(count - 1 for each, count in found.items() if each in due)
    return missing, repeated, unwanted


def _key(delivery: Delivery) -> tuple[str, int]:
    return delivery.publisher, delivery.sequence // NUMBERS


def delays(
    came: Sequence[Delivery],
    told: Mapping[tuple[str, int], Told],
    burst_ns: int,
    sequence: int = SEQUENCE,
) -> tuple[list[float], list[float], list[tuple[float, float]]]:
    """Delays of all deliveries and of the burst's alone, in seconds and in order of arrival; and
    the longest of each `sequence` over the seconds since `burst_ns`."""
    found, bursting, curve = [], [], []
    for each in sorted(came, key=lambda each: each.time_ns):
        one = told.get(_key(each))
        if one is None:
            continue
        found.append((each.time_ns - one.time_ns) / 1e9)
        if one.trigger == BURSTING:
            bursting.append(found[-1])
        if len(found) % sequence == 0:
            curve.append(((each.time_ns - burst_ns) / 1e9, max(found[-sequence:])))
    return found, bursting, curve
