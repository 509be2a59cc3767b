"""Processors of topics and moves of units: by topic, by master, before and after a move."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.placing import MASTER_LOAD, MOVE_EFFECTS, MOVED, PROCESSED
from fleet.report.jobs.statistics import percentile, ranked, total

SETTLED = "settled"
KEYS = ("iad", "topic", "processor")
# What is compared on either side of a move, at most.
SIDE = "INTERVAL 1 HOUR"
# Of a record, which covers a minute.
LONGEST_S = 86_400.0


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
                total(name).alias(name)
                for name in ("arrived", "processed", "late", "failed", "skipped")
            ],
            F.try_divide(total("late"), total("processed")).alias("late_share"),
            F.coalesce(F.try_divide(total("arrived"), F.sum("seconds")), F.lit(0.0)).alias(
                "rate_per_s"
            ),
            F.try_divide(F.sum(F.col("cpu_ms") * F.col("processed")), total("processed")).alias(
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
    times, so those that begin together are added up. Into a crowd some come later: their time is
    that of the others, and counts once."""
    at_once = processing.groupBy("iad", "start_s").agg(
        F.count("*").alias("topics"),
        F.max("seconds").alias("longest"),
        F.sum("cpu_s").alias("cpu_s"),
        F.unix_micros(F.min("time")).alias("began"),
    )
    ended = F.col("began") + F.col("longest") * 1e6
    before = (
        Window.partitionBy("iad")
        .orderBy("began", "start_s")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    new = (ended - F.coalesce(F.max(ended).over(before), F.col("began"))) / 1e6
    at_once = at_once.withColumn("seconds", F.greatest(F.lit(0.0), F.least(F.col("longest"), new)))
    load = F.coalesce(F.try_divide("cpu_s", "longest"), F.lit(0.0))
    loads = at_once.groupBy("iad").agg(
        F.max("topics").alias("most_topics"),
        F.coalesce(F.try_divide(F.sum("cpu_s"), F.sum("seconds")), F.lit(0.0)).alias("load"),
        F.max(load).alias("most_load"),
    )
    sums = processing.groupBy("iad").agg(
        F.count_distinct("topic").alias("topics"),
        F.max("cores").alias("cores"),
        F.max("workers").alias("workers"),
        total("processed").alias("processed"),
        total("late").alias("late"),
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


def move_effects(processing: DataFrame, moves: DataFrame, placement: DataFrame) -> DataFrame:
    """MOVE_EFFECTS of PROCESSING, MOVES and PLACEMENT. A side ends where the topic moved before or
    after that. Records of source and target are told apart by their masters' wall clocks."""
    of_unit = Window.partitionBy("unit").orderBy("time", "start_s")
    hour = F.expr(SIDE)
    settled = (
        moves.where((F.col("state") == SETTLED) & (F.col("kind") == "processor"))
        .withColumns(
            {
                "since": F.greatest(F.lag("time").over(of_unit), F.col("time") - hour),
                "until": F.least(F.lead("time").over(of_unit), F.col("time") + hour),
            }
        )
        .select(
            "iad", F.col("unit").alias("topic"), "start_s", "time", "source", "target", "reason",
            "pause_ms", "since", "until",
        )
    )  # fmt: skip
    seen = _seen(processing, placement)
    at_source = (F.col("at") == F.col("source")) & (F.col("seen") >= F.col("since"))
    before = at_source & (F.col("ended") <= F.col("time"))
    at_target = (F.col("at") == F.col("target")) & (F.col("seen") >= F.col("time"))
    after = at_target & (F.col("seen") < F.col("until"))
    key = ("iad", "topic", "start_s", "time", "target", "reason", "pause_ms")
    return (
        settled.join(seen, "topic", "left")
        .withColumn("side", F.when(before, "before").when(after, "after"))
        .groupBy(*key)
        .agg(
            F.max_by("percentile", "seen").alias("percentile"),
            F.max_by("slo_ms", "seen").alias("slo_ms"),
            *_side("before"),
            *_side("after"),
        )
        .select(*MOVE_EFFECTS.names)
    )


def _seen(processing: DataFrame, placement: DataFrame) -> DataFrame:
    """Records of both kinds as rows of one: where a topic was, and what was measured of it."""
    way = "try_element_at(filter(delays, delay -> delay.iad = source), 1).p50_ms"
    ways = (
        placement.select("iad", "time", "delays", F.inline("arrivals"))
        .withColumn("way_ms", F.expr(f"CASE WHEN source = iad THEN 0.0D ELSE {way} END"))
        .where(F.col("way_ms").isNotNull() & (F.col("per_s") > 0.0))
        .select(
            "topic", F.col("iad").alias("at"), F.col("time").alias("seen"),
            F.col("time").alias("ended"), "per_s", (F.col("per_s") * F.col("way_ms")).alias("way"),
        )
    )  # fmt: skip
    lasted_s = F.greatest(F.lit(0.0), F.least("seconds", F.lit(LONGEST_S)))
    measured = processing.where(F.col("processed") > 0).select(
        "topic", F.col("iad").alias("at"), F.col("time").alias("seen"),
        F.timestamp_micros(
            F.unix_micros("time") + (lasted_s * 1_000_000).cast("bigint")
        ).alias("ended"),
        "percentile", "slo_ms", "seconds", "arrived", "processed", "late", "achieved_ms",
    )  # fmt: skip
    return measured.unionByName(ways, allowMissingColumns=True)


def _side(side: str) -> list[Column]:
    def of(name: str) -> Column:
        return F.when(F.col("side") == side, F.col(name))

    return [
        F.count(of("processed")).alias(f"{side}_records"),
        F.try_divide(total(of("arrived")), F.sum(of("seconds"))).alias(f"{side}_rate_per_s"),
        F.median(of("achieved_ms")).alias(f"{side}_achieved_ms"),
        F.max(of("achieved_ms")).alias(f"{side}_worst_ms"),
        F.try_divide(total(of("late")), total(of("processed"))).alias(f"{side}_late_share"),
        F.try_divide(F.sum(of("way")), F.sum(of("per_s"))).alias(f"{side}_way_ms"),
    ]
