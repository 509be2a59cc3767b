"""Reads tables of the lake as DataFrames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest.paths import plain_uri, uri
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.model import Table

# Columns that `since` and `until` refer to: the first of these that a table has.
TIMES: Final = ("time", "first")


def read(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    since: datetime | None = None,
    until: datetime | None = None,
) -> DataFrame:
    """The rows of `table` from `since` on and before `until`, with its columns in order.

    The bounds apply to `time`, to `first` in a table without `time`, otherwise to whole days. Only
    the partitions of those days are listed and read, and only the columns that are used later.
    Empty if nothing was ingested yet.
    """
    folder = lake.table(table.name)
    if not folder.is_dir():
        return empty(spark, table)
    rows = spark.read.schema(table.ddl).parquet(uri(folder)).select(*table.names)
    return _between(rows, table, since, until)


def read_files(
    spark: SparkSession,
    lake: Lake,
    table: Table,
    paths: Sequence[Path],
    columns: Iterable[str] | None = None,
    *,
    file: str = "",
) -> DataFrame:
    """The rows of these files or folders of a table; with the column `file`, if that name is given,
    which holds each row's file. Empty for no paths."""
    names = list(columns or table.names)
    if not paths:
        nothing = empty(spark, table).select(*names)
        return nothing.withColumn(file, F.lit("")) if file else nothing
    rows = (
        spark.read.schema(table.ddl)
        .option("basePath", plain_uri(lake.table(table.name)))
        .parquet(*map(uri, paths))
    )
    origin = [F.col("_metadata.file_path").alias(file)] if file else []
    return rows.select(*names, *origin)


def empty(spark: SparkSession, table: Table) -> DataFrame:
    """`table` without a row, as Spark's planner sees: jobs that only join or count it are none.
    It does not look into rows from Python, even if there are none."""
    columns = [F.lit(None).cast(each.type).alias(each.name) for each in table.columns]
    return spark.range(1).where(F.lit(False)).select(*columns)


def _between(
    rows: DataFrame, table: Table, since: datetime | None, until: datetime | None
) -> DataFrame:
    time = next((name for name in TIMES if name in table.names), None)
    if since is not None:
        since = in_utc(since)
        rows = rows.where(F.col("date") >= F.lit(since.date()))
        if time:
            rows = rows.where(F.col(time) >= _literal(since))
    if until is not None:
        until = in_utc(until)
        last = until - timedelta(microseconds=1)
        rows = rows.where(F.col("date") <= F.lit(last.date()))
        if time:
            rows = rows.where(F.col(time) < _literal(until))
    return rows


def in_utc(time: datetime) -> datetime:
    """A time in UTC; one without a zone is meant so."""
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _literal(time: datetime) -> Column:
    return F.timestamp_micros(F.lit(_micros(time)))


def _micros(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
