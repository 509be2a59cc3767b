"""Compaction: merges the small files of a partition, so that readers open few files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from fleet.lake.ingest import paths, store
from fleet.lake.ingest.paths import Partition
from fleet.lake.ingest.reading import read_files
from fleet.lake.ingest.work import USUAL, Sizes, Work, removal, rows_by_partition, side_by_side
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base
from fleet.lake.schema.tables.model import Table

Bin = list[Path]


def compact(spark: SparkSession, lake: Lake, *, sizes: Sizes = USUAL) -> int:
    """Merge the small files of every partition that has several; returns the number of files
    removed.

    Small is below half of `sizes.file_bytes`; merged files have at most about that length. The rows
    stay the same. A partition with one small file is not touched, so a second run changes nothing.
    store.BusyError; OSError; exceptions of Spark.
    """
    lake = paths.named_whole(lake)
    with store.writing(lake):
        store.recover(lake)
        return join(spark, lake, sizes)


def join(spark: SparkSession, lake: Lake, sizes: Sizes) -> int:
    """The same, for a caller that is the lake's writer already."""
    gone: list[int] = []

    def one(table: Table) -> None:
        gone.append(_join(spark, lake, table, sizes))

    side_by_side([partial(one, table) for table in base.TABLES])
    return sum(gone)


def _join(spark: SparkSession, lake: Lake, table: Table, sizes: Sizes) -> int:
    bins: dict[Partition, list[Bin]] = {}
    for partition, folder in paths.partition_folders(lake, table).items():
        if found := list(binned(paths.parquet_files(folder), sizes.file_bytes)):
            bins[partition] = found
    gone = 0
    # The bins of a partition are processed one after another, so that each gets a file of its own.
    while bins:
        for portion in _portions(bins, sizes.portion_bytes):
            files = [file for one in portion.values() for file in one]
            _rewrite(Work(spark, lake, store.new_staging(lake), sizes, _now), table, files)
            gone += len(files)
        bins = {partition: rest[1:] for partition, rest in bins.items() if rest[1:]}
    return gone


def binned(files: list[Path], file_bytes: int) -> Iterator[Bin]:
    """Groups of `files` that each become one file. First fit, the largest first: at most one small
    file is left over."""
    bins: list[tuple[int, Bin]] = []
    sized = sorted(((file.stat().st_size, file) for file in files), reverse=True)
    for size, file in sized:
        if size >= file_bytes / 2:
            continue
        for number, (total, found) in enumerate(bins):
            if total + size <= file_bytes:
                bins[number] = (total + size, [*found, file])
                break
        else:
            bins.append((size, [file]))
    for _, found in bins:
        if len(found) > 1:
            yield found


def _portions(
    bins: Mapping[Partition, list[Bin]], most_bytes: int
) -> Iterator[dict[Partition, Bin]]:
    """The first bins of several partitions at a time."""
    portion: dict[Partition, Bin] = {}
    size = 0
    for partition, found in bins.items():
        portion[partition] = found[0]
        size += sum(file.stat().st_size for file in found[0])
        if size >= most_bytes:
            yield portion
            portion, size = {}, 0
    if portion:
        yield portion


def _rewrite(work: Work, table: Table, files: list[Path]) -> None:
    rows = read_files(work.spark, work.lake, table, files)
    counts = rows_by_partition(files)
    work.stage(rows, table, counts, kept=True, salts=1)
    if work.staged_rows() != sum(counts.values()):
        raise store.StoreError(f"{table.name}: files changed while they were joined; try again")
    work.commit(removal(work.lake, files))


def _now() -> datetime:
    return datetime.now(UTC)
