"""Shared state of one merge: staging folder, and how rows are split into files."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest.paths import Partition, partition_of, plain_uri
from fleet.lake.ingest.store import TableChange, commit
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base
from fleet.lake.schema.tables.model import Table

# Rows as stored in a file: their approximate size, and their sort order.
BYTES_A_ROW: Final = {"readings": 2, "subtasks": 40}
USUAL_BYTES: Final = 100
ORDER: Final = {
    "readings": ("node", "channel", "time"),
    "groups": ("node", "first"),
    "quarantine": ("reason", "source"),
    "nodes": ("node",),
}
SALT: Final = "_salt"
# Row groups are small, so that a task can hold several files open. Columns that grow from row to
# row are delta-encoded, which dictionary encoding would prevent: a third of the bytes.
PARQUET: Final = {
    "compression": "zstd",
    "parquet.block.size": str(32 * 2**20),
    "parquet.writer.version": "v2",
    "parquet.enable.dictionary#time": "false",
    "parquet.enable.dictionary#sequence": "false",
}


class Sizes(NamedTuple):
    """Sizes of files, batches and tasks."""

    file_bytes: int = 100 * 2**20  # maximum of a table's file
    portion_bytes: int = 4 * 2**30  # of the landing, merged as one change
    batch_files: int = 5_000  # of the landing, examined by the driver at a time
    task_rows: int = 500_000  # worth a task of their own


USUAL: Final = Sizes()


class Work(NamedTuple):
    """`folder` is in the staging area: ``new/<table>`` has new rows, ``kept/<table>`` rows of files
    that are rewritten."""

    spark: SparkSession
    lake: Lake
    folder: Path
    sizes: Sizes
    clock: Callable[[], datetime]

    def stage(
        self,
        rows: DataFrame,
        table: Table,
        counts: Mapping[Partition, int],
        *,
        kept: bool = False,
        unique: bool = False,
        salts: int | None = None,
    ) -> None:
        """Write `rows`, approximately `counts` of them, as files of `table`: `salts` files per
        partition, by default as many as the amount requires; with `unique`, one row per key. One
        shuffle."""
        cut = self.cut(rows, table, counts, salts)
        if unique:
            within = dict.fromkeys((*table.partitions, SALT, *table.key))
            cut = cut.dropDuplicates([*within])
        cut = cut.sortWithinPartitions(*table.partitions, *ORDER.get(table.name, ("time",)))
        self.write(cut.select(*table.names), table, kept=kept)

    def cut(
        self,
        rows: DataFrame,
        table: Table,
        counts: Mapping[Partition, int],
        salts: int | None = None,
    ) -> DataFrame:
        """`rows` partitioned into as many tasks as will write them; rows of one file stay
        together."""
        total = sum(counts.values())
        if salts is None:
            in_file = max(1, self.sizes.file_bytes // BYTES_A_ROW.get(table.name, USUAL_BYTES))
            salts = max(1, math.ceil(total / max(1, len(counts)) / in_file))
        tasks = min(salts * max(1, len(counts)), math.ceil(total / self.sizes.task_rows))
        if tasks <= 1 and salts == 1:
            return rows.withColumn(SALT, F.lit(0)).coalesce(1)  # less than a shuffle costs
        by = ["node"] if "node" in rows.columns else [*table.key]
        salt = F.pmod(F.hash(*by), F.lit(salts))
        return rows.withColumn(SALT, salt).repartition(tasks, *table.partitions, SALT)

    def write(self, rows: DataFrame, table: Table, *, kept: bool = False) -> None:
        """Write each task's rows in their order."""
        folder = self.folder / ("kept" if kept else "new") / table.name
        writer = rows.write.mode("append").options(**PARQUET)
        writer.partitionBy(*table.partitions).parquet(plain_uri(folder))

    def staged(self) -> TableChange:
        """The staged files, and their destinations."""
        return TableChange(
            add=tuple(
                (
                    str(file.relative_to(self.lake.root)),
                    str(self._place(file).relative_to(self.lake.root)),
                )
                for file in self._files()
            )
        )

    def commit(self, more: TableChange) -> None:
        """Move the staged files to their destinations, together with `more`."""
        commit(self.lake, self.staged() | more)
        shutil.rmtree(self.folder, ignore_errors=True)

    def staged_rows(self) -> int:
        """The number of staged rows."""
        return sum(rows_of(file) for file in self._files())

    def rows(self) -> dict[str, int]:
        """The number of new rows staged, by table; from the files' own metadata."""
        counted: dict[str, int] = {}
        for file in self._files():
            kind, name = file.relative_to(self.folder).parts[:2]
            if kind == "new":
                counted[name] = counted.get(name, 0) + rows_of(file)
        return counted

    def new_files(self, table: Table) -> list[Path]:
        """Files with new rows of one table."""
        return sorted((self.folder / "new" / table.name).rglob("[!._]*.parquet"))

    def _files(self) -> list[Path]:
        # Files of a failed task attempt are not used.
        found = self.folder.rglob("[!._]*.parquet")
        return sorted(file for file in found if "_temporary" not in file.parts)

    def _place(self, file: Path) -> Path:
        name, *rest = file.relative_to(self.folder).parts[1:]
        known = name in {table.name for table in base.TABLES}
        return (self.lake.tables if known else self.lake.index).joinpath(name, *rest)


def rows_of(file: Path) -> int:
    """The number of rows of a Parquet file."""
    return int(pq.read_metadata(file).num_rows)


def rows_by_partition(files: Iterable[Path]) -> dict[Partition, int]:
    """The same by partition, for files of a table."""
    counts: dict[Partition, int] = {}
    for file in files:
        where = partition_of(file.parent)
        counts[where] = counts.get(where, 0) + rows_of(file)
    return counts


def removal(lake: Lake, files: Sequence[Path]) -> TableChange:
    """Remove these files of tables."""
    root = lake.root.absolute()
    return TableChange(remove=tuple(str(file.absolute().relative_to(root)) for file in files))


def side_by_side(parts: Sequence[Callable[[], object]]) -> None:
    """Run the functions in parallel: small Spark jobs mostly wait for the driver."""
    if len(parts) == 1:
        parts[0]()
        return
    with ThreadPoolExecutor(len(parts) or 1) as pool:
        for done in [pool.submit(part) for part in parts]:
            done.result()
