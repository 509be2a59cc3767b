"""Row-limited access to a report's tables for the page."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.ingest.paths import uri
from fleet.lake.schema.tables import placing, report, requests, sensing
from fleet.report.files import DATA
from fleet.report.page.markup import Row
from fleet.terminal.summary import labelled

TABLES: Final = (*requests.TABLES, *placing.TABLES, *sensing.TABLES, *report.TABLES)
COLUMNS: Final = 168
ROWS: Final = 48
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
STEPS_S: Final = (
    *(n * HOUR_S for n in (1, 2, 3, 6, 12)), *(n * DAY_S for n in (1, 2, 7, 14, 28, 91, 364)),
)  # fmt: skip


class Top(NamedTuple):
    """The first rows in some order, and the total number of rows."""

    rows: list[Row]
    total: int

    @property
    def more(self) -> int:
        """Rows that are not here."""
        return self.total - len(self.rows)


class Grid(NamedTuple):
    """A heat map: ``values[row][column]``, None where unknown; a column starts at `times[column]`
    and lasts `step_s`. `more` rows are left out."""

    names: list[str]
    times: list[dt.datetime]
    values: list[list[float | None]]
    step_s: int
    more: int = 0


class Shown:
    """The tables of the report in `folder`, as they are in its files; `rooms` are the names of
    rooms, by area."""

    def __init__(
        self, spark: SparkSession, folder: Path, rooms: Mapping[str, str] | None = None
    ) -> None:
        self.spark = spark
        self.folder = folder
        self._rooms = rooms or {}

    def label(self, area: str) -> str:
        """An area's path, and what people call it."""
        return labelled(area, self._rooms.get(area))

    def frame(self, name: str) -> DataFrame:
        """A whole table. Its schema is known, so no file is read yet."""
        (table,) = (table for table in TABLES if table.name == name)
        path = uri(self.folder / DATA / f"{name}.parquet")
        return self.spark.read.schema(table.ddl).parquet(path)

    def top(self, frame: str | DataFrame, order: Sequence[Column | str], most: int) -> Top:
        """The first `most` rows of a table."""
        whole = self.frame(frame) if isinstance(frame, str) else frame
        rows = [row.asDict() for row in whole.orderBy(*order).limit(most + 1).collect()]
        total = whole.count() if len(rows) > most else len(rows)
        return Top([utc(row) for row in rows[:most]], total)

    def one(self, frame: DataFrame) -> Row:
        """The one row of an aggregate."""
        return utc(frame.collect()[0].asDict())


def node_name() -> Column:
    """A node's name in a picture, preceded by its IAD's unless it begins with that."""
    has_it = F.startswith("node", "iad")
    return F.when(has_it, F.col("node")).otherwise(F.concat_ws("/", "iad", "node"))


def utc(row: Row) -> Row:
    """A row with its times in UTC; Spark returns them in this process's time zone."""
    return {
        key: value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value
        for key, value in row.items()
    }


def grid(frame: DataFrame, names: Sequence[str], value: Column, more: int = 0) -> Grid | None:
    """`value`, an aggregate, by the columns `name` and `hour` of `frame`, for the rows `names` in
    their order; hours are joined so that there are at most COLUMNS of them. None if there is none.
    """
    wanted = frame.where(F.col("name").isin(*names))
    ends = wanted.agg(F.min("hour").alias("first"), F.max("hour").alias("last")).collect()[0]
    if ends["first"] is None:
        return None
    first, last = (ends[key].astimezone(dt.UTC) for key in ("first", "last"))
    span_s = (last - first).total_seconds() + HOUR_S
    step_s = next((s for s in STEPS_S if span_s / s < COLUMNS), STEPS_S[-1])
    # Joined hours begin where days do.
    start_s = int(first.timestamp()) // step_s * step_s
    steps = int((last.timestamp() - start_s) // step_s) + 1
    at = F.floor((F.unix_timestamp("hour") - start_s) / step_s).cast("int")
    cells: dict[str, list[float | None]] = {name: [None] * steps for name in names}
    found: list[Any] = wanted.groupBy("name", at.alias("at")).agg(value.alias("value")).collect()
    for row in found:
        cells[row["name"]][row["at"]] = row["value"]
    times = [dt.datetime.fromtimestamp(start_s + n * step_s, dt.UTC) for n in range(steps)]
    return Grid(list(names), times, [cells[name] for name in names], step_s, more)
