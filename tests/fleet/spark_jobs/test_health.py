"""Health of sensors: each column against values worked out by hand."""

import math

import pytest

from fleet.lake.schema.tables.sensing import SENSOR_HEALTH
from fleet.report.jobs.health import sensor_health
from sensors.quality.flags import (
    CHECKSUM,
    DRIFT,
    FLATLINE,
    NO_RESPONSE,
    OUT_OF_RANGE,
    SPIKE,
)
from tests.fleet.spark_jobs.readings import NAN, at, nodes, reading, readings

MINUTE, HOUR, DAY = 60, 3600, 86_400


def minutes(values, *, start=0, step=MINUTE, flags=None):
    """(seconds, value, flags), one a minute; `flags` by number."""
    of = flags or {}
    return [(start + i * step, value, of.get(i, 0)) for i, value in enumerate(values)]


def moving(count, level=20.0):
    """Values that never stand still and never jump."""
    return [level + 0.1 * (i % 2) for i in range(count)]


def with_values(count, changed):
    values = moving(count)
    for i, value in changed.items():
        values[i] = value
    return values


# By case, each in an IAD of its own: one channel's readings.
CASES = {
    "plain": minutes(moving(10)),
    "alone": minutes([20.0]),
    # 10 a minute apart, then 21 min of nothing, and 3 min, which is no gap yet.
    "gaps": minutes(moving(10)) + minutes(moving(5), start=30 * 60) + [(37 * 60, 20.0, 0)],
    # From 23:55 to 00:05 there is nothing.
    "night": minutes(moving(6), start=DAY - 600) + minutes(moving(5), start=DAY + 300),
    "missing": minutes(with_values(10, {2: NAN, 3: NAN}), flags={3: NO_RESPONSE, 4: CHECKSUM}),
    "range": minutes(with_values(10, {2: 61.0, 3: -40.5, 6: 60.0}), flags={8: OUT_OF_RANGE}),
    # 2.6 °C in a minute is allowed; 22.5 is near, 30 is not; so are two at a time.
    "spikes": minutes(with_values(30, {3: 30.0, 10: 22.5, 15: 10.0, 16: 10.0}), flags={20: SPIKE}),
    "first": minutes(with_values(10, {0: 30.0, 9: 30.0})),
    "step": minutes(moving(10) + moving(10, 30.0)),
    # After two hours of nothing 8 °C are no jump.
    "after": minutes(moving(3)) + minutes(moving(3, 28.0), start=2 * HOUR),
    # Humidity may stand still for 6 h: here 6 h, then 5 h 50 min.
    "flat": minutes([50.0] * 37 + [51.0] * 36 + moving(3, 52.0), step=600),
    # From 18:00 until 06:00 on the third day, all of the second; 36 h.
    "days": minutes(moving(108, 50.0) + [55.0] * 217 + moving(30, 56.0), step=600),
    # The same to the very end.
    "still": minutes(moving(108, 50.0) + [55.0] * 200, step=600),
    # 40 min of nothing: nobody saw it stand still.
    "unseen": minutes([50.0] * 30, step=600) + minutes([50.0] * 30, start=330 * 60, step=600),
    # From one day to the next, and then another value for as long.
    "twice": minutes(moving(120, 50.0) + [55.0] * 40 + [56.0] * 40, step=600),
    "wet": minutes([100.0] * 60, step=600),
    "told": minutes(moving(5) + [20.0] * 5 + [21.0], flags={8: FLATLINE, 9: FLATLINE}),
    "broken": minutes([20.0] + [70.0] * 3 + moving(2)),
}
HUMID = ("flat", "days", "still", "unseen", "twice", "wet")


@pytest.fixture(scope="module")
def health(spark):
    """Rows of the cases, by their names."""
    rows = [
        reading(*row, iad=case, channel="humidity" if case in HUMID else "temperature")
        for case, of in CASES.items()
        for row in of
    ]
    # One that nobody hears any more, beside one that is well, and one that never said anything.
    rows += [reading(i * MINUTE, v, iad="silent", node="n2") for i, v in enumerate(moving(700))]
    rows += [reading(i * MINUTE, v, iad="silent") for i, v in enumerate(moving(30))]
    rows += [reading(i * MINUTE, NAN, iad="mute") for i in range(30)]
    # Without a value for 12 minutes, but read; one whose row group of the last ten hours is not
    # complete; and one that is read every ten minutes, which has not missed its next reading.
    dead = [*moving(88), *[NAN] * 12]
    rows += [reading(i * MINUTE, v, iad="dead") for i, v in enumerate(dead)]
    rows += [reading(i * MINUTE, v, iad="pulled", node="n2") for i, v in enumerate(moving(700))]
    rows += [reading(i * MINUTE, v, iad="pulled") for i, v in enumerate(moving(101))]
    rows += [reading(i * MINUTE, v, iad="rare", node="n2") for i, v in enumerate(moving(100))]
    rows += [reading(i * 10 * MINUTE, v, iad="rare") for i, v in enumerate(moving(9))]
    frame = sensor_health(readings(spark, rows), nodes(spark, [{"n1": ["b1/f1/r1"]}], iad="plain"))
    assert frame.dtypes == [(column.name, column.type) for column in SENSOR_HEALTH.columns]
    return {row.iad: row for row in frame.collect() if row.node == "n1"}


