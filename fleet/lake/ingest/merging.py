"""Idempotent merge of landing files into tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from operator import or_
from pathlib import Path
from typing import Final

import msgspec
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest import groups, inventory, lines, paths, quarantine
from fleet.lake.ingest.insertion import insert
from fleet.lake.ingest.paths import Partition, uri
from fleet.lake.ingest.store import TableChange
from fleet.lake.ingest.times import EARLIEST_MS, LATEST_MS, day, timestamp
from fleet.lake.ingest.work import Work, side_by_side
from fleet.lake.schema import landing
from fleet.lake.schema.tables import base
from fleet.lake.schema.tables.model import Table

RECORDS: Final = "records"
# What a pull puts into each folder of the landing. Other files were put there by hand: Spark would
# fail at them, and nothing be taken in ever again.
SUFFIXES: Final = {RECORDS: ".jsonl"} | dict.fromkeys(landing.BY_FOLDER, ".parquet")
STRAY: Final = quarantine.Broken("no pull puts such a file there", "")
# That are counted one by one: some are words of hosts, which may have any number.
MAX_REASONS: Final = 1000
ANOTHER: Final = "another reason"


class Ingested(msgspec.Struct):
    """Outcome of an ingest: rows added by table, rows put into the quarantine by reason, the number
    of landing files examined, and of batches. `replaced`: row groups whose rows were replaced by
    those of a later revision. `dropped`: readings of an impossible time in row groups that were
    taken."""

    rows: dict[str, int] = {}
    quarantined: int = 0
    reasons: dict[str, int] = {}
    replaced: int = 0
    files: int = 0
    batches: int = 0
    dropped: int = 0

    @property
    def changed(self) -> bool:
        """Whether there was anything new."""
        return bool(self.replaced or self.quarantined or any(self.rows.values()))

    def add(self, other: Ingested) -> None:
        """Count another one's too."""
        for ours, theirs in ((self.rows, other.rows), (self.reasons, other.reasons)):
            for name, count in theirs.items():
                ours[name] = ours.get(name, 0) + count
        self.quarantined += other.quarantined
        self.replaced += other.replaced
        self.dropped += other.dropped
        self.files += other.files
        self.batches += other.batches


NOTHING: Final[Mapping[Path, quarantine.Broken]] = {}


def merge(
    work: Work, files: Sequence[Path], broken: Mapping[Path, quarantine.Broken] = NOTHING
) -> Ingested:
    """Add `files` of the landing to the tables in one change; `broken` ones go to the quarantine
    with the reason.

    A row whose key is in its table already is dropped, so the order and the names of the files do
    not matter. The cost is that of these files, and of the keys in the partitions concerned.
    """
    held: list[DataFrame] = []
    try:
        merged = _Merge(work, held)
        kinds: dict[str, list[Path]] = {}
        strays: dict[Path, quarantine.Broken] = {}
        for file in files:
            kind = _kind_of(work, file)
            if file.suffix == SUFFIXES.get(kind):
                kinds.setdefault(kind, []).append(file)
            else:
                strays[file] = STRAY
        side_by_side([partial(merged.take, kind, found) for kind, found in kinds.items()])
        merged.take_refused({**broken, **strays})
        return merged.finish(len(files) + len(broken))
    finally:
        for frame in held:
            frame.unpersist()


