"""Compaction: merges the small files of a partition, so that a reader opens few."""

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
    """Join the small files of every partition that has several; how many files went.

    Small is below half of `sizes.file_bytes`; what is joined is about that long at most. The rows
    stay the same. A partition with one small file is not touched, so a second run does nothing.
    store.BusyError; OSError; whatever Spark raises.
    """
    lake = paths.named_whole(lake)
    with store.writing(lake):
        store.recover(lake)
        return join(spark, lake, sizes)


def join(spark: SparkSession, lake: Lake, sizes: Sizes) -> int:
    """The same, by a writer who is at work already."""
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
    # A partition's bins come one after another: each has a file to itself then.
    while bins:
        for portion in _portions(bins, sizes.portion_bytes):
            files = [file for one in portion.values() for file in one]
            _rewrite(Work(spark, lake, store.new_staging(lake), sizes, _now), table, files)
            gone += len(files)
        bins = {partition: rest[1:] for partition, rest in bins.items() if rest[1:]}
    return gone


def binned(files: list[Path], file_bytes: int) -> Iterator[Bin]:
    """Those of `files` that are to become one file each. First fit, the largest first: at most one
    small one is left over."""
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
    """The first bin of each partition, some partitions at a time."""
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
