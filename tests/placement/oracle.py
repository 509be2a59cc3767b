"""Accounts and cost of a placement, recomputed naively from the members of every topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from agent.placement.world import Unit, World

# The share of the messages of a topic with publishers at a master.
Delegated = Callable[[int, str], float]


class Sums(NamedTuple):
    """An account, recomputed."""

    units: int
    storage: float
    load: float
    deliveries: float
    distance: float
    processors: frozenset[str]


def deliveries(world: World) -> list[tuple[str, str, str, float]]:
    """(topic, publisher, subscriber, messages a second) of every pair of members."""
    return [
        (topic.name, one, other, rate)
        for topic in world.topics.values()
        for one, rate in topic.publishers.items()
        for other in topic.subscribers
        if topic.processor or one != other
    ]


def accounts(world: World, where: Mapping[Unit, int]) -> list[Sums]:
    """The account of every master."""
    storage: dict[int, float] = defaultdict(float)
    load: dict[int, float] = defaultdict(float)
    count: dict[int, float] = defaultdict(float)
    distance: dict[int, float] = defaultdict(float)
    processors: dict[int, set[str]] = defaultdict(set)
    homes = {unit.name: at for unit, at in where.items() if unit.kind == "home"}
    for topic in world.topics.values():
        for at in {homes[each] for each in topic.publishers if each in homes}:
            storage[at] += topic.spool_bytes
        for each, rate in topic.publishers.items():
            if each in homes and not topic.processor:
                load[homes[each]] += rate * topic.service_s
        place = where.get(Unit("processor", topic.name))
        if place is not None:
            processors[place].add(topic.name)
            storage[place] += topic.state_bytes
            load[place] += topic.service_s * sum(topic.publishers.values())
    for unit, at in where.items():
        if unit.kind == "clone":
            load[at] += sum(world.peers[unit].values())
    for name, one, other, rate in deliveries(world):
        if one in homes and other in homes and not world.topics[name].processor:
            count[homes[one]] += rate
            distance[homes[one]] += rate * world.between[homes[one]][homes[other]]
    return [
        Sums(
            sum(place == at for place in where.values()),
            storage[at],
            load[at],
            count[at],
            distance[at],
            frozenset(processors[at]),
        )
        for at in range(len(world.masters))
    ]


def distances(world: World, where: Mapping[Unit, int], far_s: float, delegated: Delegated) -> float:
    """The delay of all deliveries and flows, seconds a second, with a share of the messages that
    homes at a master process going by way of the cloud instead."""
    total = 0.0
    for client, rate in world.exchanges.items():
        home = where.get(Unit("home", client))
        total += 0.0 if home is None else rate * world.reach[client][home]
    for name, one, other, rate in deliveries(world):
        source = where.get(Unit("home", one))
        target = where.get(Unit("home", other))
        processor = where.get(Unit("processor", name))
        if source is not None:
            total += rate * world.reach[one][source]
        if target is not None:
            total += rate * world.reach[other][target]
        if world.topics[name].processor:
            if processor is not None and source is not None:
                total += rate * world.between[source][processor]
            if processor is not None and target is not None:
                total += rate * world.between[processor][target]
        elif source is not None and target is not None:
            share = delegated(source, name)
            total += rate * ((1 - share) * world.between[source][target] + share * far_s)
    for unit, peers in world.peers.items():
        for peer, rate in peers.items():
            if unit < peer and unit in where and peer in where:
                total += rate * world.between[where[unit]][where[peer]]
    return total


def opening(world: World, where: Mapping[Unit, int]) -> float:
    """The opening cost of the masters in use."""
    return sum(world.masters[at].opening_cost for at in set(where.values()))
