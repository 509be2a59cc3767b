"""Models of placement from the lake, by PySpark."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest.reading import read
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base, models
from fleet.report.jobs.models import write_models
from fleet.report.jobs.statistics import total

LAST = ("time", "start_s")


def learn(spark: SparkSession, lake: Lake, since: datetime | None = None) -> None:
    """Write the models of all that was recorded since then."""
    placement = read(spark, lake, base.PLACEMENT, since).persist()
    try:
        frames = {
            "service_times": service_times(read(spark, lake, base.PROCESSING, since)),
            "topic_arrivals": topic_arrivals(placement),
            "master_delays": master_delays(placement),
            "masters": masters(placement),
        }
        write_models(frames, lake)
    finally:
        placement.unpersist()


def service_times(processing: DataFrame) -> DataFrame:
    """SERVICE_TIMES of PROCESSING."""
    last = F.struct(*LAST)
    measured = F.col("cpu_ms").isNotNull()
    latest = ("processor", "iad", "percentile", "slo_ms", "state_bytes")
    return (
        processing.groupBy("topic")
        .agg(
            *[F.max_by(name, last).alias(name) for name in latest],
            total("processed").alias("messages"),
            F.try_divide(
                F.sum(F.col("cpu_ms") * F.col("processed")),
                total(F.when(measured, F.col("processed"))),
            ).alias("mean_ms"),
            F.median("achieved_ms").alias("achieved_ms"),
        )
        .withColumnRenamed("mean_ms", "cpu_ms")
        .select(*models.SERVICE_TIMES.names)
    )


def topic_arrivals(placement: DataFrame) -> DataFrame:
    """TOPIC_ARRIVALS of PLACEMENT. A source that a record does not name sent nothing then, so means
    are of all records in which the topic was somewhere."""
    hour = F.hour("time").alias("hour")
    there = (
        placement.select(hour, "date", F.explode("topics").alias("topic"))
        .groupBy("hour", "topic")
        .agg(F.count("*").alias("records"), F.count_distinct("date").alias("days"))
    )
    came = (
        placement.select(hour, F.inline("arrivals"))
        .groupBy("hour", "topic", "source", "peer")
        .agg(F.sum("per_s").alias("sum_per_s"), F.max("per_s").alias("most_per_s"))
    )
    nobody = {name: F.coalesce(F.col(name), F.lit("")) for name in ("source", "peer")}
    return (
        there.join(came, ["hour", "topic"], "left")
        .withColumns(nobody)
        .withColumn("per_s", F.coalesce(F.col("sum_per_s"), F.lit(0.0)) / F.col("records"))
        .withColumn("most_per_s", F.coalesce("most_per_s", F.lit(0.0)))
        .select(*models.TOPIC_ARRIVALS.names)
    )


def master_delays(placement: DataFrame) -> DataFrame:
    """MASTER_DELAYS of PLACEMENT."""
    return (
        placement.select("iad", F.explode("delays").alias("delay"))
        .groupBy("iad", F.col("delay.iad").alias("other"))
        .agg(
            F.median("delay.p50_ms").alias("p50_ms"),
            F.median("delay.p90_ms").alias("p90_ms"),
            F.count("*").alias("records"),
        )
        .select(*models.MASTER_DELAYS.names)
    )


def masters(placement: DataFrame) -> DataFrame:
    """MASTERS of PLACEMENT."""
    last = F.struct(*LAST)
    latest = [name for name in models.MASTERS.names if name not in {"iad", "time", "records"}]
    return (
        placement.groupBy("iad")
        .agg(
            F.max("time").alias("time"),
            F.count("*").alias("records"),
            *[F.max_by(name, last).alias(name) for name in latest],
        )
        .select(*models.MASTERS.names)
    )
