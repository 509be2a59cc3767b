"""Streaming job from the landing zone to the tables: one pass, or continuous.

The stream consists of the landing's file names, not of their content; its checkpoint records the
names seen. `merging.merge` merges a batch of names; it reads the files itself, and only the columns
that it needs. Because a merge drops rows that are stored already, the checkpoint only saves time: a
batch that is repeated after a kill changes nothing, nor does an ingest without checkpoints.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from fleet.common.exits import CommandError
from fleet.lake.ingest import compaction, quarantine, store
from fleet.lake.ingest.merging import Ingested, merge
from fleet.lake.ingest.paths import named_whole, plain_uri, uri
from fleet.lake.ingest.work import USUAL, Sizes, Work
from fleet.lake.schema.folder import Lake
from fleet.spark.errors import told as spoken_of

# The schema of the source; Spark does not infer that of a stream.
FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"
# The rows of a batch are sorted by partition, so that few files are open at a time.
SETTINGS: Final = {"spark.sql.maxConcurrentOutputFileWriters": "8"}
# What says nothing of the checkpoints.
OF_THE_DISK: Final = tuple(
    os.strerror(number)
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.EMFILE)
)
# The folder of its checkpoints.
LANDING: Final = "landing"
LOOK_S: Final = 0.5
JAVA_LOCK: Final = "java.lock"
JAVA_PATIENCE_S: Final = 60.0
COMPACT_EVERY: Final = 64


def _now() -> datetime:
    return datetime.now(UTC)


def ingest(
    spark: SparkSession,
    lake: Lake,
    *,
    compact: bool = True,
    sizes: Sizes = USUAL,
    clock: Callable[[], datetime] = _now,
    told: Callable[[str], object] = lambda _: None,
) -> Ingested:
    """Add what is new in the landing to the tables, then merge small files. `told` gets a line
    whenever so many files were merged that there may be more, and before the second step.

    store.BusyError if another ingest or follow is running; OSError; exceptions of Spark. What was
    merged before that stays.
    """
    total = Ingested()

    def batch(done: Ingested) -> None:
        total.add(done)
        if done.files >= sizes.batch_files:
            told(f"{total.files:,} new files so far")

    with _at_work(spark, lake) as lake:
        _run(lake, lambda: Job(spark, lake, sizes, clock, batch), {"availableNow": True}, told)
        if compact and total.changed:
            if total.batches > 1:
                told("merging small files")
            compaction.join(spark, lake, sizes)
    return total


def follow(
    spark: SparkSession,
    lake: Lake,
    every_s: float,
    told: Callable[[Ingested], object],
    until: threading.Event,
    *,
    sizes: Sizes = USUAL,
    clock: Callable[[], datetime] = _now,
    said: Callable[[str], object] = lambda _: None,
) -> None:
    """Ingest every `every_s` seconds until `until` is set; a batch in progress is completed.
    `said` gets a line if checkpoints are damaged.

    `told` is called in another thread with the outcome of each batch that changed something. Small
    files are merged after every COMPACT_EVERY of these. It raises the same exceptions as `ingest`.
    """
    changes = 0

    def batch(done: Ingested) -> None:
        nonlocal changes
        if not done.changed:
            return
        told(done)
        changes += 1
        if changes % COMPACT_EVERY == 0:
            compaction.join(spark, lake, sizes)

    with _at_work(spark, lake) as lake:
        trigger = {"processingTime": f"{round(every_s * 1000)} milliseconds"}
        _run(lake, lambda: Job(spark, lake, sizes, clock, batch), trigger, said, until)


def _run(
    lake: Lake,
    made: Callable[[], Job],
    trigger: dict[str, Any],
    said: Callable[[str], object],
    until: threading.Event | None = None,
) -> None:
    """Run a job to its end. If Spark fails before the first batch, its checkpoints may be damaged,
    as a power cut leaves them: without them it goes on, and only takes longer."""
    job, place = made(), lake.checkpoints / LANDING
    try:
        job.run(trigger, until)
    except Exception as error:
        known = spoken_of(error)
        if job.began or known is None or known.died or not place.exists():
            raise
        if any(reason in str(known) for reason in OF_THE_DISK):
            raise
        aside = place.with_name(f"{LANDING}.damaged")
        shutil.rmtree(aside, ignore_errors=True)
        place.rename(aside)
        said(
            f"{place} cannot be used ({known}); kept as {aside.name}: "
            "all that was pulled is looked at again"
        )
        made().run(trigger, until)


class StoppingError(Exception):
    """A batch began while the job was being stopped."""


class Job:
    """The streaming job. `told` is called with the outcome of each batch, in a thread of its
    own."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        sizes: Sizes,
        clock: Callable[[], datetime],
        told: Callable[[Ingested], object],
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._sizes = sizes
        self._clock = clock
        self._told = told
        self._error: BaseException | None = None
        self._merging = threading.Lock()
        self._stopping = False
        self.began = False  # with a batch
        self._query: Any = None

    def run(self, trigger: dict[str, Any], until: threading.Event | None = None) -> None:
        """Start, with the arguments of a PySpark trigger, and wait."""
        self.start(trigger)
        self.wait(until)

    def start(self, trigger: dict[str, Any]) -> None:
        """Start, with the arguments of a PySpark trigger."""
        files = (
            self._spark.readStream.format("binaryFile")
            .schema(FILES)
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.{parquet,jsonl}")
            .option("maxFilesPerTrigger", self._sizes.batch_files)
            # Otherwise files that are this much older than the newest would be skipped.
            .option("maxFileAge", "36500d")
            .load(uri(self._lake.landing))
            .select("path", "length")
        )
        writer = files.writeStream.foreachBatch(self._batch).trigger(**trigger)
        checkpoint = plain_uri(self._lake.checkpoints / LANDING)
        self._query = writer.option("checkpointLocation", checkpoint).start()

    def wait(self, until: threading.Event | None = None) -> None:
        """Wait until it ends, or, after `until` is set, until the current batch ends. Raises a
        batch's exception."""
        try:
            while not self._query.awaitTermination(LOOK_S):
                if until is not None and until.is_set():
                    break
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise
        finally:
            self.stop()

    def stop(self) -> None:
        """Stop the job after the batch in progress."""
        with self._merging:
            self._stopping = True
        # Not with the lock: Spark waits for a batch that it has begun meanwhile.
        self._query.stop()

    def _batch(self, batch: DataFrame, _: int) -> None:
        self.began = True
        with self._merging:
            if self._stopping:
                # Spark would take a batch for done that returns; the next run gets it again.
                raise StoppingError
            try:
                done = Ingested(batches=1)
                for files in self._portions(batch):
                    done.add(self._merge(files))
                self._told(done)
            except BaseException as error:
                self._error = error  # Spark would make a text of it
                raise

    def _merge(self, files: Sequence[Path]) -> Ingested:
        try:
            return merge(self._work(), files)
        except (CommandError, OSError):
            raise
        except Exception:
            broken = quarantine.unreadable(self._spark, self._lake.landing, files)
            if not broken:
                raise
            return merge(self._work(), [file for file in files if file not in broken], broken)

    def _work(self) -> Work:
        folder = store.new_staging(self._lake)
        return Work(self._spark, self._lake, folder, self._sizes, self._clock)

    def _portions(self, batch: DataFrame) -> Iterator[Sequence[Path]]:
        portion: list[Path] = []
        size = 0
        for row in batch.collect():
            portion.append(Path(row.path.removeprefix("file:")))
            size += row.length
            if size >= self._sizes.portion_bytes:
                yield portion
                portion, size = [], 0
        if portion:
            yield portion


