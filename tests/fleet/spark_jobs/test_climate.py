"""Climate of rooms by hour and day."""

import math
import random
from datetime import date, datetime

import pytest

from fleet.lake.schema.tables.sensing import CLIMATE_DAYS, CLIMATE_HOURS
from fleet.report.jobs.climate import climate_days, climate_hours
from sensors.quality.flags import CHECKSUM, DRIFT, FLATLINE, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from tests.fleet.spark_jobs.readings import NAN, nodes, reading, readings

HOUR = 3600
ROOMS = (
    {"n1": ["b1/f1/old"], "n2": ["b1/f1/r2", "b1/f1/hall"], "n3": ["b1/f1/r2"], "n4": []},
    {"n1": ["b1/f1/r1"]},  # moved on the second day
)
ROWS = (
    # Room 1: 20, 21 and 25 count; what is suspect does, what is bad or missing does not.
    reading(0, 20.0),
    reading(60, 21.0, DRIFT),
    reading(3599.999, 25.0, FLATLINE),
    reading(120, 99.0, OUT_OF_RANGE),
    reading(180, 40.0, SPIKE),
    reading(240, NAN, NO_RESPONSE),
    reading(300, 22.0, CHECKSUM),
    reading(360, NAN),  # nobody flagged it
    reading(HOUR, 30.0),  # the next hour
    reading(2 * HOUR, NAN, NO_RESPONSE),  # an hour of nothing
    reading(86_400, 10.0),  # the next day
    reading(0, 50.0, channel="humidity"),
    # Room 2 has two nodes, and one of them two areas.
    reading(0, 18.0, node="n2"),
    reading(1, 19.0, node="n3"),
    reading(2, 23.0, node="n3"),
    reading(0, 1.0, node="n4"),  # no area
    reading(0, 2.0, node="n5"),  # not known
    reading(0, 3.0, iad="iad2"),  # another IAD's n1
)


@pytest.fixture(scope="module")
def hours(spark):
    return climate_hours(readings(spark, ROWS), nodes(spark, ROOMS)).cache()


def _hour(number, day=1):
    return datetime.fromisoformat(f"2026-03-0{day}T0{number}:00:00")  # as Spark gives them


def test_hours(hours):
    told = {tuple(row)[:4]: tuple(row)[4:] for row in hours.collect()}
    assert told == {
        ("iad1", "b1/f1/r1", "temperature", _hour(0)): (8, 5, 20.0, 22.0, 25.0),
        ("iad1", "b1/f1/r1", "temperature", _hour(1)): (1, 0, 30.0, 30.0, 30.0),
        ("iad1", "b1/f1/r1", "temperature", _hour(2)): (1, 1, None, None, None),
        ("iad1", "b1/f1/r1", "temperature", _hour(0, day=2)): (1, 0, 10.0, 10.0, 10.0),
        ("iad1", "b1/f1/r1", "humidity", _hour(0)): (1, 0, 50.0, 50.0, 50.0),
        ("iad1", "b1/f1/r2", "temperature", _hour(0)): (3, 0, 18.0, 20.0, 23.0),
        ("iad1", "n4", "temperature", _hour(0)): (1, 0, 1.0, 1.0, 1.0),
        ("iad1", "n5", "temperature", _hour(0)): (1, 0, 2.0, 2.0, 2.0),
        ("iad2", "n1", "temperature", _hour(0)): (1, 0, 3.0, 3.0, 3.0),
    }


def test_days(hours):
    days = [row for row in climate_days(hours).collect() if row.area == "b1/f1/r1"]
    told = {(row.channel, row.day): tuple(row)[4:] for row in days}
    assert told == {
        # (20 + 21 + 25 + 30) / 4, not the mean of 22 and 30
        ("temperature", date(2026, 3, 1)): (10, 6, 20.0, 24.0, 30.0),
        ("temperature", date(2026, 3, 2)): (1, 0, 10.0, 10.0, 10.0),
        ("humidity", date(2026, 3, 1)): (1, 0, 50.0, 50.0, 50.0),
    }


def test_a_day_without_a_value_has_no_mean(spark):
    rows = [reading(0, NAN), reading(HOUR, 5.0, SPIKE)]
    (day,) = climate_days(climate_hours(readings(spark, rows), nodes(spark, ROOMS))).collect()
    assert tuple(day)[4:] == (2, 2, None, None, None)


def test_days_are_what_the_readings_say_themselves(spark):
    dice = random.Random(7)
    rows = [reading(dice.randrange(86_400), dice.gauss(20, 5)) for _ in range(1000)]
    frame = readings(spark, rows)
    (day,) = climate_days(climate_hours(frame, nodes(spark, ROOMS))).collect()
    values = [row.value for row in frame.select("value").collect()]  # as float32 has them
    assert day.mean == pytest.approx(math.fsum(values) / 1000, rel=1e-12)
    assert (day.readings, day.minimum, day.maximum) == (1000, min(values), max(values))


def test_schemas(hours):
    for frame, table in ((hours, CLIMATE_HOURS), (climate_days(hours), CLIMATE_DAYS)):
        assert frame.dtypes == [(column.name, column.type) for column in table.columns]
