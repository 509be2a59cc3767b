"""Rows of the quarantine: what could not be used, and why."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

SHOWN: Final = 1_000
UNKNOWN: Final = "unknown"


def source(path: Column) -> Column:
    """The file of the landing, by Spark's name of it."""
    tail = F.regexp_replace(path, r"^.*/landing/(?=(records|groups|nodes|pulls|refused)/)", "")
    return F.try_url_decode(F.replace(tail, F.lit("+"), F.lit("%2B")))


def iad(path: Column) -> Column:
    """The IAD whose folder of the landing a file is in."""
    return F.coalesce(
        F.nullif(F.regexp_extract(source(path), r"iad=([^/]+)/", 1), F.lit("")), F.lit(UNKNOWN)
    )


def shown(text: Column) -> Column:
    """What of a text is kept."""
    return F.substring(F.make_valid_utf8(text), 1, SHOWN)


def identity(iad: Column, *parts: Column) -> Column:
    """SHA-256 of what it is: the same however often and under whatever name of a file it comes."""
    return F.sha2(F.concat_ws("\0", iad, *parts), 256)
