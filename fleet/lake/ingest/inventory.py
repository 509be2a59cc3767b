"""Ingestion of the nodes' inventory: one row per node and day, from the day's last pull."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest import paths
from fleet.lake.ingest.paths import Partition, uri
from fleet.lake.ingest.reading import read_files
from fleet.lake.ingest.store import TableChange
from fleet.lake.ingest.times import EARLIEST_MS, LATEST_MS, day, timestamp
from fleet.lake.ingest.work import Work, removal
from fleet.lake.schema import landing
from fleet.lake.schema.tables.base import NODES


def take(work: Work, files: Sequence[Path], held: list[DataFrame]) -> tuple[TableChange, int]:
    """Stage the partitions that these landing files change, as a whole; returns the number of rows
    that are new or were replaced by a later pull's. A partition has one row per node."""
    landed = _landed(work.spark, files).persist()
    held.append(landed)
    where = [Partition(*row) for row in landed.select("iad", "date").distinct().collect()]
    there = paths.existing(work.lake, NODES, where)
    old = read_files(work.spark, work.lake, NODES, there)
    every = old.withColumn("fresh", F.lit(0)).unionByName(landed.withColumn("fresh", F.lit(1)))
    # Of equals the stored row comes first, so that repeated files change nothing.
    latest = Window.partitionBy(*NODES.key).orderBy(F.col("time").desc(), "fresh", "model")
    kept = every.withColumn("rank", F.row_number().over(latest)).where(F.col("rank") == 1)
    kept = kept.drop("rank").persist()
    held.append(kept)
    counted = kept.groupBy("iad", "date").agg(
        F.count(F.lit(1)).alias("rows"), F.sum("fresh").alias("fresh")
    )
    counts = {Partition(r.iad, r.date): (r.rows, r.fresh) for r in counted.collect()}
    changed = {partition: rows for partition, (rows, fresh) in counts.items() if fresh}
    if not changed:
        return TableChange(), 0
    touched = F.struct("iad", "date").isin(
        [F.struct(F.lit(iad), F.lit(date)) for iad, date in changed]
    )
    work.stage(kept.where(touched).drop("fresh"), NODES, changed, kept=True)
    old_files = [
        file
        for folder in paths.existing(work.lake, NODES, changed)
        for file in paths.parquet_files(folder)
    ]
    return removal(work.lake, old_files), sum(fresh for _, fresh in counts.values())


def _landed(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    reader = spark.read.schema(landing.NODES).option("recursiveFileLookup", "true")
    rows = reader.parquet(*(uri(file) for file in files))
    rows = rows.where(
        (F.col("iad") != "")
        & F.col("node").isNotNull()
        & F.col("time_ms").between(EARLIEST_MS, LATEST_MS)
    )
    return rows.select(
        "iad",
        day(F.col("time_ms")).alias("date"),
        timestamp(F.col("time_ms")).alias("time"),
        "node",
        F.coalesce("areas", F.array().cast("array<string>")).alias("areas"),
        F.coalesce("model", F.lit("")).alias("model"),
    )
