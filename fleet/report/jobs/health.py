"""Sensor health: gaps, missing and impossible values, spikes, flatlines, drift; a verdict.

What a node flagged counts, and what is found here with the default limits of
docs/understand/quality.md does too: so histories of nodes without checks are judged as well.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.sensing import SENSOR_HEALTH
from fleet.report.jobs.areas import node_areas
from fleet.report.jobs.health_days import GAP_INTERVALS, channels
from fleet.report.jobs.health_drift import drift
from fleet.report.jobs.health_readings import KEY, by_step
from fleet.report.jobs.hourly import hourly

# A channel with a smaller share of good readings is broken.
BROKEN: Final = 0.5
# A channel without a value for this long is silent, if it is a gap; hosts are not pulled at the
# same moment.
SILENT_MS: Final = 600_000
# A node's readings are pulled by complete row groups, of `history.group_readings`: those of a node
# that is well may end this many intervals before those of another one.
GROUP_READINGS: Final = 600
# Faults that concern a smaller share of the expected readings are counted, but give no verdict.
LEAST: Final = 0.005


def sensor_health(readings: DataFrame, nodes: DataFrame) -> DataFrame:
    """SENSOR_HEALTH of `readings`, whose areas `nodes` says.

    Readings are read twice, and shuffled and sorted once, by channel and day: O(n log m) time for n
    readings of which a day has m, and memory for one day of one channel.
    """
    return health_of(by_step(readings), hourly(readings), nodes)


def health_of(steps: DataFrame, hours: DataFrame, nodes: DataFrame) -> DataFrame:
    """The same of `by_step` and `hourly`.

    A gap is a step of over 3 median intervals, as long as the step. A spike is a value that fewer
    than half of the two on either side agree with (max_step, max_rate_per_s). A flatline is
    the same value for flat_s. Verdicts, worst first: silent, broken (success below 0.5),
    out_of_range, flatline, drift, gaps, missing, spikes, ok; those that count single readings need
    `LEAST` of the expected ones.
    """
    areas = node_areas(nodes)
    found = channels(steps)
    found = found.join(drift(hours, areas), [*KEY], "left")
    found = found.join(F.broadcast(areas), ["iad", "node"], "left")
    good = F.col("readings") - F.col("missing") - F.col("out_of_range") - F.col("spikes")
    span_ms = F.col("last_ms") - F.col("first_ms")
    spans = F.coalesce(F.round(span_ms / F.col("interval_ms")).cast("bigint"), F.lit(0))
    judged = found.withColumns(
        {
            "area": F.coalesce("area", "node"),
            "first": F.timestamp_millis("first_ms"),
            "last": F.timestamp_millis("last_ms"),
            "interval_s": F.col("interval_ms") / 1000,
            # A clock that was set back causes more readings than expected.
            "expected": F.greatest(spans + 1, F.col("readings")),
            "gap_s": F.col("gap_ms") / 1000,
            "longest_gap_s": F.col("longest_gap_ms") / 1000,
            "flatline_s": F.col("flatline_ms") / 1000,
            "drifts": F.coalesce("drifts", F.lit(False)),
            "latest_ms": F.max("last_ms").over(Window.partitionBy("iad")),
        }
    ).withColumn("success", good / F.col("expected"))
    return judged.withColumn("verdict", _verdict()).select(*SENSOR_HEALTH.names)


def _verdict() -> Column:
    interval_ms = F.coalesce("interval_ms", F.lit(0))
    pause_ms = F.greatest(F.lit(SILENT_MS), GAP_INTERVALS * interval_ms)
    unheard = F.col("last_ms") - F.col("heard_ms") > pause_ms
    gone = F.col("latest_ms") - F.col("last_ms") > SILENT_MS + GROUP_READINGS * interval_ms

    def costs(readings: Column) -> Column:
        return readings / F.col("expected") >= LEAST

    return (
        F.when(F.isnull("heard_ms") | unheard | gone, "silent")
        .when(F.col("success") < BROKEN, "broken")
        .when(costs(F.col("out_of_range")), "out_of_range")
        .when(F.col("flatlines") > 0, "flatline")
        .when(F.col("drifts"), "drift")
        .when(costs(F.col("gap_ms") / F.col("interval_ms")), "gaps")
        .when(costs(F.col("missing")), "missing")
        .when(costs(F.col("spikes")), "spikes")
        .otherwise("ok")
    )
