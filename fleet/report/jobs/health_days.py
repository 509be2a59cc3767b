"""Sensor health, second pass: combines days, and finds what crosses midnight."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.health_readings import KEY, apart, flat

# Readings are missing if the next one comes after more than this many intervals.
GAP_INTERVALS: Final = 3
# End, value and flag of a day's first run.
HEAD: Final = ("head_end_ms", "head_value", "head_stuck")


def channels(steps: DataFrame) -> DataFrame:
    """One row a channel out of `health_readings.by_step`: counts, ends, the median interval, gaps
    and flatlines, those across midnight too. One shuffle, of days."""
    days = _flatlines(_days(_gaps(steps)))
    return days.groupBy(*KEY).agg(
        *[
            F.sum(name).alias(name)
            for name in (
                "readings",
                "missing",
                "out_of_range",
                "spikes",
                "gaps",
                "gap_ms",
                "flatlines",
                "flatline_ms",
            )
        ],
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.max("heard_ms").alias("heard_ms"),
        F.max("longest_gap_ms").alias("longest_gap_ms"),
        F.first("interval_ms").alias("interval_ms"),
    )


def _gaps(steps: DataFrame) -> DataFrame:
    """The first step of a day counts from the day before. The median step is exact: steps are
    counted, and there are few different ones."""
    every = Window.partitionBy(*KEY)
    before = every.orderBy("date", F.col("step_ms").asc_nulls_first())
    before = before.rowsBetween(Window.unboundedPreceding, -1)
    steps = steps.withColumn(
        "step_ms", F.coalesce("step_ms", F.col("first_ms") - F.max("last_ms").over(before))
    )
    forward = F.when(F.col("step_ms") > 0, F.col("step_ms"))
    median = F.percentile(forward, 0.5, F.col("readings")).over(every)
    steps = steps.withColumn("interval_ms", median)
    gap = F.col("step_ms") > GAP_INTERVALS * F.col("interval_ms")
    return steps.withColumns(
        {
            "gaps": F.when(gap, F.col("readings")).otherwise(0),
            "gap_ms": F.when(gap, F.col("readings") * F.col("step_ms")).otherwise(0),
            "longest_gap_ms": F.when(gap, F.col("step_ms")).otherwise(0),
        }
    )


def _days(steps: DataFrame) -> DataFrame:
    """One row a day."""
    totals = ("readings", "missing", "out_of_range", "spikes", "gaps", "gap_ms", "flatlines")
    least = ("first_ms", "head_ms")
    most = ("last_ms", "heard_ms", "longest_gap_ms", *HEAD, "tail_ms")
    return steps.groupBy(*KEY, "date").agg(
        *[F.sum(name).alias(name) for name in (*totals, "flatline_ms")],
        *[F.min(name).alias(name) for name in least],
        *[F.max(name).alias(name) for name in most],
        F.max_by("tail_value", "tail_end_ms").alias("tail_value"),
        F.max_by("tail_stuck", "tail_end_ms").alias("tail_stuck"),
        F.max("tail_end_ms").alias("tail_end_ms"),
        F.first("interval_ms").alias("interval_ms"),
    )


def _flatlines(days: DataFrame) -> DataFrame:
    """Adds the flatlines among the first and last runs of the days, which may go on for days.

    `open_ms` is where the run began that a day ends with. A day's first run is told when it ends;
    the last run, on the day after which no value comes, or another one.
    """
    every = Window.partitionBy(*KEY)
    in_order = every.orderBy("date")
    until = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    there = F.isnotnull("tail_ms")
    whole = there & F.isnull("head_end_ms")  # one run all day
    first_value = F.coalesce("head_value", "tail_value")
    last_ms = F.max("tail_end_ms").over(before)
    last_value = F.last("tail_value", ignorenulls=True).over(before)
    days = days.withColumns({"before_ms": last_ms, "before_value": last_value})
    goes_on = (
        there
        & (F.col("before_value") == first_value)
        & ~apart(F.col("head_ms") - F.col("before_ms"))
    )
    days = days.withColumn("goes_on", F.coalesce(goes_on, F.lit(False)))
    began = F.when(there & ~(whole & F.col("goes_on")), F.col("tail_ms"))
    days = days.withColumn("began_ms", began)
    days = days.withColumns(
        {
            "before_began_ms": F.last("began_ms", ignorenulls=True).over(before),
            "before_stuck": F.last("tail_stuck", ignorenulls=True).over(before),
            "open_ms": F.last("began_ms", ignorenulls=True).over(until),
            "last_day": there & (F.max("tail_end_ms").over(every) == F.col("tail_end_ms")),
        }
    )
    cut = there & ~F.col("goes_on") & F.isnotnull("before_began_ms")
    ends, goes_on = F.isnotnull("head_end_ms"), F.col("goes_on")
    runs = (
        # (there is one, from, to, value, stuck)
        (cut, "before_began_ms", "before_ms", "before_value", "before_stuck"),
        (ends & goes_on, "before_began_ms", *HEAD),
        (ends & ~goes_on, "head_ms", *HEAD),
        (F.col("last_day"), "open_ms", "tail_end_ms", "tail_value", "tail_stuck"),
    )
    flatlines, flatline_ms = F.col("flatlines"), F.col("flatline_ms")
    for there_is, start, end, value, stuck in runs:
        told = there_is & flat(F.col(start), F.col(end), F.col(value), F.col(stuck))
        flatlines = flatlines + F.when(told, 1).otherwise(0)
        flatline_ms = flatline_ms + F.when(told, F.col(end) - F.col(start)).otherwise(0)
    return days.withColumns({"flatlines": flatlines, "flatline_ms": flatline_ms})
