"""Sensor health, first pass: statistics of one day's readings per channel.

A day is looked at alone, so that memory does not grow with the history; what lies across midnight
is left for `health_days`, which sees the ends of the days. Times are milliseconds since 1970.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.health_limits import limit
from sensors.quality.channel import FLAT_GAP
from sensors.quality.flags import CHECKSUM, FLATLINE, NO_RESPONSE, OUT_OF_RANGE, SPIKE

KEY: Final = ("iad", "node", "sensor", "channel")
# Readings on either side that a value is held against.
BESIDE: Final = (-2, -1, 1, 2)


def _day() -> WindowSpec:
    return Window.partitionBy(*KEY, "date").orderBy("time_ms", "value")


def flagged(flags: int) -> Column:
    """Whether the node set one of `flags`."""
    return F.col("quality").bitwiseAND(F.lit(flags)) != 0


def judged(readings: DataFrame) -> DataFrame:
    """`readings` with what a value alone says: `missing`, `out_of_range`, and `usable`, the value
    if it is neither, else null. A flag of the node counts as much as the limits."""
    value = F.col("value").cast("double")
    missing = F.isnan("value") | flagged(NO_RESPONSE | CHECKSUM)
    beyond = flagged(OUT_OF_RANGE) | ~value.between(limit("low"), limit("high"))
    named = readings.withColumns({"missing": missing, "out_of_range": ~missing & beyond})
    return named.withColumn("usable", F.when(~missing & ~beyond, value))


def by_step(readings: DataFrame) -> DataFrame:
    """One row for each channel, day and `step_ms`, the time since the reading before; null for the
    first reading of a day.

    Counts (`readings, missing, out_of_range, spikes`), ends (`first_ms, last_ms`, and `heard_ms`,
    the last with a value), and the runs of equal values: those inside of the day that are flatlines
    (`flatlines, flatline_ms`), and what `health_days` needs of the day's first and last one. One
    shuffle and one sort of all readings, which come at few different steps: what is left is small.
    """
    narrow = readings.select(
        *KEY, "date", F.unix_millis("time").alias("time_ms"), "value", "quality"
    )
    return _counted(_runs(_spikes(judged(narrow))))


def _spikes(rows: DataFrame) -> DataFrame:
    """A value that fewer than half of the usable ones beside it agree with, to within max_step +
    max_rate_per_s · dt; alone with one neighbour nobody can say which of them is off."""
    day = _day()
    steps = {"step_ms": F.col("time_ms") - F.lag("time_ms").over(day)}
    for i in BESIDE:
        steps[f"usable{i}"] = F.lead("usable", i).over(day)
        steps[f"time{i}"] = F.lead("time_ms", i).over(day)
    rows = rows.withColumns(steps)
    near = [_count(_near(i)) for i in BESIDE]
    there = [_count(F.isnotnull(f"usable{i}")) for i in BESIDE]
    agree, beside = reduce(add, near), reduce(add, there)
    found = F.isnotnull("usable") & (flagged(SPIKE) | ((beside >= 2) & (2 * agree < beside)))
    return rows.withColumn("spike", found)


def _near(i: int) -> Column:
    dt_s = F.abs(F.col("time_ms") - F.col(f"time{i}")) / 1000
    allowed = limit("max_step") + limit("max_rate_per_s") * dt_s
    return F.abs(F.col("usable") - F.col(f"usable{i}")) <= allowed


def _runs(rows: DataFrame) -> DataFrame:
    """At the first reading of each run of equal values but the day's first one, the run before:
    `run_ms` to `run_end_ms`, its `run_value`, whether the node flagged it, whether it was the day's
    first (`head`). `starts_ms` is where a run starts."""
    before = _day().rowsBetween(Window.unboundedPreceding, -1)
    at = F.when(F.isnotnull("usable"), F.col("time_ms"))
    rows = rows.withColumns(
        {
            "usable_ms": at,
            "stuck": F.when(F.isnotnull("usable"), flagged(FLATLINE)),
            "run_value": F.last(F.col("usable"), ignorenulls=True).over(before),
        }
    )
    rows = rows.withColumns(
        {
            "run_end_ms": F.max("usable_ms").over(before),
            "run_stuck": F.last("stuck", ignorenulls=True).over(before),
            "day_ms": F.min("usable_ms").over(before),
        }
    )
    same = F.col("usable").eqNullSafe(F.col("run_value")) & ~apart(
        F.col("usable_ms") - F.col("run_end_ms")
    )
    starts = F.when(F.isnotnull("usable") & ~F.coalesce(same, F.lit(False)), F.col("time_ms"))
    rows = rows.withColumn("starts_ms", starts)
    rows = rows.withColumn("run_ms", F.max("starts_ms").over(before))
    ended = F.isnotnull("starts_ms") & F.isnotnull("run_ms")
    return rows.withColumns({"ended": ended, "head": ended & (F.col("run_ms") == F.col("day_ms"))})


def apart(gap_ms: Column) -> Column:
    """Whether nobody saw the value stay the same in so long a time."""
    return gap_ms > limit("flat_s") * (1000 * FLAT_GAP)


def flat(start_ms: Column, end_ms: Column, value: Column, stuck: Column) -> Column:
    """Whether a run is a flatline: the node said so, or it lasts and is at no end of the range."""
    lasts = end_ms - start_ms >= limit("flat_s") * 1000
    return stuck | (lasts & (value > limit("low")) & (value < limit("high")))


def _counted(rows: DataFrame) -> DataFrame:
    run = [F.col(name) for name in ("run_ms", "run_end_ms", "run_value", "run_stuck")]
    inside = F.col("ended") & ~F.col("head") & flat(*run)
    head = F.col("head")
    return rows.groupBy(*KEY, "date", "step_ms").agg(
        F.count(F.lit(1)).alias("readings"),
        F.count_if("missing").alias("missing"),
        F.count_if("out_of_range").alias("out_of_range"),
        F.count_if("spike").alias("spikes"),
        F.min("time_ms").alias("first_ms"),
        F.max("time_ms").alias("last_ms"),
        F.max(F.when(~F.col("missing"), F.col("time_ms"))).alias("heard_ms"),
        F.count_if(inside).alias("flatlines"),
        F.sum(F.when(inside, run[1] - run[0]).otherwise(0)).alias("flatline_ms"),
        F.min("usable_ms").alias("head_ms"),
        F.max(F.when(head, F.col("run_end_ms"))).alias("head_end_ms"),
        F.max(F.when(head, F.col("run_value"))).alias("head_value"),
        F.max(F.when(head, F.col("run_stuck"))).alias("head_stuck"),
        F.max("starts_ms").alias("tail_ms"),
        F.max("usable_ms").alias("tail_end_ms"),
        F.max_by("usable", "usable_ms").alias("tail_value"),
        F.max_by("stuck", "usable_ms").alias("tail_stuck"),
    )


def _count(condition: Column) -> Column:
    return F.when(condition, 1).otherwise(0)
