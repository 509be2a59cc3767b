"""Quarantine: rows that could not be ingested, and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest.paths import uri
from fleet.lake.schema import landing
from fleet.lake.schema.tables.base import QUARANTINE
from fleet.spark.errors import told

SHOWN: Final = 1_000
UNKNOWN: Final = "unknown"


class Broken(NamedTuple):
    """Why a whole file cannot be used, and an excerpt of it."""

    reason: str
    text: str


def source(path: Column) -> Column:
    """The landing file, from Spark's name of it."""
    tail = F.regexp_replace(path, r"^.*/landing/(?=(records|groups|nodes|pulls|refused)/)", "")
    return F.try_url_decode(F.replace(tail, F.lit("+"), F.lit("%2B")))


def iad(path: Column) -> Column:
    """The IAD of the landing folder that a file is in."""
    return F.coalesce(
        F.nullif(F.regexp_extract(source(path), r"iad=([^/]+)/", 1), F.lit("")), F.lit(UNKNOWN)
    )


def shown(text: Column) -> Column:
    """The part of a text that is kept."""
    return F.substring(F.make_valid_utf8(text), 1, SHOWN)


def identity(iad: Column, *parts: Column) -> Column:
    """SHA-256 of a rejected item; independent of how often, and in which file, it arrives."""
    return F.sha2(F.concat_ws("\0", iad, *parts), 256)


def unreadable(spark: SparkSession, landed: Path, files: Iterable[Path]) -> dict[Path, Broken]:
    """The Parquet files that cannot be read with the schema of their landing folder, and the
    reasons. One Spark job per file: called only after a failure."""
    broken = {}
    for file in files:
        schema = landing.BY_FOLDER.get(file.relative_to(landed).parts[0])
        if file.suffix != ".parquet" or schema is None:
            continue
        try:
            for _ in pq.ParquetFile(file).iter_batches():
                pass
        except (pa.ArrowException, OSError) as error:
            broken[file] = Broken("no Parquet file", " ".join(str(error).split()))
            continue
        try:
            whole = spark.read.schema(schema).parquet(uri(file))
            whole.write.format("noop").mode("overwrite").save()
        except Exception as error:
            known = told(error)
            if known is None or known.died:
                raise
            wanted = f"wanted: {schema}; found: {_columns(file)}"
            broken[file] = Broken("columns of another type", wanted)
    return broken


def _columns(file: Path) -> str:
    schema = pq.ParquetFile(file).schema_arrow
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def of_files(
    spark: SparkSession, landed: Path, broken: Mapping[Path, Broken], today: date
) -> DataFrame:
    """Rows of the quarantine for whole files."""
    rows = []
    for file, why in broken.items():
        parts = file.relative_to(landed).parts
        name = next((part[4:] for part in parts if part.startswith("iad=")), UNKNOWN)
        known = sha256(f"{name}\0{'/'.join(parts)}".encode()).hexdigest()
        rows.append((name, today, known, "/".join(parts), why.reason, why.text[:SHOWN]))
    return spark.createDataFrame(rows, QUARANTINE.ddl)
