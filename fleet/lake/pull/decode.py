"""Decodes row groups of a history into landing rows: packed columns become Parquet lists.

Numbers are not touched: a value has in Parquet the bits that the node stored, NaN's, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Meta
from numpy.typing import NDArray

from agent.edge.history.row_groups import columns_of, row_problem
from fleet.common.msgspec_types import made_ready
from fleet.lake.pull.decode_schema import schema_of
from fleet.lake.schema.landing import GROUPS

Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
# Longer than agents write them, and short enough for as many rows as wait in memory: a layout of 64
# channels has 7,000 characters, its statistics 6,144 digits.
Text = Annotated[str, Meta(max_length=512)]
LongText = Annotated[str, Meta(max_length=1 << 13)]
Column = NDArray[Any]

# The known kinds of columns, with their number types; others are ignored.
KINDS: Final[dict[str, np.dtype[Any]]] = {
    "t": np.dtype("<i8"),
    "s": np.dtype("<i8"),
    "v": np.dtype("<f4"),
    "r": np.dtype("<f4"),
    "q": np.dtype("u1"),
    "a": np.dtype("<u4"),
}


class Row(NamedTuple):
    """A row of a history's table `groups`, as `agent.edge.history.row_groups.ROW` has it."""

    sequence: Int64
    sensor: Text
    readings: Int64
    first_ms: Int64
    last_ms: Int64
    shift_ms: Int64
    boot: Text
    first_monotonic_ms: Int64
    last_monotonic_ms: Int64
    synchronised: Int64
    layout: LongText
    statistics: LongText  # in hexadecimal digits


made_ready(Row)


class Channel(NamedTuple):
    """A channel's numbers; without `raw` they equal the values, without `quality` all are good."""

    name: str
    value: Column
    raw: Column | None
    quality: Column | None


class Group(NamedTuple):
    """A row group that passed its checks; its times are corrected."""

    row: Row
    time_ms: Column
    source_time_ms: Column | None
    age_ms: Column | None
    channels: list[Channel]


class Damaged(Exception):
    """The data is no valid row group; the text says why."""


def row_of(said: object) -> Row:
    """A row as it came. Damaged."""
    try:
        return msgspec.convert(said, Row)
    except msgspec.ValidationError as error:
        raise Damaged(str(error)) from None


def decode(row: Row, crc: int, columns_crc: int, data: bytes) -> Group:
    """Decode a group as stored in a history's file; Damaged if it fails a check. Only times that
    are shifted are copied; O(readings)."""
    try:
        statistics = bytes.fromhex(row.statistics)
    except ValueError:
        raise Damaged("its statistics are no hexadecimal digits") from None
    if problem := row_problem((*row[:-1], statistics), crc):
        raise Damaged(problem)
    if zlib.crc32(data) != columns_crc:
        raise Damaged("the checksum of its columns is wrong")
    columns = columns_of(row.layout)
    width = sum([width for _, width, _ in columns])
    if row.readings < 1 or row.readings * width != len(data):
        raise Damaged(f"{len(data)} bytes are not {row.readings} readings of {row.layout[:80]!r}")
    found: dict[tuple[str, str], Column] = {}
    at = 0
    for kind, width, channel in columns:
        if (numbers := KINDS.get(kind)) is not None:
            if width != numbers.itemsize:
                raise Damaged(f"a column of kind {kind} has {width} bytes a number")
            found[kind, channel] = np.frombuffer(data, numbers, row.readings, at)
        at += width * row.readings
    time_ms = found["t", ""] if ("t", "") in found else np.empty(0, "<i8")
    if row.shift_ms and len(time_ms):
        time_ms = time_ms + row.shift_ms
    if not len(time_ms) or (time_ms[0], time_ms[-1]) != (row.first_ms, row.last_ms):
        raise Damaged("its times are not those of its row")
    channels = [
        Channel(channel, value, found.get(("r", channel)), found.get(("q", channel)))
        for (kind, channel), value in found.items()
        if kind == "v"
    ]
    return Group(row, time_ms, found.get(("s", "")), found.get(("a", "")), channels)


class GroupSource(NamedTuple):
    """The source of groups: IAD and node, the history id of each group, and the time of the
    export."""

    iad: str
    node: str
    histories: Sequence[str]
    exported_ms: int


def table_of(groups: Sequence[Group], origin: GroupSource) -> Any:
    """Groups as a `pyarrow.Table` of the schema `GROUPS`; O(readings)."""
    n = len(groups)
    rows = [group.row for group in groups]
    channels = [channel for group in groups for channel in group.channels]
    of_channel = schema_of(GROUPS).field("channels").type.value_type
    columns = [
        pa.array([origin.iad] * n),
        pa.array([origin.node] * n),
        pa.array(list(origin.histories)),
        pa.array([row.sequence for row in rows], pa.int64()),
        pa.array([row.sensor for row in rows], pa.string()),
        pa.array([row.boot for row in rows], pa.string()),
        pa.array([bool(row.synchronised) for row in rows], pa.bool_()),
        pa.array([row.shift_ms for row in rows], pa.int64()),
        pa.array([origin.exported_ms] * n, pa.int64()),
        pa.array([row.readings for row in rows], pa.int32()),
        pa.array([row.first_ms for row in rows], pa.int64()),
        pa.array([row.last_ms for row in rows], pa.int64()),
        _lists([group.time_ms for group in groups], np.dtype("i8")),
        _lists([group.source_time_ms for group in groups], np.dtype("i8")),
        _lists([group.age_ms for group in groups], np.dtype("i8")),
        pa.ListArray.from_arrays(
            _offsets([len(group.channels) for group in groups]),
            pa.StructArray.from_arrays(
                [
                    pa.array([channel.name for channel in channels], pa.string()),
                    _lists([channel.value for channel in channels], np.dtype("f4")),
                    _lists([channel.raw for channel in channels], np.dtype("f4")),
                    _lists([channel.quality for channel in channels], np.dtype("i2")),
                ],
                fields=list(of_channel),
            ),
        ),
    ]
    return pa.Table.from_arrays(columns, schema=schema_of(GROUPS))


def write(path: Path, table: Any) -> None:
    """Write a file of the landing. OSError."""
    # Names repeat, which a dictionary compresses; times and values hardly do.
    names = [field.name for field in table.schema if pa.types.is_string(field.type)]
    pq.write_table(table, path, compression="zstd", use_dictionary=names)


def _lists(parts: Sequence[Column | None], kind: np.dtype[Any]) -> Any:
    """A list of numbers each; null where there is none."""
    there = [part for part in parts if part is not None]
    numbers = np.concatenate(there).astype(kind, copy=False) if there else np.empty(0, kind)
    return pa.ListArray.from_arrays(
        _offsets([0 if part is None else len(part) for part in parts]),
        pa.array(numbers),
        mask=pa.array([part is None for part in parts], pa.bool_()),
    )


def _offsets(lengths: Sequence[int]) -> Any:
    return pa.array(np.concatenate(([0], np.cumsum(lengths, dtype="i4"))), pa.int32())
