"""Prices against the naively recomputed cost of the whole placement, with and without the unit."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from math import inf, nan

import msgspec
import pytest

from agent.placement.congestion import (
    Addition,
    Combined,
    Congestion,
    Delegation,
    LearnedTail,
    Limits,
    Waiting,
)
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import Client, Link, Master, Pin, PlacementError, Topic, Unit, World
from tests.placement import oracle, worlds

FAR_S = 0.2
DELTA_S = 0.05
CLOUD = "m3"

Naive = Callable[[World, Mapping[Unit, int]], float]


def few(master: Master, topics: tuple[str, ...]) -> bool:
    """At most two processors, and not both of t0 and t1."""
    return len(topics) <= 2 and not {"t0", "t1"} <= set(topics)


def plain(world: World, where: Mapping[Unit, int]) -> float:
    """Delays and opening costs."""
    return oracle.distances(world, where, 0.0, lambda at, name: 0.0) + oracle.opening(world, where)


def hard(world: World, where: Mapping[Unit, int]) -> float:
    """The same, infinite where a limit is exceeded."""
    for master, sums in zip(world.masters, oracle.accounts(world, where), strict=True):
        if sums.storage > master.storage_bytes or sums.load > master.compute:
            return inf
        if len(sums.processors) > master.max_processors:
            return inf
    return plain(world, where)


def delegating(world: World, where: Mapping[Unit, int]) -> float:
    """RELOC's expected delay with its delegation ratio w."""
    shares = [
        1
        - min(
            1.0,
            master.storage_bytes / sums.storage if sums.storage else 1.0,
            master.compute / sums.load if sums.load else 1.0,
        )
        for master, sums in zip(world.masters, oracle.accounts(world, where), strict=True)
    ]
    distances = oracle.distances(world, where, FAR_S, lambda at, name: shares[at])
    return distances + oracle.opening(world, where)


def named(world: World, where: Mapping[Unit, int]) -> float:
    """Whole topics delegated, the largest spools first, until a master's limits hold; the delegate
    has nobody to delegate to."""
    gone: set[tuple[int, str]] = set()
    homes = {unit.name: at for unit, at in where.items() if unit.kind == "home"}
    for at, (master, sums) in enumerate(
        zip(world.masters, oracle.accounts(world, where), strict=True)
    ):
        storage, load = sums.storage, sums.load
        if len(sums.processors) > master.max_processors:
            return inf
        order = sorted(world.topics.values(), key=lambda each: (-each.spool_bytes, each.name))
        for topic in order:
            rate = sum(r for c, r in topic.publishers.items() if homes.get(c) == at)
            too_much = storage > master.storage_bytes
            too_busy = load > master.compute and not topic.processor
            if rate and (too_much or too_busy) and master.name != CLOUD:
                storage -= topic.spool_bytes
                load -= 0.0 if topic.processor else rate * topic.service_s
                gone.add((at, topic.name))
        if storage > master.storage_bytes or load > master.compute:
            return inf
    distances = oracle.distances(world, where, FAR_S, lambda at, name: float((at, name) in gone))
    return distances + oracle.opening(world, where)


def waiting(world: World, where: Mapping[Unit, int]) -> float:
    """Flock: half the social cost, Σ d·τ over pairs and D·ρ(D) of every cloud."""
    total = plain(world, where)
    for master, sums in zip(world.masters, oracle.accounts(world, where), strict=True):
        if sums.load >= master.compute:
            return inf
        if master.compute < inf:
            total += sums.load * DELTA_S * sums.load / (master.compute - sums.load)
    return total


def tails(world: World, where: Mapping[Unit, int]) -> float:
    """Hard limits, and sets of processors that are feasible."""
    for master, sums in zip(world.masters, oracle.accounts(world, where), strict=True):
        if len(sums.processors) > 1 and not few(master, tuple(sums.processors)):
            return inf
    return hard(world, where)


