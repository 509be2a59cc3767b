"""Ingestion of row groups of histories into the tables `groups` and `readings`.

A group is (iad, node, history, sequence). It may arrive again: unchanged, or as a later revision if
its clock was corrected after the export, or if it has grown. The revision with the greatest
(exported_ms, count, synchronised, shift_ms) counts; one that differs only in a later export changes
nothing. The change that adds a revision removes the rows of the older one from the tables.

A revision's times do not tell where its other revisions are: a clock without a battery starts in
1970. So the index `moved` has the day of each group that ever arrived with a shift; groups without
a shift are in the partitions of their own times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest import paths, quarantine
from fleet.lake.ingest.insertion import without
from fleet.lake.ingest.paths import Partition, uri
from fleet.lake.ingest.reading import read_files
from fleet.lake.ingest.store import TableChange
from fleet.lake.ingest.times import (
    LATEST_MS,
    SOURCE_EARLIEST_MS,
    day,
    latest_ms,
    possible,
    timestamp,
)
from fleet.lake.ingest.work import Work
from fleet.lake.schema import landing
from fleet.lake.schema.tables import base
from fleet.lake.schema.tables.model import DATE, IAD, NODE, Table
from fleet.lake.schema.tables.model import Column as Described

KEY: Final = ("iad", "node", "history", "sequence")
TEXTS: Final = ("iad", "node", "history", "sensor")
REVISION: Final = ("exported_ms", "count", "synchronised", "shift_ms")
CONTENT: Final = ("count", "synchronised", "shift_ms")
MAX_SEQUENCE: Final = 1 << 62
REQUIRED: Final = (*TEXTS, "sequence", "count", "first_ms", "last_ms", "exported_ms")
MOVED: Final = Table(
    "moved",
    "On which day a group with a shift is, or was.",
    (*KEY, "date"),
    (IAD, DATE, NODE, base.HISTORY, Described("sequence", "bigint", "", "of the group")),
    ("iad",),
)


class Taken(NamedTuple):
    """Result of merging groups: the rows to remove, the number of revisions that replaced others,
    the number of values in groups that were taken, those of an impossible time among them, and
    groups that cannot be used, as rows of the quarantine, if there are any."""

    change: TableChange = TableChange()
    replaced: int = 0
    values: int = 0
    refused: DataFrame | None = None


def take(work: Work, files: Sequence[Path], held: list[DataFrame]) -> Taken:
    """Stage the new content of these landing files. Data that must stay cached until the end of the
    merge is added to `held`."""
    spark = work.spark
    latest = latest_ms(work.clock())
    ranked = _ranked(_heads(spark, files), latest).persist()
    held.append(ranked)
    seen = ranked.groupBy("iad", "date", F.col("reason").isNull().alias("sound")).agg(
        F.sum(F.when(F.col("rank") == 1, 1).otherwise(0)).alias("groups"),
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.when(F.col("rank") == 1, _values()).otherwise(0)).alias("values"),
        F.max(F.col("shift_ms") != 0).alias("moved"),
    )
    found = seen.collect()
    sound = [row for row in found if row.sound]
    bad = sum(row.rows for row in found if not row.sound)
    refused = _refused(ranked, work) if bad else None
    if not sound:
        return Taken(refused=refused)
    winners = ranked.where((F.col("rank") == 1) & F.col("reason").isNull())
    where = [Partition(row.iad, row.date) for row in sound]
    there = paths.existing(work.lake, base.GROUPS, [*where, *_elsewhere(work, winners, sound)])
    if there:
        decided = _decided(work, winners, there).persist()
        held.append(decided)
        counted = decided.groupBy("iad", "date", "status").agg(
            F.count(F.lit(1)).alias("groups"),
            F.sum(_values()).alias("values"),
            F.max(F.col("shift_ms") != 0).alias("moved"),
        )
        outcome = counted.collect()
    else:
        decided = winners.withColumn("status", F.lit("new"))
        outcome = [Row(status="new", **row.asDict()) for row in sound]
    taken = [row for row in outcome if row.status != "known" and row.groups]
    if not taken:
        return Taken(refused=refused)
    every = sum(row.groups for row in taken) == sum(row.rows for row in found)
    accepted = decided.where(F.col("status") != "known")
    _stage(work, files, accepted, taken, latest, every=every)
    replaced = sum(row.groups for row in taken if row.status == "replaced")
    old = decided.where(F.col("status") == "replaced")
    values = sum(row["values"] for row in taken)
    return Taken(_remove_old(work, old) if replaced else TableChange(), replaced, values, refused)


def _landed(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    # The folders are named like columns that the files contain themselves.
    reader = spark.read.schema(landing.GROUPS).option("recursiveFileLookup", "true")
    return reader.parquet(*(uri(file) for file in files))


def _plain() -> list[Column]:
    """Columns in which null has a meaning."""
    return [
        F.coalesce("boot", F.lit("")).alias("boot"),
        F.coalesce("synchronised", F.lit(False)).alias("synchronised"),
        F.coalesce("shift_ms", F.lit(0).cast("bigint")).alias("shift_ms"),
    ]


def _heads(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """Groups without their numbers, which are not read; `file` and `row` locate each."""
    return _landed(spark, files).select(
        *KEY,
        "sensor",
        *_plain(),
        "exported_ms",
        "count",
        "first_ms",
        "last_ms",
        F.coalesce(F.col("channels.name"), F.array().cast("array<string>")).alias("channels"),
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.row_index").alias("row"),
    )


def _ranked(heads: DataFrame, latest: int) -> DataFrame:
    """The groups with `reason` if one cannot be used, their `date`, and their `rank` among the
    revisions."""
    missing = [F.when(F.col(name).isNull(), F.lit(f"{name} is missing")) for name in REQUIRED]
    missing += [F.when(F.col(name) == "", F.lit(f"{name} is missing")) for name in TEXTS]
    times = F.expr(f"{possible('first_ms', latest)} AND {possible('last_ms', latest)}")
    ordered = F.col("first_ms") <= F.col("last_ms")
    # What a host says may be any number of 64 bits; a sum beyond them would end the whole ingest.
    shifted = F.coalesce(F.col("shift_ms").between(-LATEST_MS, LATEST_MS), F.lit(True))
    counted = F.col("sequence").between(-MAX_SEQUENCE, MAX_SEQUENCE)
    reason = F.coalesce(
        *missing,
        F.when(~counted, F.lit("sequence is impossible")),
        F.when(~(times & ordered & shifted), F.lit("time is impossible")),
    )
    judged = heads.withColumn("reason", reason).withColumn(
        "date", F.when(F.col("reason").isNull(), day(F.col("first_ms")))
    )
    newest = Window.partitionBy(*KEY).orderBy(
        F.col("reason").isNotNull(), *(F.col(c).desc() for c in REVISION), "file", "row"
    )
    return judged.withColumn("rank", F.row_number().over(newest))


def _values() -> Column:
    return F.col("count").cast("bigint") * F.size("channels")


def _elsewhere(work: Work, winners: DataFrame, seen: Iterable[Row]) -> list[Partition]:
    """Partitions other than their own that may contain other revisions of `winners`."""
    found: list[Row] = []
    if any(row.moved for row in seen):
        before = F.col("first_ms") - F.col("shift_ms")
        unshifted = winners.where((F.col("shift_ms") != 0) & before.between(0, LATEST_MS))
        found += unshifted.select("iad", day(before).alias("date")).distinct().collect()
    index = work.lake.index / MOVED.name
    if index.is_dir():
        known = work.spark.read.schema(MOVED.ddl).parquet(uri(index))
        iads = sorted({row.iad for row in seen})
        known = known.where(F.col("iad").isin(iads)).join(winners.select(*KEY), [*KEY], "left_semi")
        found += known.select("iad", "date").distinct().collect()
    return [Partition(row.iad, row.date) for row in found]


def _decided(work: Work, winners: DataFrame, there: Sequence[Path]) -> DataFrame:
    """`winners` with their `status`: new, replaced (the stored revision is removed) or known;
    `old_…` locates the other revision."""
    columns = [*KEY, "date", "first", "last", *CONTENT, "exported"]
    old = read_files(work.spark, work.lake, base.GROUPS, there, columns).select(
        *KEY,
        F.struct("date", "first", "last").alias("old"),
        F.struct(F.unix_millis("exported").alias("exported_ms"), *CONTENT).alias("old_revision"),
    )
    new = F.struct(*REVISION)
    changed = F.struct(*CONTENT) != F.col("old_revision").dropFields("exported_ms")
    status = (
        F.when(F.col("old").isNull(), F.lit("new"))
        .when(changed & (new > F.col("old_revision")), F.lit("replaced"))
        .otherwise(F.lit("known"))
    )
    return winners.join(old, [*KEY], "left").withColumn("status", status)


def _stage(
    work: Work,
    files: Sequence[Path],
    accepted: DataFrame,
    taken: Sequence[Row],
    latest: int,
    *,
    every: bool,
) -> None:
    groups: dict[Partition, int] = {}
    values: dict[Partition, int] = {}
    for row in taken:
        where = Partition(row.iad, row.date)
        groups[where] = groups.get(where, 0) + row.groups
        values[where] = values.get(where, 0) + row["values"]
    work.stage(_rows(accepted), base.GROUPS, groups)
    if any(row.moved for row in taken):
        moved = accepted.where(F.col("shift_ms") != 0).select(*MOVED.names)
        work.write(moved.coalesce(1), MOVED)
    whole = _landed(work.spark, files).withColumn("file", F.col("_metadata.file_path"))
    if not every:
        whole = whole.withColumn("row", F.col("_metadata.row_index"))
        whole = whole.join(accepted.select("file", "row"), ["file", "row"], "left_semi")
    parts = work.cut(_by_day(whole, latest), base.READINGS, values)
    parts = parts.sortWithinPartitions("iad", "date", "node", "sensor", "first_ms")
    work.write(_readings(parts, latest), base.READINGS)


def _rows(accepted: DataFrame) -> DataFrame:
    return accepted.select(
        "iad",
        "date",
        "node",
        "sensor",
        "history",
        "sequence",
        "count",
        timestamp(F.col("first_ms")).alias("first"),
        timestamp(F.col("last_ms")).alias("last"),
        "boot",
        "synchronised",
        "shift_ms",
        "channels",
        timestamp(F.col("exported_ms")).alias("exported"),
    )


def _by_day(whole: DataFrame, latest: int) -> DataFrame:
    """One row per group and day on which it has readings: nearly always one per group."""
    first, last = day(F.col("first_ms")), day(F.col("last_ms"))
    days = F.when(first == last, F.array(first)).otherwise(
        F.array_distinct(
            F.transform(F.expr(f"filter(time_ms, at -> {possible('at', latest)})"), day)
        )
    )
    return whole.select(
        *KEY,
        "sensor",
        F.coalesce("synchronised", F.lit(False)).alias("synchronised"),
        "first_ms",
        (first != last).alias("several"),
        "time_ms",
        "source_time_ms",
        "age_ms",
        "channels",
        F.explode(days).alias("date"),
    )


def _readings(parts: DataFrame, latest: int) -> DataFrame:
    """One row per reading and channel, in the order of groups, channels and times, so that the
    readings need not be sorted."""
    channels = parts.withColumn("one", F.explode("channels")).drop("channels")
    each = channels.select("*", F.posexplode("time_ms").alias("at", "taken_ms")).where(
        F.expr(possible("taken_ms", latest))
        & (~F.col("several") | (day(F.col("taken_ms")) == F.col("date")))
    )
    at = F.col("at")

    def nth(name: str) -> Column:
        return F.get(name, at)

    known = nth("source_time_ms").between(SOURCE_EARLIEST_MS, LATEST_MS)
    return each.select(
        "iad",
        "date",
        "node",
        "sensor",
        F.col("one.name").alias("channel"),
        timestamp(F.col("taken_ms")).alias("time"),
        F.coalesce(nth("one.value"), F.lit(float("nan")).cast("float")).alias("value"),
        F.coalesce(nth("one.quality"), F.lit(0).cast("smallint")).alias("quality"),
        nth("one.raw").alias("raw"),
        F.coalesce(nth("age_ms"), F.lit(0).cast("bigint")).alias("age_ms"),
        timestamp(F.when(known, nth("source_time_ms"))).alias("source_time"),
        "synchronised",
        "history",
        (F.col("sequence") + at).alias("sequence"),
        F.col("sequence").alias("group"),
    )


def _remove_old(work: Work, replaced: DataFrame) -> TableChange:
    days = F.sequence(F.to_date("old.first"), F.to_date("old.last"))
    groups = replaced.select("iad", F.col("old.date").alias("date")).distinct().collect()
    readings = replaced.select("iad", F.explode(days).alias("date")).distinct().collect()
    keys = replaced.select(*KEY)
    return without(work, base.GROUPS, [Partition(*row) for row in groups], keys) | without(
        work,
        base.READINGS,
        [Partition(*row) for row in readings],
        keys.withColumnRenamed("sequence", "group"),
    )


def _refused(ranked: DataFrame, work: Work) -> DataFrame:
    text = F.to_json(F.struct(*REQUIRED, "boot", "synchronised", "shift_ms", "channels"))
    iad = F.coalesce(F.nullif("iad", F.lit("")), quarantine.iad(F.col("file")))
    return ranked.where(F.col("reason").isNotNull()).select(
        iad.alias("iad"),
        F.lit(work.clock().date()).alias("date"),
        quarantine.identity(iad, text).alias("id"),
        quarantine.source(F.col("file")).alias("source"),
        "reason",
        quarantine.shown(text).alias("text"),
    )
