"""A placement made of what masters told: what contradicts itself is left out, and told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Final

from msgspec.structs import replace

from agent.placement.congestion import ROUNDING
from agent.placement.placement import Placement
from agent.placement.world import (
    Client,
    Flow,
    Link,
    Master,
    Objective,
    Pin,
    PlacementError,
    Topic,
    Unit,
    World,
)
from agent.wire.placement import HomeFacts, PlacementFacts, TopicFacts

# Who publishes and subscribes at a master without a home of its own that moves. No client has such
# a name.
AT: Final = "@"
# Subscribers of one topic at one master that are counted.
MAX_COUNTED: Final = 32
# Between masters of which none has measured the delay.
UNKNOWN_S: Final = 0.05
UNKNOWN_CPU_S: Final = 0.001  # of a topic whose processor nobody has measured
MAX_CORES: Final = 4_096  # that the latency model takes; others may tell more


class Told:
    """A world of masters that are not silent, and where the units live. What contradicts itself in
    what masters told is left out, and said in `troubles`."""

    def __init__(self, facts: Iterable[PlacementFacts]) -> None:
        """`facts`: of each master the newest, in the order in which they are believed in doubt,
        one's own first. O(masters² + units · masters)."""
        told = [_without_stand_ins(each) for each in facts]
        self.facts: dict[str, PlacementFacts] = {each.iad: each for each in told}
        # The master that takes what no other has room for; "" if none is named, or it is silent.
        self.delegate = next((each.delegate for each in told if each.delegate in self.facts), "")
        self.troubles: list[str] = []
        # Peers of a topic that no master here has told.
        self.unseen: dict[str, list[str]] = {}
        topics = self._topics(told)
        self._homes = self._lives()
        self.placement = Placement(self._world(topics))
        self._place(topics)
        self._pin(told)

    @property
    def world(self) -> World:
        return self.placement.world

    def where(self, unit: Unit) -> str | None:
        """The master where a unit lives, by its name."""
        at = self.placement.where(unit)
        return None if at is None else self.world.masters[at].name

    def _topics(self, told: list[PlacementFacts]) -> dict[str, tuple[str, TopicFacts]]:
        found: dict[str, tuple[str, TopicFacts]] = {}
        for facts in told:
            for topic in facts.topics:
                first, known = found.setdefault(topic.name, (facts.iad, topic))
                if first == facts.iad or _took(first, known, facts.iad, topic):
                    continue
                if first != told[0].iad and _took(facts.iad, topic, first, known):
                    found[topic.name] = facts.iad, topic
                else:
                    self.troubles.append(
                        f"topic {topic.name} is kept by {first} and by {facts.iad}; "
                        f"that of {first} is counted"
                    )
        return found

    def _world(self, topics: Mapping[str, tuple[str, TopicFacts]]) -> World:
        told = sorted(self.facts.values(), key=lambda each: each.iad)
        clients: dict[str, Client] = {}
        exchanges: list[Flow] = []
        self._cpu_s = _cpu_s(told)
        # By topic.
        self._publish: dict[str, list[tuple[str, str, float]]] = {}
        self._hear: dict[str, list[str]] = {}
        self._listeners: dict[str, list[tuple[str, int]]] = {}
        for facts in told:
            for each in facts.listeners:
                self._listeners.setdefault(each.topic, []).append((facts.iad, each.count))
            for home in facts.homes:
                for name, rate in home.publishes.items():
                    self._publish.setdefault(name, []).append((facts.iad, home.name, rate))
                for name in home.hears:
                    self._hear.setdefault(name, []).append(home.name)
                delays = {
                    iad: ms / 1e3 for iad, ms in home.delays_ms.items() if iad in self.facts
                } | {facts.iad: home.delays_ms.get(facts.iad, 0.0) / 1e3}
                # Delays and place come from one teller, so that the place is within reach.
                if self._homes[home.name] == facts.iad:
                    rate = sum(each.per_s for each in home.exchanges)
                    clients[home.name] = Client(home.name, delays, home.age_s, exchanges=rate)
                    exchanges += self._exchanges(facts.iad, home, clients)
        made = [self._topic(iad, topic, clients, topics) for iad, topic in topics.values()]
        world = World(
            [_master(each) for each in told],
            self._links(told),
            clients.values(),
            made,
            [*_flows(topics), *exchanges],
            unknown_delay_s=UNKNOWN_S,
        )
        for facts in told:
            if facts.mode == "frozen":
                world.freeze(facts.iad)
            elif facts.mode == "draining":
                world.drain(facts.iad)
        return world

    def _topic(
        self,
        owner: str,
        told: TopicFacts,
        clients: dict[str, Client],
        known: Collection[str],
    ) -> Topic:
        """A topic, whose members at masters become clients that can live there only. What is
        published at masters that are not seen here comes to the topic's own. A peer that is not
        `known` is a publisher at the master that its messages came from."""
        name = told.name
        rates = {each.iad: each.per_s for each in told.sources if each.iad in self.facts}
        every = max(told.per_s or 0.0, sum(each.per_s for each in told.sources))
        peer_rate = 0.0
        for peer in told.peers:
            if peer.topic == name:
                continue
            if peer.topic in known:
                peer_rate += peer.per_s
                continue
            self.unseen.setdefault(name, []).append(peer.topic)
            every += peer.per_s
            if peer.iad in self.facts:
                rates[peer.iad] = rates.get(peer.iad, 0.0) + peer.per_s
        if (rest := every - sum(rates.values())) > ROUNDING * every:
            rates[owner] = rates.get(owner, 0.0) + rest
        publishers: dict[str, float] = {}
        for iad, home, rate in self._publish.get(name, ()):
            publishers[home] = rate
            rates[iad] = max(0.0, rates.get(iad, 0.0) - rate)
        hears = set(self._hear.get(name, ()))
        for iad, count in self._listeners.get(name, ()):
            hears.update(_fixed(iad, n, clients) for n in range(min(count, MAX_COUNTED)))
        publishers |= {_fixed(iad, 0, clients): rate for iad, rate in rates.items() if rate > 0}
        goal = told.slo
        return Topic(
            name,
            publishers,
            frozenset(hears),
            service_s=self._cpu_s.get(told.processor, UNKNOWN_CPU_S)
            if told.cpu_ms is None
            else told.cpu_ms / 1e3,
            processor=True,
            objective=Objective.told(goal.percentile, goal.latency_ms) if goal else None,
            state_bytes=told.state_bytes,
            peer_rate=peer_rate,
        )

    def _exchanges(self, owner: str, home: HomeFacts, clients: dict[str, Client]) -> list[Flow]:
        """Traffic between a home and other masters. With one that is not seen here it goes by
        way of the home's present one."""
        rates: dict[str, float] = {}
        for each in home.exchanges:
            iad = each.iad if each.iad in self.facts else owner
            rates[iad] = rates.get(iad, 0.0) + each.per_s
        return [
            Flow(Unit("home", home.name), Unit("home", _fixed(iad, 0, clients)), rate)
            for iad, rate in rates.items()
            if rate > 0
        ]

    def _links(self, told: list[PlacementFacts]) -> list[Link]:
        """Of two masters that measured, the one that did it last is believed."""
        best: dict[tuple[str, str], Link] = {}
        for facts in told:
            for delay in facts.delays:
                if delay.iad not in self.facts or delay.iad == facts.iad:
                    continue
                one, other = sorted((facts.iad, delay.iad))
                known = best.get((one, other))
                if known is None or delay.age_s < known.age_s:
                    best[one, other] = Link(one, other, delay.p50_ms / 1e3, delay.age_s)
        return list(best.values())

    def _lives(self) -> dict[str, str]:
        """The master of each home: the first that told it."""
        homes: dict[str, str] = {}
        for facts in self.facts.values():
            for home in facts.homes:
                first = homes.setdefault(home.name, facts.iad)
                if first != facts.iad:
                    self.troubles.append(f"home {home.name} is at {first} and at {facts.iad}")
        return homes

    def _place(self, topics: Mapping[str, tuple[str, TopicFacts]]) -> None:
        homes = dict(self._homes)
        for client, row in self.world.reach.items():
            if client.startswith(AT):
                at = next(n for n, delay in enumerate(row) if delay < inf)
                homes[client] = self.world.masters[at].name
        for client, iad in homes.items():
            self.placement.place(Unit("home", client), iad)
        for name, (iad, _) in topics.items():
            self.placement.place(Unit("processor", name), iad)

    def _pin(self, told: list[PlacementFacts]) -> None:
        """The word of the master where a unit lives counts; that of others is from before."""
        pins = [
            Pin(unit, each.iad)
            for facts in told
            for each in facts.pins
            if each.iad in self.facts
            and self.where(unit := Unit(each.unit.kind, each.unit.name)) == facts.iad
        ]
        kept: list[Pin] = []
        for pin in pins:
            try:
                self.world.pin([*kept, pin])
                kept.append(pin)
            except PlacementError as error:
                self.troubles.append(str(error))


