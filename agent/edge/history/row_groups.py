"""File format of row groups: tables, column layouts, statistics and checksums.

A group is a row of the table `groups`, in the columns of `ROW` and `crc`, and one of `columns`:
(sequence, crc, data). `data` has the packed columns one after another, little-endian, without
padding, each with one entry per reading. The **layout** lists them in order, one word per column,
separated by spaces: kind, bytes per number and, if any, the channel, such as
``t8 v4:temperature q1:temperature``.

| kind | numbers | |
|---|---|---|
| t | signed 64 bits | times, ms since 1970, UTC; `shift_ms` is to be added. Always the first |
| s | signed 64 bits | source times of a replay, as they are |
| v | 32-bit floats | values of a channel; NaN: missing |
| r | 32-bit floats | the same before calibration |
| q | bytes | flags of a channel's values (`sensors.quality.flags`) |
| a | unsigned 32 bits | how long before its time a reading was measured, ms |

A column with only default values is omitted: no replay, age 0, all good, raw equal to the values.
An unknown kind was added by a later version; its width tells how much to skip. `statistics` has one
`STATISTICS` per ``v``, in the layout's order. The CRC of `columns` is `zlib.crc32` of `data`, that
of `groups` is `row_crc`; a clock correction changes the row and its CRC, never `data`.

Sequences number the readings: a group reserves a block of `group_readings` sequences when it begins
and is identified by the first. The nth process to open the file begins at n · `OPENING`.
"""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import Any, Final

VERSION: Final = 2  # of the format
APPLICATION_ID: Final = 0x53414E44  # "SAND"
OPENING: Final = 1 << 32
ROW: Final = (
    "sequence, sensor, count, first_ms, last_ms, shift_ms, boot, first_monotonic_ms,"
    " last_monotonic_ms, synchronised, layout, statistics"
)
# Count, minimum, maximum and total of the values that are not bad; number of bad and of suspect.
STATISTICS: Final = struct.Struct("<q3d2q")


@lru_cache(maxsize=64)
def columns_of(layout: str) -> tuple[tuple[str, int, str], ...]:
    """(kind, bytes per number, channel) of each column; ValueError for an invalid layout. An
    unknown kind was added by a later version."""
    columns = []
    for word in layout.split(" "):
        kind, _, channel = word.partition(":")
        columns.append((kind[:1], int(kind[1:]), channel))
    if columns[0][0] != "t" or any(width < 1 for _, width, _ in columns):
        raise ValueError(f"layout {layout[:80]!r} is none")
    return tuple(columns)


@lru_cache(maxsize=64)
def reading_bytes(layout: str) -> int:
    """Bytes of one reading in all columns of a layout; ValueError as `columns_of`."""
    return sum([width for _, width, _ in columns_of(layout)])


def channels_of(layout: str) -> list[str]:
    """The channels with values in a layout, in order."""
    return [channel for kind, _, channel in columns_of(layout) if kind == "v"]


def row_crc(row: tuple[Any, ...]) -> int:
    """CRC-32 of a row of `groups`, with the columns of `ROW`."""
    return zlib.crc32(row[-1], zlib.crc32(" ".join(map(str, row[:-1])).encode()))


def row_problem(row: tuple[Any, ...], crc: int) -> str:
    """The fault of a row of `groups`, or ""."""
    try:
        if crc != row_crc(row):
            return "its checksum is wrong"
        channels = channels_of(row[10])
    except (TypeError, ValueError) as error:
        return str(error)
    if row[3] > row[4] or len(row[11]) != STATISTICS.size * len(channels):
        return "it contradicts itself"
    return ""
