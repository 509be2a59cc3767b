"""What is in the lake's tables, read without Spark and without the project's own reader."""

import math

import pyarrow as pa
import pyarrow.dataset as ds

from fleet.lake.schema.tables import base

HIVE = ds.partitioning(pa.schema([("iad", pa.string()), ("date", pa.date32())]), flavor="hive")


def rows(lake, table, without=()):
    """The rows of a table as sorted tuples of its columns in order; NaN is "NaN"."""
    if not lake.table(table.name).is_dir():
        return []
    found = ds.dataset(lake.table(table.name), partitioning=HIVE).to_table()
    names = [name for name in table.names if name not in without]
    columns = [found.column(name).to_pylist() for name in names]
    return sorted((plain(row) for row in zip(*columns, strict=True)), key=repr)


def plain(values):
    """A tuple that equals another one with the same values."""
    return tuple(
        "NaN" if isinstance(v, float) and math.isnan(v) else tuple(v) if isinstance(v, list) else v
        for v in values
    )


def everything(lake, without=("exported",)):
    """All tables but the quarantine's day, which is that of the ingest."""
    return {
        table.name: rows(lake, table, (*without, "date") if table is base.QUARANTINE else without)
        for table in base.TABLES
    }
