"""A master's measurements for placement: its topics, its subscribers, its homes."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from agent.master.moves.home_plane import HomeChoice
from agent.placement.arrival_rates import Rates
from agent.placement.told import UNKNOWN_S
from agent.placement.view import named
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

# Of keys of counts: no topic has such a name.
HOME: Final = "home/"
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
        homes: Callable[[], Sequence[HomeChoice]],
    ) -> None:
        self._iad = config.iad.name
        self._config = config.placement
        self._partners = partners
        self._offered = {member.iad: AreaSet(member.areas) for member in config.pool}
        self._topics = topics
        self._sizes, self._listeners, self._homes = sizes, listeners, homes
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
        for home in self._homes():
            counts |= {(HOME, home.name, iad): count for iad, count in home.counts.items()}
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
        homes = self._home_facts(delays)
        heard = Counter(self._listeners())
        for home in homes:
            heard.subtract(home.hears)
        staying = [each for each in self._topics.statuses if each not in statuses]
        for each in staying:
            heard.update(each.topic.clone.peers if each.topic.clone else ())
        load = sum(
            (self._rates.per_s(each.topic.name) or 0.0) * (each.cpu_ms or 0.0) / 1e3
            for each in staying
        )
        listeners = [
            Listeners(topic, count)
            for topic, count in sorted(heard.items())
            if count > 0 and _is_told(topic)
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
            homes=tuple(homes),
            delays=tuple(delays),
            pins=tuple(pinned[:MAX_PINS]),
            delegate=config.delegate,
        )
        return fitting(facts)

    def _home_facts(self, delays: Sequence[Delay]) -> list[HomeFacts]:
        """Those that may move. What is not measured to another master is at least the difference of
        the delay to this one and the way between both, and at most the sum: the longer of the two
        is the middle."""
        between_ms = {each.iad: each.p50_ms for each in delays}
        found: list[HomeFacts] = []
        for home in self._homes():
            ways_ms = home.ways_ms
            others = sorted(set(ways_ms).intersection(self._partners))[: MAX_CHOICES - 1]
            if others and _is_short(home.name) and len(found) < MAX_HOMES:
                own_ms = ways_ms.get(self._iad) or 0.0
                delays_ms = {self._iad: own_ms}
                for iad in others:
                    way_ms = ways_ms[iad]
                    guess_ms = max(own_ms, between_ms.get(iad, UNKNOWN_S * 1e3))
                    delays_ms[iad] = guess_ms if way_ms is None else way_ms
                delays_ms = {iad: round(way_ms, 4) for iad, way_ms in delays_ms.items()}
                hears = [topic for topic in home.hears if _is_told(topic)][:MAX_CHOICES]
                exchanges = self._exchanges(home)
                found.append(
                    HomeFacts(home.name, delays_ms, hears=tuple(hears), exchanges=exchanges)
                )
        return found

    def _exchanges(self, home: HomeChoice) -> tuple[Source, ...]:
        rates = {
            iad: rate for iad in home.counts if (rate := self._rates.per_s((HOME, home.name, iad)))
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


def _is_short(name: str) -> bool:
    """Whether a home of this name is told. A client chooses what its subscription is called."""
    return len(name.encode()) <= MAX_NAME and name.isprintable()


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
