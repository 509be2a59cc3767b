"""What a master records of its place among others: when, and what."""

from __future__ import annotations

from msgspec import structs

from agent.master.recording.placement_record import PlacementRecorder
from agent.runtime.reactor import Reactor
from agent.wire.placement import (
    Delay,
    HomeFacts,
    Listeners,
    PeerRate,
    PinnedUnit,
    PlacementFacts,
    Source,
    TopicFacts,
    UnitName,
)
from agent.wire.records import (
    ArrivalsMeasured,
    DelayMeasured,
    ListenersCounted,
    PinSet,
    PlacementRecord,
)

BUSY = PlacementFacts(
    "iad1", 1, 1, 5.0, cores=2, compute=2.0, opening_cost=0.5, mode="frozen",
    topics=(TopicFacts("comfort", (Source("iad1", 2.0), Source("iad2", 0.5))),
            TopicFacts("calm", peers=(PeerRate("clone-1", 3.0, "iad3"),))),
    delays=(Delay("iad2", 1.5, 2.5, age_s=3.0), Delay("iad3", 9.0, 9.0, age_s=500.0)),
    listeners=(Listeners("comfort", 2),),
    pins=(PinnedUnit(UnitName("processor", "comfort"), "iad1"),
          PinnedUnit(UnitName("processor", "calm"), "")),
)  # fmt: skip


class Clock:
    def __init__(self, facts):
        self.now, self.facts, self.written = 100.0, facts, []
        self.recorder = PlacementRecorder(
            Reactor(lambda: self.now), lambda: self.facts, self.written.append, 60.0,
            wall=lambda: 1e9 + self.now,
        )  # fmt: skip

    def run(self, now):
        self.now = now
        self.recorder.tick(now)
        return self.written


def test_a_record_says_what_was_measured_in_the_last_minutes():
    clock = Clock(BUSY)
    assert clock.recorder.next_due == 160.0
    assert clock.run(159.0) == []
    (record,) = clock.run(160.0)
    assert record == PlacementRecord(
        "iad1", 1_000_000_160_000, 160.0, mode="frozen", cores=2, compute=2.0, storage_bytes=None,
        most_processors=None, opening_cost=0.5, topics=("comfort", "calm"),
        delays=(DelayMeasured("iad2", 1.5, 2.5),),
        arrivals=(ArrivalsMeasured("comfort", "iad1", "", 2.0),
                  ArrivalsMeasured("comfort", "iad2", "", 0.5),
                  ArrivalsMeasured("calm", "iad3", "clone-1", 3.0)),
        listeners=(ListenersCounted("comfort", 2),),
        pins=(PinSet("processor", "comfort", "iad1"),),
    )  # fmt: skip
    assert clock.recorder.next_due == 220.0


def test_a_record_names_no_home_but_counts_what_it_hears():
    log = HomeFacts("client/carla/log", {"iad1": 0.0, "iad2": 1.5}, hears=("calm", "comfort"))
    (record,) = Clock(structs.replace(BUSY, homes=(log,))).run(160.0)
    assert record.listeners == (ListenersCounted("calm", 1), ListenersCounted("comfort", 3))
    assert "carla" not in repr(record)


def test_a_master_that_places_nothing_writes_nothing():
    old = Delay("iad2", 1.0, 1.0, age_s=500.0)
    clock = Clock(PlacementFacts("iad1", 1, 1, 5.0, delays=(old,)))
    assert clock.run(200.0) == []
    clock.facts = PlacementFacts("iad1", 1, 2, 5.0, delays=(Delay("iad2", 1.0, 1.0),))
    assert len(clock.run(300.0)) == 1
