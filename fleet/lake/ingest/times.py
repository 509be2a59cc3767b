"""Conversion of Unix milliseconds (UTC) to the tables' timestamps and days."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

# A master's clock is never before 2000.
EARLIEST_MS: Final = 946_684_800_000
# A node's clock without a battery counts from 1970 until it is synchronised.
UNSET_MS: Final = 366 * 86_400_000
# Recordings may be old; 1900.
SOURCE_EARLIEST_MS: Final = -2_208_988_800_000
# The latest time that every Parquet reader can represent: 9999-12-31.
LATEST_MS: Final = 253_402_214_400_000


def latest_ms(now: datetime) -> int:
    """The latest time that an ingest at `now` believes."""
    return int((now + timedelta(days=1)).timestamp() * 1000)


def possible(column: str, latest_ms: int) -> str:
    """SQL: whether a node may have given this time. Each day makes a partition, so a clock that is
    wrong must not name any day up to the year 9999."""
    return f"({column} BETWEEN 0 AND {UNSET_MS} OR {column} BETWEEN {EARLIEST_MS} AND {latest_ms})"


def timestamp(time_ms: Column) -> Column:
    """The timestamp; the argument must be between 0 and LATEST_MS."""
    return F.timestamp_millis(time_ms)


def day(time_ms: Column) -> Column:
    """The UTC day. O(1): no time zone database is used."""
    return F.date_from_unix_date(F.floor(time_ms / F.lit(86_400_000)).cast("int"))
