"""A run: people go from floor to floor, and the job looks once, as `fleet placement follow` does,
after each time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.records import MoveRecord
from fleet.placement.loop.decision import Caution
from fleet.placement.loop.follow import Timing, of_run
from lab.placement.loop.building import FLOORS, Building, Setting
from lab.placement.loop.people import People, people
from lab.placement.masters import MastersError
from lab.placement.sequences import Check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The machine may be busy: a record is old after minutes, not after its next one is due.
STALE_S: Final = 600.0


class Look(Struct, frozen=True):
    """One look of the job: where the load was, and what it said."""

    floor: str
    moves: int
    line: str


class Side(Struct, frozen=True):
    """What people saw on one side of a move: of each message the time from the publisher to the
    subscriber, and of processors the percentiles of their records, medians of these, in ms."""

    took_ms: tuple[float, ...]
    processors_ms: tuple[float, ...]


class Shift(Struct, frozen=True):
    """The load went to `floor`; the job looked, and looked again when topics were there."""

    floor: str
    before: Side
    after: Side
    moved: Look
    stayed: Look


class Found(Struct, frozen=True):
    """`first` is the look before the load went anywhere, `effects` rows of MOVE_EFFECTS by time."""

    setting: Setting
    first: Look
    shifts: list[Shift]
    moves: list[MoveRecord]
    effects: list[dict[str, Any]]
    check: Check


class Follower:
    """The job, with the masters of a building; `look` takes records since a time only."""

    def __init__(self, spark: SparkSession, building: Building, fewest: int) -> None:
        self._spark = spark
        folder = building.folder
        loop = of_run(folder, folder / "lake", dry=False)
        self._loop = replace(loop, caution=Caution(stale_s=STALE_S, fewest=fewest))

    def look(self, floor: str, since: datetime, expected: int) -> Look:
        """Pull, ingest, learn, plan, and have masters move. MastersError if these are not so many
        moves as there ought to be."""
        now = datetime.now(UTC)
        self._loop.pull(since)
        timing = Timing(window_s=(now - since).total_seconds())
        step = replace(self._loop, timing=timing).look(self._spark, now)
        line = "; ".join(step.lines)
        if step.moves != expected:
            raise MastersError(f"{expected} moves to {floor} were to be made, not these: {line}")
        return Look(floor, step.moves, line)

    def effects(self, since: datetime) -> list[dict[str, Any]]:
        """What each move changed, as the report has it."""
        from fleet.lake.ingest.reading import read
        from fleet.lake.ingest.stream import ingest
        from fleet.lake.schema.tables.base import MOVES, PLACEMENT, PROCESSING
        from fleet.report.jobs.placing import move_effects

        self._loop.pull(since)
        lake = self._loop.lake
        ingest(self._spark, lake)
        tables = [read(self._spark, lake, table) for table in (PROCESSING, MOVES, PLACEMENT)]
        found = move_effects(*tables).orderBy("time", "topic").collect()
        return [row.asDict() for row in found]


def run(setting: Setting, folder: Path, spark: SparkSession, say: Callable[[str], None]) -> Found:
    """Start everything, have the load go to and fro, stop it. MastersError in one line."""
    say("3 masters start …")
    with Building(setting, folder) as building:
        names = building.names
        for name in names:
            building.create(FLOORS[0], name)
        follower = Follower(spark, building, setting.records // 2)
        check = Check()
        began = datetime.now(UTC)
        with people(building, FLOORS[0], names, check) as there:
            there.live(setting.records)
            with there.living():
                first = follower.look(FLOORS[0], began, 0)  # it is cheapest where it is
        say(f"people at {FLOORS[0]}: {first.line}")
        shifts = []
        for floor in setting.shifts:
            shifted = datetime.now(UTC)
            with people(building, floor, names, check) as there:
                shifts.append(_shift(building, follower, there, floor, shifted))
            say(f"people go to {floor}: {shifts[-1].moved.line}")
        say("before and after …")
        effects = follower.effects(began)
        if len(effects) != len(shifts) * len(names):
            raise MastersError(f"the report has {len(effects)} moves, not those of all shifts")
        return Found(
            setting=setting,
            first=first,
            shifts=shifts,
            moves=building.moves(),
            effects=effects,
            check=check,
        )


def _shift(
    building: Building, follower: Follower, there: People, floor: str, shifted: datetime
) -> Shift:
    names, records = building.names, building.setting.records
    before = _side(building, there)
    with there.living():
        moved = follower.look(floor, shifted, len(names))
        building.wait_until_at(floor, names)
    there.live(records)  # until there is nothing left in a record of what was before
    since = datetime.now(UTC)
    after = _side(building, there)
    with there.living():
        stayed = follower.look(floor, since, 0)
    return Shift(floor, before, after, moved, stayed)


def _side(building: Building, there: People) -> Side:
    began_ms = time.time() * 1e3
    took_ms = there.live(building.setting.records)
    found = building.processing(began_ms, time.time() * 1e3)
    each = [(r.latency_p50_ms, r.latency_p90_ms, r.latency_p99_ms) for r in found]
    known = [[ms for ms in column if ms is not None] for column in zip(*each, strict=True)]
    return Side(tuple(took_ms), tuple([median(column) for column in known]))