def test_nothing_wrong(health):
    row = health["plain"]
    assert (row.area, row.sensor, row.channel) == ("b1/f1/r1", "dht", "temperature")
    assert (row.first, row.last) == (at(0).replace(tzinfo=None), at(540).replace(tzinfo=None))
    assert (row.interval_s, row.readings, row.expected, row.success) == (60.0, 10, 10, 1.0)
    assert (row.gaps, row.gap_s, row.longest_gap_s, row.missing, row.out_of_range) == (0,) * 5
    assert (row.spikes, row.flatlines, row.flatline_s) == (0, 0, 0)
    assert (row.drift, row.baseline, row.drifts, row.verdict) == (None, None, False, "ok")


def test_one_reading(health):
    row = health["alone"]
    assert (row.interval_s, row.readings, row.expected, row.success) == (None, 1, 1, 1.0)
    assert (row.area, row.verdict) == ("n1", "ok")


def test_gaps(health):
    row = health["gaps"]
    # The last of the ten at 9 min, the next at 30.
    assert (row.gaps, row.gap_s, row.longest_gap_s) == (1, 1260.0, 1260.0)
    assert (row.readings, row.expected) == (16, 38)
    assert (row.success, row.verdict) == (pytest.approx(16 / 38), "broken")


def test_a_gap_across_midnight(health):
    row = health["night"]
    assert (row.gaps, row.gap_s, row.verdict) == (1, 600.0, "gaps")
    assert (row.readings, row.expected) == (11, 20)


def test_missing(health):
    row = health["missing"]
    assert (row.missing, row.out_of_range, row.spikes, row.gaps) == (3, 0, 0, 0)
    assert (row.success, row.verdict) == (0.7, "missing")


def test_out_of_range(health):
    row = health["range"]
    # 60 is the end of the range, and a spike.
    assert (row.out_of_range, row.spikes, row.verdict) == (3, 1, "out_of_range")
    assert row.success == 0.6


def test_spikes(health):
    assert (health["spikes"].spikes, health["spikes"].verdict) == (4, "spikes")
    assert health["first"].spikes == 2
    assert health["step"].spikes == 0
    assert health["after"].spikes == 0


@pytest.mark.parametrize(
    ("case", "flatlines", "hours"),
    [
        ("flat", 1, 6),
        ("days", 1, 36),
        ("still", 1, 199 / 6),
        ("unseen", 0, 0),
        ("twice", 2, 13),
        ("wet", 0, 0),
    ],
)
def test_flatlines(health, case, flatlines, hours):
    row = health[case]
    assert (row.flatlines, row.flatline_s) == (flatlines, pytest.approx(hours * HOUR))
    assert (row.verdict == "flatline") == bool(flatlines)


def test_a_flatline_that_the_node_told(health):
    # Six values, of which the node flagged the last two.
    assert (health["told"].flatlines, health["told"].flatline_s) == (1, 300.0)


def test_verdicts(health):
    assert (health["broken"].success, health["broken"].verdict) == (0.5, "out_of_range")
    assert health["silent"].verdict == "silent"
    assert (health["dead"].verdict, health["rare"].verdict) == ("silent", "ok")
    assert health["pulled"].verdict == "ok"
    assert (health["mute"].verdict, health["mute"].missing) == ("silent", 30)


# Three rooms of a floor, and one that stands alone; an hour a reading, three days.
def _floor(change):
    for hour in range(72):
        base = 20 + 3 * math.sin(hour / 24 * 2 * math.pi)  # what a day brings
        for node, offset in {"n1": 0.0, "n2": 1.0, "n3": -1.0, "lone": 0.0}.items():
            moved, flags = change(node, hour)
            yield reading(hour * HOUR, base + offset + moved, flags, node=node)


def _moved(node, hour):
    """n2 by 2 °C on its last day; lone by 9 °C; n3 was told of."""
    if node == "n2" and hour >= 48:
        return 2.0, 0
    if node == "lone":
        return 9.0 * (hour >= 48), 0
    return 0.0, DRIFT * (node == "n3" and hour == 71)


def test_drift(spark):
    areas = {"n1": ["b1/f1/r1"], "n2": ["b1/f1/r2"], "n3": ["b1/f1/r3"], "lone": ["b1/f2/r1"]}
    frame = sensor_health(readings(spark, list(_floor(_moved))), nodes(spark, [areas]))
    rows = {row.node: row for row in frame.collect()}
    told = {
        node: (row.drift and round(row.drift, 5), row.baseline and round(row.baseline, 5))
        for node, row in rows.items()
    }
    # The median of the three is always n1's.
    assert told == {"n1": (0, 0), "n2": (3, 1), "n3": (-1, -1), "lone": (None, None)}
    assert {node for node, row in rows.items() if row.drifts} == {"n2", "n3"}
    assert rows["n2"].verdict == "drift"
