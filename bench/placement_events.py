"""A client joins, leaves or moves: 10,000 clients × 1,000 topics × 100 servers, priced at every
server, against a recount of all accounts and of the whole cost.

The value is the time of an event as the master takes it: facts and accounts updated, the client
priced at all servers, and placed at the cheapest. The peer computes the accounts and the cost from
scratch. CPU time, in one thread without any input or output.
"""

from __future__ import annotations

import random
import time
from math import dist, inf

from agent.placement.congestion import Limits
from agent.placement.placement import Placement
from agent.placement.price import Price
from agent.placement.world import Client, Link, Master, Topic, Unit, World
from bench.output import Result, result

CLIENTS = 10_000
TOPICS = 1_000
SERVERS = 100
MEMBERS = 15  # of a topic: each publishes and subscribes
EVENTS = 300
KM = 25.0
GOAL_S = 1e-3
LIMIT = 400.0  # bytes: about twice what a server needs, topics having spools of one byte


def crowd(rng: random.Random) -> tuple[World, list[tuple[float, float]]]:
    """Servers on a grid, topics with members around a point of their own; and the servers'
    positions."""
    side = int(SERVERS**0.5)
    servers = [
        (KM * (n % side + 0.5) / side, KM * (n // side + 0.5) / side) for n in range(SERVERS)
    ]
    masters = [Master(f"s{n}", storage_bytes=LIMIT) for n in range(SERVERS)]
    links = [
        Link(f"s{one}", f"s{other}", dist(servers[one], servers[other]) / 1_000)
        for one in range(SERVERS)
        for other in range(one)
    ]
    clients = [client(rng, f"c{n}", servers) for n in range(CLIENTS)]
    topics = []
    for n in range(TOPICS):
        members = [f"c{member}" for member in rng.sample(range(CLIENTS), MEMBERS)]
        topics.append(Topic(f"t{n}", dict.fromkeys(members, 1.0), frozenset(members), 1.0, 0.001))
    return World(masters, links, clients, topics), servers


def client(rng: random.Random, name: str, servers: list[tuple[float, float]]) -> Client:
    """A client at a random point."""
    at = (rng.uniform(0, KM), rng.uniform(0, KM))
    return Client(name, {f"s{n}": dist(at, place) / 1_000 for n, place in enumerate(servers)})


def event(
    rng: random.Random, price: Price, servers: list[tuple[float, float]], fresh: int
) -> float:
    """Duration of a join, leave or move."""
    placement = price.placement
    world = placement.world
    kind = fresh % 3
    new = client(rng, f"n{fresh}", servers)
    topics = rng.sample(list(world.topics), 2)
    old = rng.choice(list(world.reach))
    moved = Client(old, new.delays)
    started = time.process_time()
    if kind == 0:
        price.arrive(placement.join(new, dict.fromkeys(topics, 1.0), topics))
    elif kind == 1:
        placement.leave(old)
    else:
        world.put_client(moved)
        home = Unit("home", old)
        best = price.best(home)
        assert best is not None
        if best != placement.where(home):
            placement.move(home, best)
    return time.process_time() - started


def scratch(price: Price) -> float:
    """Duration of the accounts and the cost of the whole placement, from scratch."""
    started = time.process_time()
    fresh = Price(price.placement.copy(), price.congestion).total()
    taken = time.process_time() - started
    assert fresh < inf
    return taken


def run() -> list[Result]:
    """Goal of placement-events: at most 1 ms."""
    rng = random.Random(18)
    world, servers = crowd(rng)
    price = Price(Placement(world), Limits())
    for unit in list(world.units()):
        price.arrive(unit)
    times: dict[str, list[float]] = {"join": [], "leave": [], "move": []}
    for n in range(EVENTS):
        times[("join", "leave", "move")[n % 3]].append(event(rng, price, servers, n))
    whole = min(scratch(price) for _ in range(3))
    taken = sorted(each for some in times.values() for each in some)
    mean = sum(taken) / len(taken)
    return [
        result(
            "placement-events",
            mean,
            "ms",
            "all accounts and the whole cost from scratch",
            whole,
            most=GOAL_S,
            p99_ms=round(taken[int(len(taken) * 0.99)] * 1e3, 4),
            mean_ms={kind: round(sum(t) / len(t) * 1e3, 4) for kind, t in times.items()},
            clients=CLIENTS,
            topics=TOPICS,
            servers=SERVERS,
        )
    ]
