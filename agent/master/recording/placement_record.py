"""Writes about once a minute what a master measures for placement, for the lake."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from agent.placement.membership.gossip import with_homes
from agent.runtime.reactor import Reactor
from agent.wire.placement import PlacementFacts
from agent.wire.records import (
    ArrivalsMeasured,
    DelayMeasured,
    ListenersCounted,
    PinSet,
    PlacementRecord,
)

# A delay that was measured longer ago than so many intervals is no measurement of this one.
LASTS: Final = 2.0


class PlacementRecorder:
    """`facts` is what the master tells others of itself, `record` takes the records. A master that
    keeps no topic and talks to no master about placement writes none."""

    def __init__(
        self,
        reactor: Reactor,
        facts: Callable[[], PlacementFacts],
        record: Callable[[PlacementRecord], object],
        every_s: float,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = reactor.clock
        self._facts = facts
        self._record = record
        self._every_s = every_s
        self._wall = wall
        self._due_s = reactor.clock() + every_s
        reactor.add_timer(self)

    @property
    def next_due(self) -> float:
        """When the next record is due."""
        return self._due_s

    def tick(self, now: float) -> None:
        """Write one if it is due."""
        if self._due_s <= now:
            self._due_s = now + self._every_s
            made = record_of(self._facts(), round(self._wall() * 1e3), now, LASTS * self._every_s)
            if made.topics or made.delays:
                self._record(made)


def record_of(
    facts: PlacementFacts, wall_ms: int, start_s: float, lasts_s: float
) -> PlacementRecord:
    """The record of these facts, with the delays that were measured in the last `lasts_s`. It names
    no homes."""
    facts = with_homes(facts, lambda _: False)
    arrivals: list[ArrivalsMeasured] = []
    for topic in facts.topics:
        told = {source.iad: source.per_s for source in topic.sources}
        # Of many sources the smallest are not told one by one; they count as messages from here.
        if topic.per_s is not None and (rest := topic.per_s - sum(told.values())) > 0.0:
            told[facts.iad] = told.get(facts.iad, 0.0) + rest
        arrivals += [ArrivalsMeasured(topic.name, iad, "", per_s) for iad, per_s in told.items()]
        arrivals += [
            ArrivalsMeasured(topic.name, peer.iad, peer.topic, peer.per_s) for peer in topic.peers
        ]
    return PlacementRecord(
        facts.iad,
        wall_ms,
        start_s,
        mode=facts.mode,
        cores=facts.cores,
        compute=facts.compute,
        storage_bytes=facts.storage_bytes,
        most_processors=facts.most_processors,
        opening_cost=facts.opening_cost,
        topics=tuple([topic.name for topic in facts.topics]),
        delays=tuple(
            [
                DelayMeasured(each.iad, each.p50_ms, each.p90_ms)
                for each in facts.delays
                if each.age_s <= lasts_s
            ]
        ),
        arrivals=tuple(arrivals),
        listeners=tuple([ListenersCounted(each.topic, each.count) for each in facts.listeners]),
        pins=tuple(
            [PinSet(each.unit.kind, each.unit.name, each.iad) for each in facts.pins if each.iad]
        ),
    )