def _without_stand_ins(facts: PlacementFacts) -> PlacementFacts:
    """Without homes that have the name of what stands for others: a master may tell anything."""
    if not any(each.name.startswith(AT) for each in facts.homes):
        return facts
    homes = tuple([each for each in facts.homes if not each.name.startswith(AT)])
    return replace(facts, homes=homes)


def _took(iad: str, topic: TopicFacts, former: str, there: TopicFacts) -> bool:
    """Whether that master took the topic over from the `former` one, which has returned and does
    not know it yet; of two that did from each other, the later one."""
    again = there.taken_from == iad and (there.taken_ms or 0) >= (topic.taken_ms or 0)
    return topic.taken_from == former and not again


def is_fixed(unit: Unit) -> bool:
    """Whether this stands for those at a master that cannot live elsewhere."""
    return unit.kind == "home" and unit.name.startswith(AT)


def _master(facts: PlacementFacts) -> Master:
    return Master(
        facts.iad,
        inf if facts.storage_bytes is None else facts.storage_bytes,
        inf if facts.compute is None else facts.compute,
        1_000_000 if facts.most_processors is None else facts.most_processors,
        min(facts.cores, MAX_CORES),
        facts.opening_cost,
    )


def _flows(topics: Mapping[str, tuple[str, TopicFacts]]) -> list[Flow]:
    """Traffic between topics, both directions together."""
    rates: dict[tuple[str, str], float] = {}
    for name, (_, told) in topics.items():
        for peer in told.peers:
            if peer.topic in topics and peer.topic != name:
                one, other = sorted((name, peer.topic))
                rates[one, other] = rates.get((one, other), 0.0) + peer.per_s
    return [
        Flow(Unit("processor", one), Unit("processor", other), rate)
        for (one, other), rate in sorted(rates.items())
    ]


def _cpu_s(told: Iterable[PlacementFacts]) -> dict[str, float]:
    """The mean CPU time of a message by processor, of the topics that were measured."""
    found: dict[str, list[float]] = {}
    for facts in told:
        for topic in facts.topics:
            if topic.cpu_ms is not None:
                found.setdefault(topic.processor, []).append(topic.cpu_ms / 1e3)
    return {processor: sum(each) / len(each) for processor, each in found.items()}


def _fixed(iad: str, number: int, clients: dict[str, Client]) -> str:
    name = f"{AT}{iad}" + (f"#{number}" if number else "")
    clients.setdefault(name, Client(name, {iad: 0.0}, stand_in=True))
    return name
