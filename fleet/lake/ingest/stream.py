"""Streaming job from the landing zone to the tables: one pass, or continuous.

The stream is of the landing's file names, not of what is in them; its checkpoint says which were
seen. A batch of names is merged by `merging.merge`, which reads the files itself, only the columns
that it needs. Since a merge drops what is there, the checkpoint saves time and decides nothing: a
batch that is repeated after a kill changes nothing, nor does an ingest without checkpoints.
"""

from __future__ import annotations

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

# The schema of the source: a stream's is given, never looked for.
FILES: Final = "path string, modificationTime timestamp, length bigint, content binary"
# Rows of a batch come in the order of their partitions, so that few files are open at a time.
SETTINGS: Final = {"spark.sql.maxConcurrentOutputFileWriters": "8"}
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
) -> Ingested:
    """Bring what is new in the landing into the tables, then join small files.

    store.BusyError if another ingest or follow is at work; OSError; whatever Spark raises. What
    was merged until then stays.
    """
    total = Ingested()
    with _at_work(spark, lake) as lake:
        job = Job(spark, lake, sizes, clock, total.add)
        job.start({"availableNow": True})
        job.wait()
        if compact and total.changed:
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
) -> None:
    """Do the same every `every_s`, until `until` is set; a batch is brought to its end.

    `told` gets what came of each batch that changed something, in another thread. Small files are
    joined every COMPACT_EVERY of these. It raises what `ingest` does.
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
        job = Job(spark, lake, sizes, clock, batch)
        job.start({"processingTime": f"{round(every_s * 1000)} milliseconds"})
        job.wait(until)


class Job:
    """The streaming job. `told` gets what came of each batch, in a thread of its own."""

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
        self._query: Any = None

    def start(self, trigger: dict[str, Any]) -> None:
        """Begin, with PySpark's arguments of a trigger."""
        files = (
            self._spark.readStream.format("binaryFile")
            .schema(FILES)
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.{parquet,jsonl}")
            .option("maxFilesPerTrigger", self._sizes.batch_files)
            # Files that are older than this beside the newest would be passed over.
            .option("maxFileAge", "36500d")
            .load(uri(self._lake.landing))
            .select("path", "length")
        )
        writer = files.writeStream.foreachBatch(self._batch).trigger(**trigger)
        checkpoint = plain_uri(self._lake.checkpoints / "landing")
        self._query = writer.option("checkpointLocation", checkpoint).start()

    def wait(self, until: threading.Event | None = None) -> None:
        """Until it ends, or between two batches after `until` is set. What a batch raised."""
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
        """End it; a batch that is being merged comes to its end before."""
        with self._merging:
            self._query.stop()

    def _batch(self, batch: DataFrame, _: int) -> None:
        with self._merging:
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
    """Be the only writer, with what others left finished: of the lake by its full name, as Spark
    names its files."""
    lake = named_whole(lake)
    with store.writing(lake), _java_alone(spark, lake), _settings(spark):
        lake.landing.mkdir(parents=True, exist_ok=True)
        store.recover(lake)
        yield lake


@contextmanager
def _java_alone(spark: SparkSession, lake: Lake) -> Iterator[None]:
    """Wait for the Java of a writer that was killed, which outlives its Python by a moment and may
    write to the checkpoint meanwhile; hold the same lock. store.BusyError."""
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
    # What is shuffled otherwise is short: no numbers, or keys.
    tasks = str(2 * spark.sparkContext.defaultParallelism)
    settings = SETTINGS | {"spark.sql.shuffle.partitions": tasks}
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
