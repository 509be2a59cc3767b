"""Frames of readings and nodes, as the lake has them."""

from datetime import UTC, datetime, timedelta

from fleet.lake.schema.tables.base import NODES, READINGS

START = datetime(2026, 3, 1, tzinfo=UTC)
NAN = float("nan")


def at(seconds):
    return START + timedelta(seconds=seconds)


def reading(
    seconds, value, quality=0, *, iad="iad1", node="n1", sensor="dht", channel="temperature"
):
    """A row of READINGS, `seconds` after START."""
    time = at(seconds)
    number = round(seconds * 1000)
    row = (iad, time.date(), node, sensor, channel, time, float(value), quality)
    return (*row, None, 0, None, True, "h", number, number)


def readings(spark, rows):
    return spark.createDataFrame(rows, READINGS.ddl)


def nodes(spark, areas, iad="iad1"):
    """NODES: a row for each node in each of `areas`, one a day from START on."""
    rows = [
        (iad, at(day * 86_400).date(), at(day * 86_400), node, of, "")
        for day, of_nodes in enumerate(areas)
        for node, of in of_nodes.items()
    ]
    return spark.createDataFrame(rows, NODES.ddl)


def naive(frame):
    """Rows as dicts; times as they are in UTC, without a zone (the session's is UTC)."""
    return [row.asDict() for row in frame.collect()]
