"""Stages the rows that a table does not have yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest import paths
from fleet.lake.ingest.paths import Partition
from fleet.lake.ingest.reading import read_files
from fleet.lake.ingest.store import TableChange
from fleet.lake.ingest.work import Work, removal, rows_by_partition
from fleet.lake.schema.tables.model import Table


def insert(
    work: Work,
    table: Table,
    rows: DataFrame,
    counts: Mapping[Partition, int],
    among: Sequence[Path] | None = None,
) -> None:
    """Stage those of `rows` whose key is new, one row per key.

    `counts` is the number of rows by partition, repeats included. Stored keys are looked for in
    `among`, folders of partitions, by default those of `rows`; only the key columns are read.
    """
    if not counts:
        return
    there = paths.existing(work.lake, table, counts) if among is None else among
    if there:
        known = read_files(work.spark, work.lake, table, there, table.key)
        rows = rows.join(known, [*table.key], "left_anti")
    work.stage(rows, table, counts, unique=True)


def without(
    work: Work, table: Table, partitions: Sequence[Partition], keys: DataFrame
) -> TableChange:
    """Stage copies of the files of these partitions that have rows of `keys`, without those rows;
    the change removes the old files. The columns of `keys` are a subset of the table's."""
    known = list(keys.columns)
    folders = paths.existing(work.lake, table, partitions)
    if not folders:
        return TableChange()
    found = read_files(work.spark, work.lake, table, folders, known, file="file")
    hit = found.join(F.broadcast(keys), known, "left_semi").select("file").distinct().collect()
    files = sorted(paths.local(row.file) for row in hit)
    if files:
        left = read_files(work.spark, work.lake, table, files)
        left = left.join(F.broadcast(keys), known, "left_anti")
        work.stage(left, table, rows_by_partition(files), kept=True)
    return removal(work.lake, files)