@contextmanager
def _at_work(spark: SparkSession, lake: Lake) -> Iterator[Lake]:
    """Context manager: be the only writer, after completing interrupted changes. Yields the lake
    with an absolute path, as Spark names its files."""
    lake = named_whole(lake)
    with store.writing(lake), _java_alone(spark, lake), _settings(spark):
        lake.landing.mkdir(parents=True, exist_ok=True)
        store.recover(lake)
        yield lake


@contextmanager
def _java_alone(spark: SparkSession, lake: Lake) -> Iterator[None]:
    """Wait for the Java process of a killed writer, which outlives its Python by a moment and may
    still write to the checkpoint; hold the same lock. store.BusyError."""
    java = spark._jvm.java  # type: ignore[union-attr] # noqa: SLF001 - PySpark has no other way
    file = java.io.RandomAccessFile(str(lake.root / JAVA_LOCK), "rw")
    try:
        waited = threading.Event()
        for _ in range(int(JAVA_PATIENCE_S / LOOK_S)):
            if file.getChannel().tryLock() is not None:
                break
            waited.wait(LOOK_S)
        else:
            raise store.BusyError(f"another ingest or follow still ends in {lake.root}; try again")
        yield
    finally:
        file.close()


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    # All other shuffles are small: keys, without numbers. Thousands of files are looked at by as
    # many tasks as there is work for, not by one each.
    tasks = str(2 * spark.sparkContext.defaultParallelism)
    settings = SETTINGS | {
        "spark.sql.shuffle.partitions": tasks,
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": tasks,
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
