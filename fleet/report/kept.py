"""Aggregates of readings, kept for each partition until its files change.

``<lake>/kept/<aggregate>/iad=…/date=…/<identity>.parquet``. Files of tables never change, so their
names and the aggregate's version identify what was computed from them; whatever has another
identity is computed again and replaces what was kept. All of it may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from fleet.common.durable import make_folder, sync
from fleet.lake.ingest.paths import (
    Partition,
    parquet_files,
    partition_folders,
    partition_of,
    plain_uri,
    uri,
)
from fleet.lake.ingest.reading import in_utc, read, read_files
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables.base import READINGS
from fleet.lake.schema.wholeness import is_whole
from fleet.report.jobs.health_readings import by_step
from fleet.report.jobs.hourly import hourly

DAY: Final = timedelta(days=1)
PARTITION: Final = ("iad", "date")


class Aggregate(NamedTuple):
    """`make`, of whole partitions of READINGS, gives rows with `iad` and `date` that depend on no
    other partition. A change of what it computes needs another `version`."""

    name: str
    version: int
    make: Callable[[DataFrame], DataFrame]


STEPS: Final = Aggregate("steps", 1, by_step)
HOURS: Final = Aggregate("hours", 1, hourly)


class KeptAggregates:
    """Those of the readings from `since` on and before `until`."""

    def __init__(
        self, spark: SparkSession, lake: Lake, since: datetime | None, until: datetime | None
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._whole: dict[Partition, list[Path]] = {}
        self._cut: set[tuple[datetime, datetime]] = set()
        since, until = since and in_utc(since), until and in_utc(until)
        for partition, folder in partition_folders(lake, READINGS).items():
            start = datetime.combine(partition.date, time(), UTC)
            low, high = max(start, since or start), min(start + DAY, until or start + DAY)
            if (low, high) == (start, start + DAY):
                self._whole[partition] = parquet_files(folder)
            elif low < high:
                # Of a day that is cut nothing is kept: there are two at most, asked for once.
                self._cut.add((low, high))

    def frame(self, aggregate: Aggregate) -> DataFrame:
        """Its rows, computed as far as they are not kept yet: then it runs a job, and one for each
        day that is cut."""
        places = {
            partition: self._place(aggregate, files)
            for partition, files in self._whole.items()
            if files
        }
        # One that a copy or a power cut has cut off is made anew, too.
        missing = {
            partition: at for partition, at in places.items() if not (at.exists() and is_whole(at))
        }
        if missing:
            for at in missing.values():
                at.unlink(missing_ok=True)
            self._keep(aggregate, missing)
        # Analysed, not run: with known types Spark opens no file.
        nothing = aggregate.make(read_files(self._spark, self._lake, READINGS, []))
        parts = [
            aggregate.make(read(self._spark, self._lake, READINGS, *bounds)).persist()
            for bounds in sorted(self._cut)
        ]
        for part in parts:
            part.count()
        if kept := [uri(at) for at in places.values() if at.exists()]:
            rows = self._spark.read.schema(nothing.schema)
            rows = rows.option("basePath", plain_uri(self._top(aggregate)))
            parts.append(rows.parquet(*kept).select(*nothing.columns))
        return reduce(DataFrame.unionByName, parts) if parts else nothing

    def _keep(self, aggregate: Aggregate, places: dict[Partition, Path]) -> None:
        files = [path for partition in places for path in self._whole[partition]]
        staging = self._lake.staging / f"{aggregate.name}-{uuid.uuid4().hex}"
        made = aggregate.make(read_files(self._spark, self._lake, READINGS, files))
        try:
            made.repartition(*PARTITION).write.partitionBy(*PARTITION).parquet(plain_uri(staging))
            for part in staging.glob("iad=*/date=*/*.parquet"):
                place = places[partition_of(part.parent)]
                sync(part)
                make_folder(place.parent)
                former = [path for path in place.parent.iterdir() if path != place]
                part.replace(place)
                for path in former:
                    path.unlink()
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _place(self, aggregate: Aggregate, files: Sequence[Path]) -> Path:
        identity = hashlib.sha256(str(aggregate.version).encode())
        for path in files:
            stat = path.stat()
            identity.update(f"/{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
        relative = files[0].parent.relative_to(self._lake.table(READINGS.name))
        return self._top(aggregate) / relative / f"{identity.hexdigest()[:32]}.parquet"

    def _top(self, aggregate: Aggregate) -> Path:
        return self._lake.kept / aggregate.name
