"""Forecast of a report's duration: from the amount of data, and from the last report's duration."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base
from fleet.terminal.units import size

# Measured by bench/pipeline and after demos, on two cores. What does not grow with the rows: Java
# and Spark that start, twenty tables, the page.
FIXED_S: Final = 45.0
READING_S: Final = 20e-6  # of a core
RECORD_S: Final = 60e-6
NEW_BYTE_S: Final = 1.5e-6
# How far the forecast may be off: before the first report here, and after one.
UNKNOWN: Final = (0.5, 2.5)
KNOWN: Final = (0.7, 1.5)
# Row groups are their readings once more; the others have a row a node or a pull.
READ_OTHERWISE: Final = (base.READINGS.name, base.GROUPS.name)


class Work(Struct, frozen=True):
    """Data that a report has to read: bytes in the landing that are not in the tables yet, rows of
    records, and rows of readings."""

    new_bytes: int
    records: int
    readings: int

    def expected_s(self, cores: int) -> float:
        """Seconds that a machine such as the measured one takes."""
        work_s = READING_S * self.readings + RECORD_S * self.records + NEW_BYTE_S * self.new_bytes
        return FIXED_S + work_s / max(cores, 1)


def between_s(expected_s: float, pace: float | None) -> tuple[float, float]:
    """The seconds from and to; `pace` is how many times as long as expected the last one took."""
    least, most = UNKNOWN if pace is None else KNOWN
    expected_s *= pace or 1.0
    return least * expected_s, most * expected_s


def in_words(low_s: float, high_s: float) -> str:
    """``30 to 90 s``, ``2 to 5 minutes``, ``1 to 3 hours``: rounded outwards."""
    units = ((3600.0, "hours"), (60.0, "minutes"))
    unit_s, name = next((each for each in units if high_s >= 2 * each[0]), (10.0, "s"))
    if name == "s":
        return f"{max(10 * math.floor(low_s / 10), 5)} to {10 * math.ceil(high_s / 10)} s"
    high = f"{math.ceil(high_s / unit_s)} {name}"
    if low_s >= unit_s:
        return f"{math.floor(low_s / unit_s)} to {high}"
    if name == "hours":
        return f"{math.floor(low_s / 60)} minutes to {high}"
    return f"{max(10 * math.floor(low_s / 10), 5)} s to {high}"


def said(work: Work, expected_s: float, pace: float | None) -> str:
    """One line beforehand: what is read, and how long that takes."""
    read = [f"{size(work.new_bytes)} of newly pulled files"] if work.new_bytes else []
    if work.readings:
        read.append(f"{work.readings:,} values of readings")
    if work.records:
        read.append(f"{work.records:,} records")
    known = "" if pace is None else ", going by the last report"
    what = ", ".join(read) or "no data"
    return f"to read: {what}; this takes {in_words(*between_s(expected_s, pace))}{known}"


def work(
    lake: Lake, since: datetime | None, until: datetime | None, *, with_new: bool = True
) -> Work:
    """Data that a report of that time has to read: from the files' sizes and footers. O(files)."""
    rows = {table.name: _rows(lake, table.name, since, until) for table in base.TABLES}
    return Work(
        _new_bytes(lake) if with_new else 0,
        sum(count for name, count in rows.items() if name not in READ_OTHERWISE),
        rows[base.READINGS.name],
    )


def _rows(lake: Lake, name: str, since: datetime | None, until: datetime | None) -> int:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_metadata

    rows = 0
    for path in lake.table(name).glob("iad=*/date=*/*.parquet"):
        day = path.parent.name.removeprefix("date=")
        if (since and day < _day(since)) or (until and day > _day(until)):
            continue
        # An ingest that is under way may rename it meanwhile.
        with suppress(OSError, ArrowException):
            rows += read_metadata(path).num_rows
    return rows


def _day(time: datetime) -> str:
    return time.astimezone(UTC).date().isoformat()


def _new_bytes(lake: Lake) -> int:
    """Bytes in the landing that came after the last ingest had listed its files."""
    offsets = _stats(lake.checkpoints.joinpath("landing", "offsets").glob("*"))
    ingested_s = max((stat.st_mtime for stat in offsets), default=0.0)
    files = _stats(path for path in lake.landing.rglob("*") if path.is_file())
    return sum(stat.st_size for stat in files if stat.st_mtime >= ingested_s)


def _stats(paths: Iterable[Path]) -> Iterator[os.stat_result]:
    """Of those that are still there: a pull or an ingest that is under way renames its files."""
    for path in paths:
        with suppress(FileNotFoundError):
            yield path.stat()


def pace_of(lake: Lake, master: str) -> float | None:
    """How many times as long as expected the last report of this lake took on `master`; None if
    there was none."""
    try:
        return msgspec.json.decode(lake.pace.read_bytes(), type=dict[str, float])[master]
    except (OSError, ValueError, KeyError):
        return None


def keep_pace(lake: Lake, master: str, pace: float) -> None:
    """Have it for the next report."""
    known: dict[str, float] = {}
    path = lake.pace
    with suppress(OSError, ValueError):
        known = msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    part = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):  # a forecast is worth no failed report
        part.write_bytes(msgspec.json.encode({**known, master: round(pace, 3)}))
        part.replace(path)
