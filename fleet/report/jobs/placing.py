"""Processors of topics and moves of units: by topic, by master."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.placing import MASTER_LOAD, MOVED, PROCESSED
from fleet.report.jobs.statistics import percentile, ranked

SETTLED = "settled"
KEYS = ("iad", "topic", "processor")


def processed(processing: DataFrame) -> DataFrame:
    """PROCESSED of PROCESSING. A percentile of several minutes cannot be had from those of each, so
    there are their median and the worst."""
    last = F.struct("time", "start_s")
    kept = F.coalesce(F.col("achieved_ms") <= F.col("slo_ms"), F.lit(True))
    return (
        ranked(processing, KEYS, "achieved_ms")
        .groupBy(*KEYS)
        .agg(
            F.max_by("percentile", last).alias("percentile"),
            F.max_by("slo_ms", last).alias("slo_ms"),
            F.sum("seconds").alias("seconds"),
            *[
                F.sum(name).alias(name)
                for name in ("arrived", "processed", "late", "failed", "skipped")
            ],
            F.try_divide(F.sum("late"), F.sum("processed")).alias("late_share"),
            F.coalesce(F.try_divide(F.sum("arrived"), F.sum("seconds")), F.lit(0.0)).alias(
                "rate_per_s"
            ),
            F.try_divide(F.sum(F.col("cpu_ms") * F.col("processed")), F.sum("processed")).alias(
                "cpu_ms"
            ),
            F.coalesce(F.try_divide(F.sum("cpu_s"), F.sum("seconds")), F.lit(0.0)).alias("load"),
            F.count_if(F.col("processed") > 0).alias("records"),
            F.count_if((F.col("processed") > 0) & kept).alias("kept"),
            percentile("achieved_ms", 50.0).alias("median_ms"),
            F.max("achieved_ms").alias("worst_ms"),
            F.max("state_bytes").alias("state_bytes"),
            F.max_by("state", last).alias("state"),
        )
        .withColumnRenamed("median_ms", "achieved_ms")
        .select(*PROCESSED.names)
    )


def master_load(processing: DataFrame, moves: DataFrame) -> DataFrame:
    """MASTER_LOAD of PROCESSING and MOVES. The records of a master's processors cover the same
    times, so those that begin together are added up."""
    at_once = processing.groupBy("iad", "start_s").agg(
        F.count("*").alias("topics"),
        F.max("seconds").alias("seconds"),
        F.sum("cpu_s").alias("cpu_s"),
    )
    load = F.coalesce(F.try_divide("cpu_s", "seconds"), F.lit(0.0))
    loads = at_once.groupBy("iad").agg(
        F.max("topics").alias("most_topics"),
        F.coalesce(F.try_divide(F.sum("cpu_s"), F.sum("seconds")), F.lit(0.0)).alias("load"),
        F.max(load).alias("most_load"),
    )
    sums = processing.groupBy("iad").agg(
        F.count_distinct("topic").alias("topics"),
        F.max("cores").alias("cores"),
        F.max("workers").alias("workers"),
        F.sum("processed").alias("processed"),
        F.sum("late").alias("late"),
    )
    settled = moves.where(F.col("state") == SETTLED)
    came = settled.groupBy(F.col("target").alias("iad")).agg(F.count("*").alias("came"))
    left = settled.groupBy(F.col("source").alias("iad")).agg(F.count("*").alias("left"))
    joined = sums.join(loads, "iad")
    for part in (came, left):
        joined = joined.join(part, "iad", "outer")
    return joined.fillna(0).select(*MASTER_LOAD.names)


def moved(moves: DataFrame) -> DataFrame:
    """MOVED of MOVES."""
    return moves.select(*MOVED.names)
