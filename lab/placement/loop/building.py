"""Three masters of a building, two floors and a hub between them, and topics that live there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.overlay.scot import BrokerId
from agent.wire import master_config as config
from agent.wire.messages import Slo
from agent.wire.records import PlacementRecord, ProcessingRecord
from agent.wire.topics import CreateTopic, ListTopics, Topic
from fleet.inventory.overlay_plan import OverlayPlan
from lab.placement.masters import ANSWER_MS, LOOK_EVERY_S, PATIENCE_S, MastersError, RealMasters

FLOORS: Final = ("a", "b")
HUB: Final = "s"
NAMES: Final = ("comfort", "calm", "wind", "rain")
OBJECTIVE: Final = Slo(90.0, 1_000.0)


class Setting(Struct, frozen=True):
    """A run: how many topics there are, and to which floors the load goes, one after another. Each
    master writes so many `records` of placement, one every `record_s`, while people are where they
    are. A byte takes `way_s` from one master to another; a move costs `move_cost` seconds of delay
    a second."""

    topics: int = 4
    shifts: str = "baba"
    records: int = 16
    record_s: float = 0.5
    way_s: float = 0.01
    move_cost: float = 0.01


# Little comes in so short a time, so moves cost next to nothing.
QUICK: Final = Setting(topics=2, shifts="b", records=4, move_cost=1e-4)


class Building(RealMasters):
    """The masters `a`, `s` and `b`; `a` and `b` are floors."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting = setting
        self.names = NAMES[: setting.topics]
        iads = (*FLOORS, HUB)
        links = tuple([(floor, HUB) for floor in FLOORS])
        overlay = OverlayPlan(links, 1, {iad: BrokerId(iad, 0) for iad in iads})
        ways_s = {(one, other): setting.way_s for one in iads for other in iads if one != other}
        sections = {
            "clients": config.MasterClients(rate_per_s=100_000.0),
            "processing": config.MasterProcessing(workers=1, record_s=setting.record_s),
            "placement": config.MasterPlacement(every_s=0.2, move_cost=setting.move_cost),
        }
        super().__init__(folder, overlay, ways_s, sections)

    def create(self, floor: str, name: str) -> None:
        """Have a topic created there. MastersError."""
        topic = Topic(name, processor="comfort_index", slo=OBJECTIVE)
        with self.operator(floor) as operator:
            report = operator.ask_topic(CreateTopic("create", topic), ANSWER_MS)
        if not report.ok:
            raise MastersError(f"{floor}: {report.message}")

    def topics(self, floor: str) -> list[str]:
        """The topics that live there."""
        with self.operator(floor) as operator:
            report = operator.ask_topic(ListTopics("list"), ANSWER_MS)
        return sorted(each.topic.name for each in report.topics)

    def wait_until_at(self, floor: str, names: Collection[str]) -> None:
        """Until these topics live on that floor, and there only. MastersError."""

        def there() -> bool:
            return all(
                self.topics(each) == (sorted(names) if each == floor else []) for each in FLOORS
            )

        give_up_s = time.monotonic() + PATIENCE_S
        while not there():
            self.check()
            if time.monotonic() > give_up_s:
                raise MastersError(f"topics are not all at {floor} after {PATIENCE_S:g} s")
            time.sleep(LOOK_EVERY_S)

    def has_recorded(self, count: int, since_ms: float) -> bool:
        """Whether each master has written so many records of placement since then. MastersError if
        one has ended."""
        self.check()
        found = Counter(
            iad
            for iad in self.iads
            for record in self.records(iad)
            if isinstance(record, PlacementRecord) and record.wall_ms >= since_ms
        )
        return all(found[iad] >= count for iad in self.iads)

    def processing(self, since_ms: float, until_ms: float) -> list[ProcessingRecord]:
        """The records of processors that had messages, of times between these two."""
        return [
            record
            for iad in self.iads
            for record in self.records(iad)
            if isinstance(record, ProcessingRecord)
            and record.processed
            and since_ms <= record.wall_ms <= until_ms - record.seconds * 1e3
        ]
