"""Data files of a report: one Parquet and one CSV file per table."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from fleet.lake.ingest.paths import plain_uri
from fleet.lake.schema.tables.model import Table
from fleet.terminal.csv_cells import cell

DATA: Final = "data"
ROWS_AT_ONCE: Final = 10_000


def write_table(table: Table, frame: DataFrame, folder: Path) -> int:
    """Write ``data/<table>.parquet`` and ``.csv`` below `folder`, sorted by the table's key;
    returns the number of rows. Spark writes a single file, so nothing is collected; this process
    holds one batch."""
    target = folder / DATA / f"{table.name}.parquet"
    parts = folder / f"parts-{table.name}"
    # Not coalesce: it would run the job's last stage in a single task.
    one = frame.select(*table.names).repartition(1).sortWithinPartitions(*table.key)
    one.write.parquet(plain_uri(parts))
    target.parent.mkdir(exist_ok=True)
    (part,) = parts.glob("part-*.parquet")
    part.rename(target)
    shutil.rmtree(parts)
    return write_csv(target)


def write_csv(parquet: Path) -> int:
    """Write the CSV file beside a Parquet file; returns the number of rows. Memory: one batch."""
    from pyarrow.parquet import ParquetFile

    rows = 0
    with (
        ParquetFile(parquet) as file,
        parquet.with_suffix(".csv").open("w", encoding="utf-8", newline="") as out,
    ):
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(file.schema_arrow.names)
        for batch in file.iter_batches(ROWS_AT_ONCE):
            columns = [column.to_pylist() for column in batch.columns]
            writer.writerows([cell(value) for value in row] for row in zip(*columns, strict=True))
            rows += batch.num_rows
        out.flush()
        os.fsync(out.fileno())
    return rows
