"""A master's measurements for placement: its topics, its subscribers, its homes."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from agent.placement.arrival_rates import Rates
from agent.placement.home_traffic import HomeTraffic
from agent.placement.view import UNKNOWN_S, named
from agent.placement.world import Unit
from agent.wire.areas import AreaSet
from agent.wire.codec import MAX_REQUEST_BYTES, encode
from agent.wire.master_config import MasterConfig
from agent.wire.placement import (
    MAX_CHOICES,
    MAX_HOMES,
    MAX_NAME,
    MAX_PEERS,
    MAX_PINS,
    MAX_PLACED,
    MAX_SOURCES,
    MAX_TOPICS,
    Delay,
    HomeFacts,
    Listeners,
    Mode,
    PeerRate,
    PinnedUnit,
    PlacementFacts,
    Source,
    TopicFacts,
)
from agent.wire.topics import STAYS, Topic, TopicStatus

# How the name of a node's home begins.
NODE: Final = "node/"
# Of these all fit, whatever else there is.
FEW_TOPICS: Final = 256
# What gossip adds, and lengths.
FRAME_BYTES: Final = 1 << 10
TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Topics(Protocol):
    """The topics of this master."""

    arrivals: dict[str, Counter[str]]
    # Of clones: what peers put out, by the peer's topic and the IAD where it was published.
    peer_arrivals: dict[str, Counter[tuple[str, str]]]
    on_created: Callable[[str], str]
    on_removed: Callable[[str], object]
    placed: Callable[[TopicStatus], TopicStatus]

    @property
    def statuses(self) -> tuple[TopicStatus, ...]:
        """How each does."""


class Measured:
    """`partners` are the other masters; the rest is as for `PlacementPlane`."""

    def __init__(
        self,
        config: MasterConfig,
        partners: Collection[str],
        topics: Topics,
        sizes: Callable[[], Mapping[str, float]],
        listeners: Callable[[], Mapping[str, int]],
        homes: Callable[[], Sequence[tuple[str, Collection[str]]]],
        traffic: HomeTraffic,
    ) -> None:
        self._iad = config.iad.name
        self._config = config.placement
        self._partners = partners
        self._offered = {member.iad: AreaSet(member.areas) for member in config.pool}
        self._topics = topics
        self._sizes, self._listeners, self._homes = sizes, listeners, homes
        self._traffic = traffic
        self._rates = Rates()
        self._counted_s = -math.inf

    def count(self, now: float) -> None:
        """Look at the counts of messages, now and then."""
        if now < self._counted_s + self._config.every_s / 2:
            return
        self._counted_s = now
        counts: dict[Hashable, int] = {}
        for status in self._topics.statuses:
            name = status.topic.name
            counts[name] = status.processed + status.skipped + status.waiting
            for iad, count in self._topics.arrivals.get(name, {}).items():
                counts[name, iad] = count
            for (peer, iad), count in self._topics.peer_arrivals.get(name, {}).items():
                counts[name, peer, iad] = count
        for node, numbers in self._traffic.counts.items():
            counts |= {(NODE, node, iad): count for iad, count in numbers.items()}
        self._rates.count(counts, now)

    @property
    def has_units(self) -> bool:
        """Whether anything here may live elsewhere."""
        return bool(movable(self._topics.statuses) or self._home_facts(()))

    def facts(
        self, mode: Mode, pins: Mapping[Unit, str], delays: Sequence[Delay]
    ) -> PlacementFacts:
        """This master's facts about itself. O(topics + subscriptions)."""
        config = self._config
        statuses = movable(self._topics.statuses)
        sizes = self._sizes() if statuses else {}
        # Of too many, those that were taken away are left out first.
        words = sorted(pins.items(), key=lambda each: (not each[1], each[0]))
        pinned = [PinnedUnit(named(unit), iad) for unit, iad in words]
        heard = Counter(self._listeners())
        staying = [each for each in self._topics.statuses if each not in statuses]
        for each in staying:
            heard.update(each.topic.clone.peers if each.topic.clone else ())
        load = sum(
            (self._rates.per_s(each.topic.name) or 0.0) * (each.cpu_ms or 0.0) / 1e3
            for each in staying
        )
        listeners = [
            Listeners(topic, count) for topic, count in sorted(heard.items()) if _is_told(topic)
        ]
        facts = PlacementFacts(
            self._iad,
            0,
            0,
            config.every_s,
            cores=cores(),
            mode=mode,
            compute=max(0.0, (config.compute or float(cores())) - load),
            storage_bytes=config.storage_bytes or None,
            most_processors=config.most_processors,
            opening_cost=config.opening_cost,
            topics=tuple([self._topic(each, sizes) for each in statuses[:MAX_TOPICS]]),
            listeners=tuple(listeners[:MAX_PLACED]),
            homes=tuple(self._home_facts(delays)),
            delays=tuple(delays),
            pins=tuple(pinned[:MAX_PINS]),
            delegate=config.delegate,
        )
        return fitting(facts)

    def _home_facts(self, delays: Sequence[Delay]) -> list[HomeFacts]:
        """Those that may move. To its home a node's delay is measured, if it was ever asked. To
        another master it is at least the difference of that and the way between both, and at most
        the sum: the longer of the two is the middle."""
        ways_ms = {each.iad: each.p50_ms for each in delays}
        found: list[HomeFacts] = []
        for name, choices in self._homes():
            others = sorted(set(choices).intersection(self._partners))[: MAX_CHOICES - 1]
            if others and len(name) <= MAX_NAME and len(found) < MAX_HOMES:
                node = name.removeprefix(NODE)
                own_ms = round(self._traffic.delay_ms(node) or 0.0, 4)
                delays_ms = {iad: max(own_ms, ways_ms.get(iad, UNKNOWN_S * 1e3)) for iad in others}
                exchanges = self._exchanges(node)
                delays_ms = {self._iad: own_ms, **delays_ms}
                found.append(HomeFacts(name, delays_ms, exchanges=exchanges))
        return found

    def _exchanges(self, node: str) -> tuple[Source, ...]:
        rates = {
            iad: rate
            for iad in self._traffic.counts.get(node, ())
            if (rate := self._rates.per_s((NODE, node, iad)))
        }
        largest = sorted(rates, key=lambda iad: (-rates[iad], iad))[:MAX_SOURCES]
        return tuple([Source(iad, round(rates[iad], 6)) for iad in largest])

    def _topic(self, status: TopicStatus, sizes: Mapping[str, float]) -> TopicFacts:
        topic = status.topic
        published = {
            iad: rate
            for iad in self._topics.arrivals.get(topic.name, {})
            if (rate := self._rates.per_s((topic.name, iad)))
        }
        heard = {}
        for peer, iad in self._topics.peer_arrivals.get(topic.name, {}):
            if not (rate := self._rates.per_s((topic.name, peer, iad))):
                continue
            if _is_told(peer):
                heard[peer, iad] = rate
            else:
                published[iad] = published.get(iad, 0.0) + rate
        known = sum(published.values()) + sum(heard.values())
        for iad, rate in self._readings(topic, known).items():
            published[iad] = published.get(iad, 0.0) + rate
        largest = sorted(published, key=lambda iad: (-published[iad], iad))
        peers = sorted(heard, key=lambda key: (-heard[key], key))[:MAX_PEERS]
        return TopicFacts(
            topic.name,
            tuple([Source(iad, round(published[iad], 6)) for iad in largest[:MAX_SOURCES]]),
            topic.processor,
            cpu_ms=status.cpu_ms,
            latency_ms=status.latency_ms,
            state_bytes=float(sizes.get(topic.name, 0)),
            slo=topic.slo,
            per_s=round(sum(published.values()), 6) if len(published) > MAX_SOURCES else None,
            peers=tuple([PeerRate(peer, round(heard[peer, iad], 6), iad) for peer, iad in peers]),
            # Else it is in words why it has none now.
            standby=status.standby if status.standby in self._partners else "",
            taken_from=status.taken_from,
            taken_ms=status.taken_ms,
        )

    def _readings(self, topic: Topic, known: float) -> dict[str, float]:
        """Messages a second that rounds of readings make, by the IAD that gives them: those that
        offer areas of the topic share what is measured, or else a message an area is expected."""
        if topic.every_s is None:
            return {}
        offered = {
            iad: count
            for iad, areas in self._offered.items()
            if (count := sum(areas.overlaps(area) for area in topic.areas))
        } or {self._iad: 1}
        expected = sum(offered.values()) / topic.every_s
        measured = self._rates.per_s(topic.name)
        rate = expected if not measured else max(0.0, measured - known)
        return {iad: rate * count / sum(offered.values()) for iad, count in offered.items()}


def fitting(facts: PlacementFacts, most_bytes: int = MAX_REQUEST_BYTES) -> PlacementFacts:
    """Without the last topics if all are more than a message takes. O(topics)."""
    if len(facts.topics) <= FEW_TOPICS:
        return facts
    left = most_bytes - len(encode(msgspec.structs.replace(facts, topics=()))) - FRAME_BYTES
    count = 0
    for topic in facts.topics:
        left -= len(msgspec.msgpack.encode(topic))
        if left < 0:
            break
        count += 1
    return msgspec.structs.replace(facts, topics=facts.topics[:count])


def _is_told(name: str) -> bool:
    """Whether other masters are told of a topic of this name. Filters, and what other masters put
    out, may name anything."""
    return TOPIC_NAME.fullmatch(name) is not None and not name.startswith(STAYS)


def movable(statuses: Sequence[TopicStatus]) -> list[TopicStatus]:
    """Without clones that do not leave their IAD: of these nobody is told."""
    return [each for each in statuses if each.topic.clone is None or each.topic.clone.leaves]


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0))
