"""Series too large for a message: their size, and the longest window that would fit."""

from __future__ import annotations

import math
from typing import Final

from agent.wire.messages import AreaResult, Series
from agent.wire.node_messages import TooLarge

MEGABYTE: Final = 1_000_000
# Units of window lengths, the longest first: in seconds, and the least count for which it is used.
UNITS: Final = (("days", 86_400, 10), ("h", 3_600, 2), ("minutes", 60, 2), ("s", 1, 1))


def bytes_of(series: Series) -> int:
    """Packed bytes of a series on the wire, neglecting names and lengths."""
    columns = [series.time_ms, *series.values.values(), *series.quality.values()]
    size = sum([len(column.data) for column in columns])
    for more in (series.source_time_ms, series.age_ms):
        if more is not None:
            size += len(more.data)
    return size


def numbers_of(result: AreaResult) -> int:
    """How many numbers a result's columns have."""
    numbers = 0
    if (series := result.series) is not None:
        columns = 1 + len(series.values) + len(series.quality)
        columns += (series.source_time_ms is not None) + (series.age_ms is not None)
        numbers = len(series.time_ms) * columns
    if (buckets := result.buckets) is not None:
        numbers += len(buckets) * sum([len(each.columns) for each in buckets.channels.values()])
    return numbers


def bytes_in(result: AreaResult) -> int:
    """Packed bytes of a result's columns on the wire."""
    size = 0 if result.buckets is None else result.buckets.bytes
    return size if result.series is None else size + bytes_of(result.series)


def too_large(size: int, most: int, length_s: float) -> TooLarge:
    """The `TooLarge` of readings over `length_s` seconds that take `size` bytes, if `most` fit."""
    return TooLarge(size, _rounded(length_s * most / size))


def in_words(found: TooLarge, most: int) -> str:
    """For people: ``25 MB of readings, at most 17 MB fit: ask for at most 48 h of it, …``."""
    size = f"{_megabytes(found.bytes)} of readings, at most {_megabytes(most)} fit"
    window = f"at most {_length(found.longest_s)} of it, " if found.longest_s else ""
    return f"{size}: ask for {window}fewer channels or areas, or aggregates"


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.{1 if size < 10 * MEGABYTE else 0}f} MB"


def _rounded(seconds: float) -> float:
    """Round down to a multiple of one unit."""
    for _, unit_s, least in UNITS:
        if seconds >= least * unit_s:
            return float(math.floor(seconds / unit_s) * unit_s)
    return 0.0


def _length(seconds: float) -> str:
    for unit, unit_s, least in UNITS:
        if seconds >= least * unit_s and seconds % unit_s == 0:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:g} s"
