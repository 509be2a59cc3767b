"""Schemas of report tables derived from readings."""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables.model import IAD, NODE, Column, Table

SENSOR: Final = Column("sensor", "string", "", "sensor")
CHANNEL: Final = Column("channel", "string", "", "such as temperature")
AREA: Final = Column("area", "string", "", "the node's area: a room; the node where it is unknown")


def _climate(name: str, span: str, at: Column) -> Table:
    return Table(
        name,
        f"One channel of one room in one {span}: values that are not bad.",
        ("iad", "area", "channel", at.name),
        (
            IAD,
            AREA,
            CHANNEL,
            at,
            Column("readings", "bigint", "", "values, bad ones included"),
            Column("bad", "bigint", "", "of these bad or missing"),
            Column("minimum", "double", "the channel's", "lowest value", True),
            Column("mean", "double", "the channel's", "mean value", True),
            Column("maximum", "double", "the channel's", "highest value", True),
        ),
    )


CLIMATE_HOURS: Final = _climate(
    "climate_hours", "hour", Column("hour", "timestamp", "UTC", "start of the hour")
)
CLIMATE_DAYS: Final = _climate("climate_days", "day", Column("day", "date", "UTC", "the day"))
SENSOR_HEALTH: Final = Table(
    "sensor_health",
    "One channel of one node's sensor over all the time looked at.",
    ("iad", "node", "sensor", "channel"),
    (
        IAD,
        NODE,
        SENSOR,
        CHANNEL,
        AREA,
        Column("first", "timestamp", "UTC", "first reading"),
        Column("last", "timestamp", "UTC", "last reading"),
        Column("interval_s", "double", "s", "median time between readings", True),
        Column("readings", "bigint", "readings", "readings"),
        Column("expected", "bigint", "readings", "what would have been, at that interval"),
        Column("success", "double", "", "share of `expected` with a value that is not bad"),
        Column("gaps", "bigint", "", "times when readings were missing for over 3 intervals"),
        Column("gap_s", "double", "s", "how long in all"),
        Column("longest_gap_s", "double", "s", "the longest"),
        Column("missing", "bigint", "", "readings without a value"),
        Column("out_of_range", "bigint", "", "values that cannot be"),
        Column("spikes", "bigint", "", "values far from those on either side"),
        Column("flatlines", "bigint", "", "times when the value stood still for too long"),
        Column("flatline_s", "double", "s", "how long in all"),
        Column(
            "drift", "double", "the channel's", "off its neighbours, mean of its last day", True
        ),
        Column("baseline", "double", "the channel's", "the same of its first day", True),
        Column("drifts", "boolean", "", "moved from there, or is off, by more than its limit"),
        Column("verdict", "string", "", "the worst of it in a word, or ok"),
    ),
)
TABLES: Final = (CLIMATE_HOURS, CLIMATE_DAYS, SENSOR_HEALTH)
