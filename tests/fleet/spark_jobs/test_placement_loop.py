"""The loop from logs to placement on real masters: load changes floors, topics follow."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from fleet.lake.ingest.reading import read
from fleet.lake.ingest.stream import ingest
from fleet.lake.schema.tables.base import MOVES, PLACEMENT, PROCESSING
from fleet.lake.schema.tables.placing import MOVE_EFFECTS
from fleet.placement.loop.decision import Caution
from fleet.placement.loop.follow import Timing, of_run
from fleet.report.jobs.placing import move_effects
from tests.fleet.spark_jobs.floors import OBJECTIVE, Building
from tests.fleet.spark_jobs.recorded import found

FEWEST = 4
LONG = 8
SHIFTS = "ba"


def median(values):
    found = sorted(values)
    return found[len(found) // 2]


def percentiles(values):
    found = sorted(values)
    return {f"p{p}": round(found[len(found) * p // 100], 2) for p in (50, 90, 99)}


class Follower:
    """The job, with the masters of a building; `look` takes records since a time only."""

    def __init__(self, spark, building):
        self._spark = spark
        # The machine may be busy: a record is old after minutes, not after its next one is due.
        self._loop = replace(
            of_run(building.folder, None, dry=False), caution=Caution(stale_s=600.0, fewest=FEWEST)
        )

    def look(self, since):
        now = datetime.now(UTC)
        self._loop.pull(since)
        window_s = (now - since).total_seconds()
        return replace(self._loop, timing=Timing(window_s=window_s)).look(self._spark, now)

    def effects(self, since):
        """What each move changed, by what masters recorded."""
        self._loop.pull(since)
        lake = self._loop.lake
        ingest(self._spark, lake)
        tables = [read(self._spark, lake, table) for table in (PROCESSING, MOVES, PLACEMENT)]
        return found(move_effects(*tables), MOVE_EFFECTS)


@pytest.fixture
def building(tmp_path):
    made = Building(tmp_path / "run")
    yield made
    made.stop()


@pytest.mark.usefixtures("patient_clients")
def test_topics_follow_the_load_from_floor_to_floor(spark, building):
    follower, names = Follower(spark, building), ("comfort", "calm")
    building.create("a", *names)
    began = datetime.now(UTC)
    with building.people("a", names) as people:
        people.live(FEWEST)
    shifted = datetime.now(UTC)
    with building.people("b", names) as people:
        people.live(FEWEST)
        with people.living():
            step = follower.look(shifted)
        assert step.moves == 2, step.lines
        (line,) = step.lines
        assert line.startswith("makes 2 moves, ")
        assert "comfort a → b" in line
        assert "calm a → b" in line
        for name in names:
            building.wait_until_at(name, "b")
        people.live(FEWEST)  # nothing is lost or doubled: each message has its output
    effects = follower.effects(began)
    assert sorted((row["iad"], row["topic"], row["target"]) for row in effects) == [
        ("a", "calm", "b"), ("a", "comfort", "b"),
    ]  # fmt: skip
    for row in effects:
        assert row["reason"] == "plan"
        assert row["before_records"] > 0
        assert row["after_records"] > 0


@pytest.fixture
def spacious_building(tmp_path):
    made = Building(tmp_path / "run", move_cost=0.01, way_s=0.01)
    yield made
    made.stop()


@pytest.mark.long
@pytest.mark.usefixtures("patient_clients")
def test_load_goes_to_and_fro_and_percentiles_hold(spark, spacious_building):
    """The numbers of docs/understand/placement.md: a line a shift in numbers.jsonl of the run."""
    building, names = spacious_building, ("comfort", "calm", "wind", "rain")
    follower = Follower(spark, building)
    building.create("a", *names)
    began = datetime.now(UTC)
    with building.people("a", names) as people:
        people.live(LONG)
        with people.living():
            assert follower.look(began).moves == 0  # it is cheapest where it is
    for floor in SHIFTS:
        shifted = datetime.now(UTC)
        with building.people(floor, names) as people:
            before = people.live(LONG)
            with people.living():
                step = follower.look(shifted)
            assert step.moves == len(names), step.lines
            for name in names:
                building.wait_until_at(name, floor)
            people.live(LONG)
            moved = datetime.now(UTC)
            after = people.live(LONG)
            with people.living():
                assert follower.look(moved).moves == 0  # and stays
        told = {
            "to": floor, "line": step.lines[0], "messages": len(before) + len(after),
            "before_ms": percentiles(before), "after_ms": percentiles(after),
        }  # fmt: skip
        building.tell(told)
    effects = follower.effects(began)
    assert len(effects) == len(SHIFTS) * len(names)
    for row in effects:
        assert row["after_achieved_ms"] <= OBJECTIVE.latency_ms
    sides = {
        side: {
            what: round(median(row[f"{side}_{what}"] for row in effects), 3)
            for what in ("way_ms", "achieved_ms", "worst_ms", "late_share")
        }
        for side in ("before", "after")
    }
    pauses_ms = sorted(row["pause_ms"] for row in effects)
    building.tell(sides | {"pause_ms": median(pauses_ms), "longest_pause_ms": pauses_ms[-1]})