KINDS: dict[str, tuple[Congestion, Naive]] = {
    "none": (Congestion(), plain),
    "limits": (Limits(), hard),
    "limits with a delegate": (Limits(CLOUD, FAR_S / 2), named),
    "delegation": (Delegation(FAR_S / 2), delegating),
    "waiting": (Waiting(DELTA_S), waiting),
    "learned tail": (Combined([Limits(), LearnedTail(few)]), tails),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_a_price_is_by_how_much_the_unit_raises_the_cost(kind: str, seed: int) -> None:
    congestion, naive = KINDS[kind]
    rng = random.Random(seed)
    placement = Placement(worlds.world(rng))
    price = Price(placement, congestion)
    finite = 0
    for step in range(40):
        worlds.change(rng, placement, step)
        where = dict(placement.items())
        cost = naive(placement.world, where)
        if cost < inf:
            assert price.total() == pytest.approx(cost, abs=1e-9)
        unit = rng.choice(list(placement.world.units()))
        without = {each: at for each, at in where.items() if each != unit}
        base = naive(placement.world, without)
        prices = price.all(unit)
        table = {row.master: row for row in price.why(unit)}
        if base == inf:
            continue
        for at, told in enumerate(prices):
            if at not in worlds.choices(placement, unit):
                assert told == inf
                continue
            expected = naive(placement.world, without | {unit: at}) - base
            finite += told < inf
            row = table[placement.world.masters[at].name]
            parts = row.client_s + row.peers_s + row.congestion_s + row.opening_s
            for value in (told, price.at(unit, at), parts, row.price):
                assert value == pytest.approx(expected, abs=1e-9)
            assert bool(row.reason) == (expected == inf)
            assert row.here == (where.get(unit) == at)
    assert finite > 5
    assert dict(placement.items()) == where  # Asking for a price changes nothing.


@pytest.mark.parametrize("kind", KINDS)
def test_all_prices_at_once_are_those_of_one_master_at_a_time(kind: str) -> None:
    """To the last bit where no home is priced: many flows, pins, frozen and draining masters."""
    congestion, _ = KINDS[kind]
    rng = random.Random(7)
    world = worlds.world(rng, masters=9, clients=6, topics=6, clones=14)
    world.masters = [
        msgspec.structs.replace(
            each, compute=12 * each.compute, storage_bytes=4 * each.storage_bytes
        )
        for each in world.masters
    ]
    placement = Placement(world)
    for unit in world.units():
        placement.put(unit, rng.choice(worlds.choices(placement, unit)))
    price = Price(placement, congestion)
    units = [unit for unit in world.units() if unit.kind != "home"]
    world.pins[units[-1]] = 4
    world.freeze("m5")
    world.drain("m6")
    finite = 0
    for unit in units:
        here = placement.remove(unit)
        weights = list(peers_of(placement, unit).items())
        for at, told in enumerate(price.all(unit)):
            closed = at in {5, 6} or (unit == units[-1] and at != 4)
            sums = 0.0
            for other, rate in weights:
                sums += rate * world.between[at][other]
            plus = Addition(
                world.load_of(unit),
                world.storage_of(unit),
                processor=unit.name if unit.kind == "processor" else None,
            )
            used = placement.accounts[at].in_use
            opening = 0.0 if used else world.masters[at].opening_cost
            slow = sums + Congestion.toll(congestion, placement, at, plus) + opening
            assert told == (inf if closed else slow)
            finite += told < inf
        placement.put(unit, here)
    assert finite > 20
    assert congestion.tolls(placement, plus) == Congestion.tolls(congestion, placement, plus)


def peers_of(placement: Placement, unit: Unit) -> dict[int, float]:
    """Messages a second to and from each master, in the order in which a price meets them."""
    weights: dict[int, float] = {}
    world = placement.world
    for peer, rate in world.peers.get(unit, {}).items():
        at = placement.where(peer)
        assert at is not None
        weights[at] = weights.get(at, 0.0) + rate
    if unit.kind == "processor" and unit.name in placement.members:
        members, topic = placement.members[unit.name], world.topics[unit.name]
        for at, rate in members.published.items():
            weights[at] = weights.get(at, 0.0) + rate * len(topic.subscribers)
        for at, number in members.subscribers.items():
            weights[at] = weights.get(at, 0.0) + world.rates[unit.name] * number
    return weights


def office(**limits: float) -> Placement:
    """Three masters in a line, one client of a topic that another at the far end hears."""
    masters = [Master("m1"), msgspec.structs.replace(Master("m2"), **limits), Master("m3")]
    links = [Link("m1", "m2", 0.01), Link("m2", "m3", 0.01), Link("m1", "m3", 0.02)]
    clients = [
        Client("c1", {"m1": 0.009, "m2": 0.002}, age_s=40.0),
        Client("c2", {"m1": 0.03, "m3": 0.001}),
    ]
    topics = [Topic("doors", {"c1": 2.0}, frozenset({"c2"}), 100.0, 0.01)]
    world = World(masters, links, clients, topics)
    return Placement(world, [(Unit("home", "c2"), "m3")])


def test_why_tells_every_price_and_every_reason() -> None:
    placement = office(storage_bytes=50.0)
    placement.place(Unit("home", "c1"), "m1")
    rows = Price(placement, Limits()).why(Unit("home", "c1"))
    assert [(row.master, row.here, row.reason) for row in rows] == [
        ("m1", True, ""),
        ("m2", False, "needs 100 bytes of storage, has 50"),
        ("m3", False, "is out of the client's reach"),
    ]
    assert rows[0].price == pytest.approx(2 * (0.009 + 0.02))
    assert rows[0].age_s == 40.0


def test_with_a_delegate_the_topic_goes_there_and_is_named() -> None:
    placement = office(storage_bytes=50.0)
    limits = Limits("m3", 0.001)
    price = Price(placement, limits)
    assert price.arrive(Unit("home", "c1")) == 1
    assert limits.topics(placement, 1) == ["doors"]
    assert limits.topics(placement, 0) == []
    assert price.total() == pytest.approx(2 * (0.002 + 2 * 0.001 + 0.001))


@pytest.mark.parametrize(
    "wrapped", [lambda each: each, lambda each: Combined([LearnedTail(few), each])]
)
def test_a_delegate_that_is_no_master_is_refused(wrapped: Callable[[Limits], Congestion]) -> None:
    with pytest.raises(PlacementError) as refused:
        Price(office(), wrapped(Limits("cloud", 0.001)))
    assert str(refused.value) == "there is no master 'cloud': known are m1, m2, m3"


@pytest.mark.parametrize("delay_s", [-0.1, inf, nan])
@pytest.mark.parametrize("kind", [lambda delay: Limits("m3", delay), Delegation])
def test_the_delay_to_where_messages_are_delegated_is_a_number(
    kind: Callable[[float], Congestion], delay_s: float
) -> None:
    with pytest.raises(PlacementError, match=r"^the delay to the \w+ is .*: give a number"):
        kind(delay_s)


def test_the_delegate_itself_delegates_nothing() -> None:
    placement = office(storage_bytes=50.0)
    price = Price(placement, Limits("m2", 0.001))
    rows = {row.master: row for row in price.why(Unit("home", "c1"))}
    assert rows["m2"].reason == "needs 100 bytes of storage, has 50"


def test_pins_draining_and_frozen_masters_come_before_the_price() -> None:
    placement = office()
    home = Unit("home", "c1")
    price = Price(placement, Congestion())
    assert price.best(home) == 1
    placement.world.freeze("m2")
    assert price.best(home) == 0
    placement.place(home, "m2")
    assert price.best(home) == 1  # It takes no others, and keeps its own.
    placement.world.drain("m2")
    assert price.best(home) == 0
    placement.world.pin([Pin(home, "m1")])
    reasons = {row.master: row.reason for row in price.why(home)}
    assert reasons["m2"] == "is not m1, where it is pinned"
    placement.world.drain("m1")
    assert price.best(home) is None
    placement.remove(home)
    with pytest.raises(PlacementError) as refused:
        price.arrive(home)
    assert str(refused.value) == "no master may have home c1: m1 is draining"


def test_a_processor_alone_is_let_in_even_if_it_misses_its_objective() -> None:
    placement = office()
    world = placement.world
    for name in ("p1", "p2"):
        placement.put_topic(Topic(name, {"c1": 1.0}, processor=True))
    price = Price(placement, LearnedTail(lambda master, topics: False))
    assert price.arrive(Unit("processor", "p1")) == 0
    assert price.arrive(Unit("processor", "p2")) == 1
    table = {row.master: row for row in price.why(Unit("processor", "p2"))}
    assert table["m1"].reason == "a topic would miss its objective beside 1 other processors"
    assert world.masters[1].name == "m2"


def test_equal_prices_leave_a_unit_where_it_is() -> None:
    world = World(
        [Master("m1"), Master("m2")], topics=[Topic("t", processor=True)], unknown_delay_s=0
    )
    placement = Placement(world, [(Unit("processor", "t"), "m2")])
    assert Price(placement, Congestion()).best(Unit("processor", "t")) == 1


def test_who_stands_in_for_those_at_a_master_does_not_open_it() -> None:
    masters = [Master("m1"), Master("m2", opening_cost=5.0)]
    heard = Client("@m2", {"m2": 0.0}, stand_in=True)
    topic = Topic("t", {}, frozenset({"@m2"}), processor=True)
    told = World(masters, [Link("m1", "m2", 0.1)], [heard, Client("b", {"m2": 0.0})], [topic])
    unit = Unit("processor", "t")
    price = Price(Placement(told, [(unit, "m1"), (Unit("home", "@m2"), "m2")]), Limits())
    assert price.total() == 0.0
    assert price.at(unit, 1) == 5.0
    price.placement.place(Unit("home", "b"), "m2")
    assert price.total() == 5.0
    assert price.at(unit, 1) == 0.0


def test_two_kinds_may_not_both_delegate() -> None:
    with pytest.raises(ValueError, match="two kinds"):
        Combined([Delegation(1.0), Limits("cloud", 1.0)])