class _Merge:
    """One merge under way."""

    def __init__(self, work: Work, held: list[DataFrame]) -> None:
        self._work = work
        self._held = held
        self._changes: list[TableChange] = []
        self._nodes = 0
        self._replaced = 0
        self._values = 0
        self._refused: list[DataFrame] = []

    def take(self, kind: str, files: Sequence[Path]) -> None:
        """Stage the new content of the files of one landing folder."""
        work = self._work
        if kind == RECORDS:
            self._take_lines(files)
        elif kind == work.lake.groups.name:
            taken = groups.take(work, files, self._held)
            self._changes.append(taken.change)
            self._replaced += taken.replaced
            self._values += taken.values
            if taken.refused is not None:
                self._refused.append(taken.refused)
        elif kind == work.lake.nodes.name:
            change, self._nodes = inventory.take(work, files, self._held)
            self._changes.append(change)
        elif kind == work.lake.pulls.name:
            rows = _pulls(work.spark, files)
            insert(work, base.PULLS, rows, _counts(rows))
        elif kind == work.lake.refused.name:
            self._refused.append(_refused(work, files))

    def _take_lines(self, files: Sequence[Path]) -> None:
        work = self._work
        parsed = lines.parse(work.spark, files, work.clock()).persist()
        self._held.append(parsed)
        counts: dict[str | None, dict[Partition, int]] = {}
        for row in parsed.groupBy("kind", "iad", "date").agg(F.count("*").alias("n")).collect():
            counts.setdefault(row.kind, {})[Partition(row.iad, row.date)] = row.n
        side_by_side(
            [
                partial(insert, work, kind.table, lines.rows(parsed, kind), counts[kind.name])
                for kind in lines.KINDS
                if kind.name in counts
            ]
        )
        if None in counts:
            self._refused.append(lines.refused(parsed, work.clock()))

    def take_refused(self, broken: Mapping[Path, quarantine.Broken]) -> None:
        """Stage new rows of the quarantine. They are dated today; stored ones are looked for on all
        days of their IADs."""
        work, table = self._work, base.QUARANTINE
        if broken:
            landing, today = work.lake.landing, work.clock().date()
            self._refused.append(quarantine.of_files(work.spark, landing, broken, today))
        if not self._refused:
            return
        rows = self._refused[0]
        for more in self._refused[1:]:
            rows = rows.unionByName(more)
        counts = _counts(rows)
        iads = {partition.iad for partition in counts}
        folders = paths.partition_folders(work.lake, table)
        insert(work, table, rows, counts, [f for p, f in folders.items() if p.iad in iads])

    def finish(self, files: int) -> Ingested:
        """Commit."""
        work = self._work
        rows = work.rows()
        if self._nodes:
            rows[base.NODES.name] = self._nodes
        quarantined = rows.pop(base.QUARANTINE.name, 0)
        rows.pop(groups.MOVED.name, None)
        reasons: Counter[str] = Counter()
        for file in work.new_files(base.QUARANTINE):
            for part in pq.ParquetFile(file).iter_batches(columns=["reason"]):
                for pair in part.column(0).value_counts().to_pylist():
                    reason = pair["values"]
                    known = reason in reasons or len(reasons) < MAX_REASONS
                    reasons[reason if known else ANOTHER] += pair["counts"]
        work.commit(reduce(or_, self._changes, TableChange()))
        dropped = max(0, self._values - rows.get(base.READINGS.name, 0))
        return Ingested(rows, quarantined, dict(reasons), self._replaced, files, 0, dropped)


def _kind_of(work: Work, file: Path) -> str:
    return file.relative_to(work.lake.landing.absolute()).parts[0]


def _counts(rows: DataFrame) -> dict[Partition, int]:
    found = rows.groupBy("iad", "date").agg(F.count("*").alias("n")).collect()
    return {Partition(row.iad, row.date): row.n for row in found}


def _small(spark: SparkSession, schema: str, files: Sequence[Path]) -> DataFrame:
    reader = spark.read.schema(schema).option("recursiveFileLookup", "true")
    return reader.parquet(*(uri(file) for file in files))


def _pulls(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    table: Table = base.PULLS
    given = _small(spark, landing.PULLS, files).where(
        (F.col("iad") != "") & F.col("time_ms").between(EARLIEST_MS, LATEST_MS)
    )
    time = {"date": day(F.col("time_ms")), "time": timestamp(F.col("time_ms"))}
    empty = {"string": F.lit(""), "bigint": F.lit(0).cast("bigint")}
    return given.select(
        *(
            (time[c.name] if c.name in time else F.coalesce(c.name, empty[c.type])).alias(c.name)
            for c in table.columns
        )
    )


def _refused(work: Work, files: Sequence[Path]) -> DataFrame:
    given = _small(work.spark, landing.REFUSED, files)
    iad = F.coalesce(F.nullif("iad", F.lit("")), F.lit(quarantine.UNKNOWN))
    texts = {name: F.coalesce(name, F.lit("")) for name in ("source", "reason", "text")}
    return given.select(
        iad.alias("iad"),
        F.lit(work.clock().date()).alias("date"),
        quarantine.identity(iad, *texts.values()).alias("id"),
        texts["source"].alias("source"),
        texts["reason"].alias("reason"),
        quarantine.shown(texts["text"]).alias("text"),
    )
