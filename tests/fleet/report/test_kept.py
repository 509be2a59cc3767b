"""What is kept of readings gives the same tables as the readings, whatever has changed."""

import shutil
from datetime import timedelta

import pytest

from fleet.lake.ingest.reading import read
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.base import MOVES, NODES, READINGS
from fleet.report.job_table import Sources
from fleet.report.jobs.climate import climate_hours, climate_of
from fleet.report.jobs.health import health_of, sensor_health
from fleet.report.kept import HOURS, STEPS, KeptAggregates
from fleet.spark.few_rows import FEW, SETTINGS, for_few_rows
from tests.fleet.report.frames import T, frame

pytestmark = pytest.mark.long
DAYS = (T, T + timedelta(days=1))
NODE = {"iad": "iad1", "node": "n1", "areas": ["b1/r1"], "time": T}


def of_day(start, *, value=20.0, count=120, step=60):
    """Readings of one channel, one a minute from `start` on; every seventh is bad."""
    return [
        {"iad": "iad1", "node": "n1", "sensor": "dht", "channel": "temperature", "history": "h",
         "date": start.date(), "time": start + timedelta(seconds=n * step), "sequence": n,
         "value": value + n % 3 / 10, "quality": 8 if n % 7 == 0 else 0}
        for n in range(count)
    ]  # fmt: skip


def add(spark, lake, table, rows):
    made = frame(spark, table, *rows).coalesce(1)
    made.write.mode("append").partitionBy("iad", "date").parquet(str(lake.table(table.name)))


@pytest.fixture
def lake(spark, tmp_path):
    """Two hours of readings on each of two days."""
    lake = Lake(tmp_path / "lake [1]")
    add(spark, lake, NODES, [NODE])
    for start in DAYS:
        add(spark, lake, READINGS, of_day(start))
    return lake


def kept_files(lake):
    """Path and number of each file, by aggregate and day: a file written again is another."""
    return {
        (path.parents[2].name, path.parent.name): (path.name, path.stat().st_ino)
        for path in lake.kept.rglob("*.parquet")
    }


def check(spark, lake, since=None, until=None):
    """The tables of a report with what is kept are those without."""
    sources = Sources(spark, lake, since, until)
    readings, nodes = read(spark, lake, READINGS, since, until), read(spark, lake, NODES)
    made = climate_of(sources.hours, nodes), health_of(sources.steps, sources.hours, nodes)
    expected = climate_hours(readings, nodes), sensor_health(readings, nodes)
    for table, other in zip(made, expected, strict=True):
        with for_few_rows(spark, 0):
            found = sorted(table.collect())
        assert found == sorted(other.collect())
        assert found


def test_a_day_is_computed_once_and_again_when_a_file_arrives(spark, lake):
    check(spark, lake)
    first = kept_files(lake)
    assert len(first) == 4  # two aggregates of two days
    check(spark, lake)
    assert kept_files(lake) == first
    add(spark, lake, READINGS, of_day(DAYS[1] + timedelta(hours=5), value=70.0))
    check(spark, lake)
    second = kept_files(lake)
    changed = {key for key in first if second[key] != first[key]}
    assert changed == {(name, f"date={DAYS[1].date()}") for name in ("steps", "hours")}
    assert len(second) == 4  # nothing is left of what was


def test_a_file_that_replaces_another_counts(spark, lake):
    check(spark, lake)
    shutil.rmtree(lake.table(READINGS.name) / "iad=iad1" / f"date={DAYS[0].date()}")
    check(spark, lake)
    add(spark, lake, READINGS, of_day(DAYS[0], value=30.0, count=30))
    check(spark, lake)


@pytest.mark.parametrize("left", [0, 100])
def test_what_was_cut_off_is_computed_again(spark, lake, left):
    """By a copy of the lake, or a power cut: each further report ended at it."""
    check(spark, lake)
    first = kept_files(lake)
    for path in lake.kept.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:left])
    check(spark, lake)
    assert {key: name for key, (name, _) in kept_files(lake).items()} == {
        key: name for key, (name, _) in first.items()
    }


def test_of_a_day_that_is_cut_nothing_is_kept(spark, lake):
    check(spark, lake, DAYS[0] + timedelta(minutes=30), DAYS[1] + timedelta(minutes=90))
    assert kept_files(lake) == {}
    midnight = DAYS[1].replace(hour=0)
    check(spark, lake, DAYS[0] + timedelta(minutes=30), midnight + timedelta(days=1))
    assert {day for _, day in kept_files(lake)} == {f"date={DAYS[1].date()}"}


def test_another_version_computes_again(spark, lake):
    kept = KeptAggregates(spark, lake, None, None)
    kept.frame(HOURS)
    before = kept_files(lake)
    newer = HOURS._replace(version=HOURS.version + 1)
    assert kept.frame(newer).count() == 4  # two hours of each day
    assert {name for name, _ in kept_files(lake)} == {HOURS.name}
    assert set(kept_files(lake).values()).isdisjoint(before.values())


def test_without_readings_there_are_no_rows_but_columns(spark, tmp_path):
    kept = KeptAggregates(spark, Lake(tmp_path), None, None)
    assert kept.frame(STEPS).collect() == []
    assert "step_ms" in kept.frame(STEPS).columns


def test_a_table_that_is_not_there_needs_no_job(spark, tmp_path):
    moves = read(spark, Lake(tmp_path), MOVES)
    assert moves.columns == list(MOVES.names)
    counted = moves.groupBy("iad").count()
    assert counted.collect() == []
    assert "LocalRelation <empty>" in counted._jdf.queryExecution().optimizedPlan().toString()


def test_settings_for_few_rows_end_with_their_jobs(spark):
    def settings():
        return {name: spark.conf.get(name) for name in SETTINGS}

    before = settings()
    with for_few_rows(spark, FEW + 1):
        assert settings() == before
    inside = []

    def fails():
        with for_few_rows(spark, FEW):
            inside.append(settings())
            raise ValueError("disk full")

    with pytest.raises(ValueError, match="disk full"):
        fails()
    assert inside == [SETTINGS]
    assert settings() == before
