"""Random worlds, and random changes of them."""

from __future__ import annotations

import random
from math import inf

from agent.placement.placement import Placement
from agent.placement.world import Client, Flow, Link, Master, Topic, Unit, World


def client(rng: random.Random, name: str, masters: int) -> Client:
    """A client that reaches some masters, the first always."""
    reached = [at for at in range(masters) if not at or rng.random() < 0.8]
    return Client(name, {f"m{at}": rng.randrange(1, 50) / 1_000 for at in reached})


def topic(rng: random.Random, name: str, clients: list[str]) -> Topic:
    """A topic with up to half of the clients as members."""
    publishers = rng.sample(clients, rng.randrange(len(clients) // 2 + 1))
    subscribers = rng.sample(clients, rng.randrange(len(clients) // 2 + 1))
    return Topic(
        name,
        {each: rng.randrange(1, 9) / 4 for each in publishers},
        frozenset(subscribers),
        spool_bytes=rng.randrange(1, 6),
        service_s=rng.randrange(1, 5) / 64,
        processor=rng.random() < 0.3,
        state_bytes=len(subscribers) % 3,
    )


def world(
    rng: random.Random,
    masters: int = 4,
    clients: int = 8,
    topics: int = 4,
    clones: int = 4,
    *,
    limited: bool = True,
    opening: bool = True,
    delegate: str = "",
) -> World:
    """A world of this size, with limits that some placements exceed. A `delegate` is a master
    besides, which takes no units."""

    def limit(most: int) -> float:
        return rng.randrange(most // 2, most) if limited and rng.random() < 0.7 else inf

    names = [f"m{at}" for at in range(masters)]
    hosts = [
        Master(
            name,
            storage_bytes=limit(12),
            compute=limit(24) / 4,
            opening_cost=rng.randrange(3) / 10 if opening else 0.0,
        )
        for name in names
    ]
    links = [
        Link(one, other, rng.randrange(1, 80) / 1_000)
        for at, one in enumerate(names)
        for other in names[:at]
    ]
    members = [client(rng, f"c{n}", masters) for n in range(clients)]
    known = [each.name for each in members]
    units = [Unit("clone", f"d{n}") for n in range(clones)]
    flows = [
        Flow(one, other, rng.randrange(1, 9) / 4)
        for n, one in enumerate(units)
        for other in units[:n]
        if rng.random() < 0.6
    ]
    if delegate:
        hosts.append(Master(delegate))
        links += [Link(delegate, name, 0.0) for name in names]
    made = World(hosts, links, members, [topic(rng, f"t{n}", known) for n in range(topics)], flows)
    if delegate:
        made.freeze(delegate)
    return made


def choices(placement: Placement, unit: Unit) -> list[int]:
    """The masters that a unit may live on."""
    world = placement.world
    everywhere = [at for at in range(len(world.masters)) if at not in world.frozen]
    if unit.kind != "home":
        return everywhere
    return [at for at in everywhere if placement.world.reach[unit.name][at] < inf]


def change(rng: random.Random, placement: Placement, fresh: int) -> None:
    """One random event: a unit is placed, moved or removed, a client joins, leaves or moves, a
    topic or flow changes."""
    world = placement.world
    masters = [each.name for each in world.masters]
    clients = list(world.reach)
    what = rng.randrange(10)
    if what < 6:
        units = list(world.units())
        if not units:
            return
        unit = rng.choice(units)
        at = rng.choice(choices(placement, unit))
        if placement.where(unit) is None:
            placement.place(unit, masters[at])
        elif rng.random() < 0.7:
            placement.move(unit, at)
        else:
            placement.remove(unit)
    elif what == 6:
        topics = list(world.topics)
        joined = placement.join(
            client(rng, f"n{fresh}", len(masters)),
            {each: rng.randrange(1, 9) / 4 for each in rng.sample(topics, len(topics) // 2)},
            rng.sample(topics, len(topics) // 2),
        )
        placement.place(joined, masters[0])
    elif what == 7 and len(clients) > 3:
        placement.leave(rng.choice(clients))
    elif what == 8 and clients:
        name = rng.choice([*world.topics, f"s{fresh}"])
        if name in world.topics and rng.random() < 0.2:
            placement.drop_topic(name)
        else:
            placement.put_topic(topic(rng, name, clients))
    else:
        units = list(world.units())
        if len(units) > 1:
            one, other = rng.sample(units, 2)
            placement.put_flow(Flow(one, other, rng.randrange(0, 9) / 4))
