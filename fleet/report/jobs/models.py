"""Models of the fleet for `fleet plan`: tables that outlive the records."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import models
from fleet.report.jobs.requests import (
    CLASS,
    QUERY,
    class_name,
    served_once,
    started_s,
    task_ids,
    unloaded_ms,
)
from fleet.report.jobs.statistics import share

# Buckets of a histogram that a doubling spans: each is 9 % wide.
BUCKETS: Final = 8
# All that is faster is in one bucket, from 0.
LEAST_MS: Final = 2.0**-4
MINUTE_S: Final = 60.0
TABLES: Final = {table.name: table for table in models.TABLES}


def unloaded(subtasks: DataFrame) -> DataFrame:
    """`UNLOADED` of `SUBTASKS`: those that were dispatched once and answered.

    Buckets are [2^(k/8), 2^((k+1)/8)) ms; the mean of each is kept, so that sums stay exact.
    """
    found = F.col("found_ms")
    near = F.floor(BUCKETS * F.log2(found))
    # The logarithm may be a hair off at the edge of a bucket.
    number = (
        F.when(found < LEAST_MS, None)
        .when(found < _edge(near), near - 1)
        .when(found >= _edge(near + 1), near + 1)
        .otherwise(near)
    )
    keys = ("iad", "node", "window_s")
    return (
        subtasks.where(served_once() & (unloaded_ms() >= 0.0))
        .select("iad", "node", _power_of_two("window_s"), unloaded_ms().alias("found_ms"))
        .withColumn("bucket", number)
        .groupBy(*keys, "bucket")
        .agg(F.count("*").alias("count"), F.avg("found_ms").alias("mean_ms"))
        .withColumns(
            {
                "low_ms": F.coalesce(_edge(F.col("bucket")), F.lit(0.0)),
                "high_ms": F.coalesce(_edge(F.col("bucket") + 1), F.lit(LEAST_MS)),
            }
        )
        .select(*models.UNLOADED.names)
    )


def _edge(bucket: Column) -> Column:
    return F.pow(F.lit(2.0), bucket / F.lit(float(BUCKETS)))


def _power_of_two(seconds: str) -> Column:
    # Rounded before the ceiling: the logarithm of 64 may be a hair above 6.
    power = F.ceil(F.round(F.log2(F.greatest(seconds, F.lit(2.0**-10))), 9))
    return F.pow(F.lit(2.0), power).alias(seconds)


def arrivals(queries: DataFrame) -> DataFrame:
    """`ARRIVALS` of `QUERIES`, refused ones too.

    The time of an IAD is that from each of its queries to the next, but at most a minute: a night
    without queries is no low rate. One query alone has a minute.
    """
    asked = queries.select("iad", class_name(), *CLASS[1:], started_s().alias("at_s"))
    following = F.lead("at_s").over(Window.partitionBy("iad").orderBy("at_s"))
    # `least` passes over the null of the last query, which has none to wait for.
    pause_s = F.when(following.isNotNull(), F.least(following - F.col("at_s"), F.lit(MINUTE_S)))
    times = (
        asked.select("iad", pause_s.alias("pause_s"))
        .groupBy("iad")
        .agg(F.sum("pause_s").alias("seconds"))
        .withColumn(
            "seconds",
            F.when(F.col("seconds") > 0.0, F.col("seconds")).otherwise(F.lit(MINUTE_S)),
        )
    )
    minute = F.floor(F.col("at_s") / F.lit(MINUTE_S)).alias("minute")
    return (
        asked.groupBy("iad", *CLASS, minute)
        .agg(F.count("*").alias("queries"))
        .groupBy("iad", *CLASS)
        .agg(F.sum("queries").alias("queries"), F.max("queries").alias("most"))
        .join(times, "iad")
        .withColumns(
            {
                "rate_per_s": F.col("queries") / F.col("seconds"),
                "peak_per_s": F.col("most") / F.least("seconds", F.lit(MINUTE_S)),
            }
        )
        .select(*models.ARRIVALS.names)
    )


def sizes(queries: DataFrame, tasks: DataFrame, subtasks: DataFrame) -> DataFrame:
    """`SIZES` of `QUERIES`, with what their `TASKS` and `SUBTASKS` say of nodes and windows."""
    windows = subtasks.groupBy("task").agg(F.max("window_s").alias("window_s"))
    asked = (
        task_ids(queries, *QUERY)
        .join(tasks.select("task", "fanout", F.col("iad").alias("served")), "task", "left")
        .join(windows, "task", "left")
        .groupBy(*QUERY)
        .agg(
            F.max("fanout").alias("nodes"),
            F.when(F.count("*") == 1, F.max("served")).alias("only"),
            F.max("window_s").alias("window_s"),
        )
    )
    keys = (*CLASS, "areas", "iads", "iad", "nodes", "window_s")
    of_class = Window.partitionBy(*CLASS)
    return (
        queries.select(
            *QUERY,
            class_name(),
            *CLASS[1:],
            F.col("asked").alias("areas"),
            F.size("tasks").alias("iads"),
        )
        .join(asked, list(QUERY), "left")
        .withColumns({"iad": F.col("only"), "window_s": _power_of_two_if_known("window_s")})
        .groupBy(*keys)
        .agg(F.count("*").alias("queries"))
        .withColumn("share", share(F.col("queries"), F.sum("queries").over(of_class)))
        .select(*models.SIZES.names)
    )


def _power_of_two_if_known(seconds: str) -> Column:
    return F.when(F.col(seconds).isNotNull(), _power_of_two(seconds))


def write_models(frames: Mapping[str, DataFrame], lake: Lake) -> None:
    """Write tables of `fleet.lake.schema.tables.models`, by name, each in place of the one before.

    Each is one file in a folder of its own that appears whole, by a rename; for a moment between
    two renames there is none. The folder is on a path that all of Spark reaches.
    """
    lake.staging.mkdir(parents=True, exist_ok=True)
    lake.models.mkdir(parents=True, exist_ok=True)
    for name, frame in frames.items():
        mark = uuid.uuid4().hex
        fresh = lake.staging / f"{name}-{mark}"
        former = lake.staging / f"{name}-{mark}-former"
        ordered = frame.coalesce(1).sortWithinPartitions(*TABLES[name].key)
        ordered.write.parquet(str(fresh.resolve()))
        place = lake.models / name
        if place.exists():
            place.replace(former)
        fresh.replace(place)
        shutil.rmtree(former, ignore_errors=True)
