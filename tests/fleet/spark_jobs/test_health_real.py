"""Health of the rooms of a real building, held against its labelled faults.

D. Hong, Q. Gu, K. Whitehouse, "High-dimensional Time Series Clustering via Cross-Predictability",
AISTATS 2017. The labels are made by rules of their own (tests/sensors/fixtures/README.md).
"""

import csv
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.health import sensor_health
from tests.fleet.spark_jobs.readings import nodes

pytestmark = pytest.mark.long

CHECKOUT = Path(__file__).resolve().parents[3]
SHIPPED = CHECKOUT / "sensors" / "replay" / "data"
FIXTURES = CHECKOUT / "tests" / "sensors" / "fixtures"
CHANNELS = ("temperature", "humidity")
SPOT = "timestamp timestamp, temperature float, humidity float"


def _rooms(spark):
    """Rooms as readings; what the job does not look at is left out."""
    shipped = spark.read.csv(f"{SHIPPED}/room-*.csv.gz", SPOT, header=True)
    room = F.regexp_extract("_metadata.file_name", r"room-(\d+)", 1).alias("room")
    shipped = shipped.select("timestamp", room, *CHANNELS)
    others = f"{FIXTURES}/other_rooms.csv.gz"
    schema = "timestamp timestamp, room string, temperature float, humidity float"
    rows = shipped.unionByName(spark.read.csv(others, schema, header=True))
    values = F.explode(F.create_map(*[c for n in CHANNELS for c in (F.lit(n), F.col(n))]))
    rows = rows.select("room", "timestamp", values.alias("channel", "value"))
    return rows.select(
        F.lit("iad1").alias("iad"),
        F.to_date("timestamp").alias("date"),
        F.col("room").alias("node"),
        F.lit("replay").alias("sensor"),
        "channel",
        F.col("timestamp").alias("time"),
        F.coalesce("value", F.lit("NaN").cast("float")).alias("value"),
        F.lit(0).cast("smallint").alias("quality"),
    )


@pytest.fixture(scope="module")
def health(spark):
    rows = _rooms(spark).cache()
    numbers = [row.node for row in rows.select("node").distinct().collect()]
    areas = {number: [f"b1/f{number[0]}/r{number}"] for number in numbers}
    found = sensor_health(rows, nodes(spark, [areas])).collect()
    rows.unpersist()
    return {(row.node, row.channel): row for row in found}


@pytest.fixture(scope="module")
def labels(health):
    with (FIXTURES / "building_faults.csv").open() as file:
        rooms = {room for room, _ in health}
        return [row for row in csv.DictReader(file) if row["room"] in rooms]


def test_the_broken_room(health, labels):
    broken = {key for key, row in health.items() if row.verdict == "broken"}
    said = {(r["room"], r["channel"]) for r in labels if r["kind"] == "broken"}
    assert broken == {("419", "temperature")} == {key for key in said if key in health}


def test_gaps(health, labels):
    """As many as there are labels, but for those before a room's first reading or after its last;
    and the one of 5.3 h that all rooms share."""
    for (room, _), row in health.items():
        inside = [
            label
            for label in labels
            if (label["room"], label["kind"]) == (room, "gap")
            and row.first < datetime.fromisoformat(label["start"]) < row.last
        ]
        assert row.gaps == len(inside)
        if row.verdict != "silent":  # it was gone before
            assert row.longest_gap_s >= 5.2 * 3600


def test_spikes(health, labels):
    """As many values out of range or far from those beside them as there are labels."""
    said = Counter((r["room"], r["channel"]) for r in labels if r["kind"] == "spike")
    found = {
        key: row.out_of_range + row.spikes
        for key, row in health.items()
        if row.out_of_range + row.spikes and row.verdict != "broken"
    }
    assert found == {key: count for key, count in said.items() if key in health}
    assert health["723", "temperature"].spikes == 1  # 43.82 °C is in the range


def test_nothing_else_is_told(health):
    assert not any(row.drifts or row.flatlines or row.missing for row in health.values())
    assert all(row.interval_s == 60 for row in health.values())
    silent = {room for (room, _), row in health.items() if row.verdict == "silent"}
    assert silent == {"511"}
