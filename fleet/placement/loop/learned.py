"""Facts of masters and topics from the lake's models, in the form that masters gossip.

So the planners of live masters plan from logs, too: they get a `View` of these facts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agent.wire.messages import Slo
from agent.wire.placement import (
    MAX_PEERS,
    MAX_SOURCES,
    Delay,
    Listeners,
    PeerRate,
    PinnedUnit,
    PlacementFacts,
    Source,
    TopicFacts,
    UnitName,
)
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.models import PLACING

INTERVAL_S: Final = 60.0


class Service(Struct, frozen=True):
    """A row of SERVICE_TIMES."""

    topic: str
    processor: str
    iad: str
    percentile: float | None
    slo_ms: float | None
    messages: int
    cpu_ms: float | None
    achieved_ms: float | None
    state_bytes: int

    @property
    def slo(self) -> Slo | None:
        """Its objective."""
        if self.percentile is None or self.slo_ms is None:
            return None
        return Slo(self.percentile, self.slo_ms)


class Arrivals(Struct, frozen=True):
    """A row of TOPIC_ARRIVALS."""

    topic: str
    source: str
    peer: str
    hour: int
    per_s: float
    most_per_s: float
    records: int
    days: int


class Way(Struct, frozen=True):
    """A row of MASTER_DELAYS."""

    iad: str
    other: str
    p50_ms: float
    p90_ms: float
    records: int


class Pin(Struct, frozen=True):
    """A unit that was pinned."""

    kind: str
    unit: str
    iad: str


class Recorded(Struct, frozen=True):
    """A row of MASTERS."""

    iad: str
    time: datetime
    records: int
    mode: str
    cores: int
    compute: float | None
    storage_bytes: float | None
    most_processors: int | None
    opening_cost: float
    topics: tuple[str, ...]
    listeners: tuple[Listeners, ...]
    pins: tuple[Pin, ...]


class Learned(Struct, frozen=True):
    """The models of placement."""

    services: tuple[Service, ...] = ()
    arrivals: tuple[Arrivals, ...] = ()
    ways: tuple[Way, ...] = ()
    masters: tuple[Recorded, ...] = ()

    def hours(self, topics: Collection[str]) -> frozenset[int]:
        """The hours of the day of which something is known of one of these topics."""
        return frozenset(each.hour for each in self.arrivals if each.topic in topics)


def read_learned(lake: Lake) -> Learned:
    """The models that were written last; nothing of Spark is needed."""
    from pyarrow import parquet

    def rows(name: str) -> list[dict[str, Any]]:
        folder = lake.models / name
        return parquet.read_table(folder).to_pylist() if folder.is_dir() else []

    found = [rows(table.name) for table in PLACING]
    return msgspec.convert(
        dict(zip(("services", "arrivals", "ways", "masters"), found, strict=True)), Learned
    )


def model_file(lake: Lake) -> Path:
    """Path of the latency model that was trained last."""
    return lake.models / "latency-model.json"


# -- facts ---------------------------------------------------------------------------------------


def recorded_facts(learned: Learned, iads: Collection[str]) -> list[PlacementFacts]:
    """The placement as these masters recorded it last, without rates."""
    return [
        PlacementFacts(
            each.iad,
            0,
            0,
            INTERVAL_S,
            cores=max(1, each.cores),
            mode=each.mode if each.mode in ("frozen", "draining") else "open",  # type: ignore[arg-type]  # a later release may have others
            compute=each.compute,
            storage_bytes=each.storage_bytes,
            most_processors=each.most_processors,
            opening_cost=each.opening_cost,
            topics=tuple([TopicFacts(name) for name in each.topics]),
            listeners=each.listeners,
            pins=tuple(
                [
                    PinnedUnit(UnitName(pin.kind, pin.unit), pin.iad)  # type: ignore[arg-type]  # ditto
                    for pin in each.pins
                    if pin.kind in ("home", "processor", "clone")
                ]
            ),
        )
        for each in learned.masters
        if each.iad in iads
    ]


def renewed(
    facts: Iterable[PlacementFacts], learned: Learned, hours: Collection[int] | None = None
) -> list[PlacementFacts]:
    """The same masters with what the lake knows better than one of their messages: delays, CPU
    times, and the rates of each topic in its busiest of these hours of the day; without `hours`
    its mean rates."""
    told = list(facts)
    services = {each.topic: each for each in learned.services}
    rates = mean(learned.arrivals) if hours is None else busiest(learned.arrivals, hours)
    known = {each.iad for each in told}
    ways: dict[str, list[Delay]] = {}
    for way in learned.ways:
        if way.other in known:
            ways.setdefault(way.iad, []).append(Delay(way.other, way.p50_ms, way.p90_ms))
    return [
        replace(
            each,
            topics=tuple([_topic(topic, services, rates) for topic in each.topics]),
            delays=tuple(_delays(each.delays, ways.get(each.iad, ()))),
        )
        for each in told
    ]


def mean(arrivals: Iterable[Arrivals]) -> dict[str, dict[tuple[str, str], float]]:
    """Of each topic the messages a second by (source, peer), over all its records."""
    found = list(arrivals)
    records: dict[str, int] = {}
    for (topic, _), count in {(row.topic, row.hour): row.records for row in found}.items():
        records[topic] = records.get(topic, 0) + count
    rates: dict[str, dict[tuple[str, str], float]] = {}
    for row in found:
        of_topic = rates.setdefault(row.topic, {})
        came = row.per_s * row.records / records[row.topic]
        of_topic[row.source, row.peer] = of_topic.get((row.source, row.peer), 0.0) + came
    return rates


def busiest(
    arrivals: Iterable[Arrivals], hours: Collection[int]
) -> dict[str, dict[tuple[str, str], float]]:
    """Of each topic the messages a second by (source, peer), in that of these hours in which most
    came."""
    by_hour: dict[str, dict[int, dict[tuple[str, str], float]]] = {}
    for each in arrivals:
        if each.hour in hours:
            of_topic = by_hour.setdefault(each.topic, {})
            of_topic.setdefault(each.hour, {})[each.source, each.peer] = each.per_s
    return {
        topic: max(of_topic.values(), key=lambda rates: sum(rates.values()))
        for topic, of_topic in by_hour.items()
    }


def _lasting(recorded_ms: float | None, now_ms: float | None) -> float | None:
    """The latency that a topic had and still has: what a move has mended is not mended again."""
    known = [each for each in (recorded_ms, now_ms) if each is not None]
    return min(known, default=None)


def _delays(told: Iterable[Delay], recorded: Iterable[Delay]) -> Iterable[Delay]:
    return {each.iad: each for each in (*told, *recorded)}.values()


def _topic(
    told: TopicFacts,
    services: Mapping[str, Service],
    rates: Mapping[str, Mapping[tuple[str, str], float]],
) -> TopicFacts:
    service = services.get(told.name)
    found = told
    if service is not None:
        found = replace(
            found,
            processor=service.processor,
            cpu_ms=told.cpu_ms if service.cpu_ms is None else service.cpu_ms,
            latency_ms=_lasting(service.achieved_ms, told.latency_ms),
            state_bytes=max(told.state_bytes, float(service.state_bytes)),
            slo=told.slo or service.slo,
        )
    if told.name in rates:
        came = {key: rate for key, rate in rates[told.name].items() if rate}
        sources = {iad: rate for (iad, peer), rate in came.items() if iad and not peer}
        peers = {(peer, iad): rate for (iad, peer), rate in came.items() if peer}
        largest = sorted(sources, key=lambda iad: (-sources[iad], iad))[:MAX_SOURCES]
        nearest = sorted(peers, key=lambda key: (-peers[key], key))[:MAX_PEERS]
        found = replace(
            found,
            sources=tuple([Source(iad, sources[iad]) for iad in largest]),
            per_s=sum(sources.values()) if len(sources) > MAX_SOURCES else None,
            peers=tuple([PeerRate(topic, peers[topic, iad], iad) for topic, iad in nearest]),
        )
    return found


def groups(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> list[frozenset[str]]:
    """Masters that talk to each other about placement, directly or by others: a unit can move
    within a group only. Those alone are left out."""
    of: dict[str, set[str]] = {name: {name} for name in names}
    for one, other in pairs:
        if one in of and other in of and of[one] is not of[other]:
            of[one] |= of[other]
            for name in of[other]:
                of[name] = of[one]
    found = {id(group): frozenset(group) for group in of.values() if len(group) > 1}
    return sorted(found.values(), key=sorted)
