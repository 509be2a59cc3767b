"""Intervals of processors from the lake, by PySpark."""

from __future__ import annotations

from typing import Final

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest.reading import read
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.base import PROCESSING
from fleet.placement.campaign.stays import Interval

# The newest; a model takes a few hundred runs, and this is what is held in memory.
MAX_ROWS: Final = 20_000
SERVING: Final = ("ready", "running")
# A processor that joins begins its interval a moment after those that it joins begin theirs.
JOINED_S: Final = 0.05
QUANTILES: Final = {50.0: "latency_p50_ms", 90.0: "latency_p90_ms", 99.0: "latency_p99_ms"}


def intervals(spark: SparkSession, lake: Lake, percentile: float) -> list[Interval]:
    """The newest intervals of the lake in which every processor served and none failed, with these
    percentiles (50, 90 or 99) of latencies."""
    rows = read(spark, lake, PROCESSING).withColumn("latency_ms", F.col(QUANTILES[percentile]))
    topic = F.struct("topic", "arrived", "processed", "cpu_ms", "latency_ms", "slo_ms")
    sound = F.col("state").isin(*SERVING) & (F.col("failed") == 0)
    found = (
        rows.withColumn("end_s", F.round(F.col("start_s") + F.col("seconds"), 6))
        .groupBy("iad", "end_s", "cores", "workers")
        .agg(
            F.min("start_s").alias("start_s"),
            (F.max("start_s") - F.min("start_s")).alias("apart_s"),
            F.max("seconds").alias("seconds"),
            F.array_sort(F.collect_list(topic)).alias("topics"),
            F.max("time").alias("time"),
            F.max(F.size("together")).alias("listed"),
            F.count_if(~sound).alias("unsound"),
            F.count("others").alias("cut"),
        )
        # A record that was not pulled yet would make a set of topics smaller than it was.
        .where((F.col("unsound") == 0) & (F.size("topics") == F.col("listed") + 1))
        # Of a crowd, no record says who was there all the time.
        .where((F.col("cut") == 0) & (F.col("apart_s") < JOINED_S))
        .orderBy(F.desc("time"), "iad", "start_s")
        .limit(MAX_ROWS)
        .drop("time", "listed", "unsound", "cut", "apart_s", "end_s")
        .collect()
    )
    return msgspec.convert([row.asDict(recursive=True) for row in found], list[Interval])
