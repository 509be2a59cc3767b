"""Record batches: one sensor's readings as packed columns, stored and sent as they are."""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import Final, NamedTuple

from msgspec import Struct

from _core.columns.series import Merge, summary
from agent.edge.history.row_groups import columns_of, reading_bytes
from agent.wire.base import RAW
from agent.wire.messages import ChannelAggregate, Series
from agent.wire.packed import Float32Column, Int64Column, UInt8Column, UInt32Column
from sensors.quality.flags import BAD

NAN: Final = float("nan")
NAN32: Final = Float32Column.of([NAN]).data
ZERO32: Final = bytes(4)
TIME: Final = struct.Struct("<q")


class RecordBatch(Struct, frozen=True):
    """Readings in time order, in the byte order of the wire; never empty. `raw`, `quality` and
    `age_ms` hold only the columns that differ from the default."""

    first_ms: int
    last_ms: int
    time_ms: bytes
    source_time_ms: bytes | None
    values: dict[str, bytes]
    raw: dict[str, bytes]
    quality: dict[str, bytes]
    age_ms: bytes | None

    def cut(self, start_ms: int, end_ms: int) -> RecordBatch | None:
        """The readings of [start_ms, end_ms); None if there are none. A batch inside the window is
        returned unchanged, without reading its values."""
        if self.first_ms >= start_ms and self.last_ms < end_ms:
            return self
        times = Int64Column(self.time_ms).numbers()
        start, end = bisect_left(times, start_ms), bisect_left(times, end_ms)
        if start >= end:
            return None
        source, age_ms = self.source_time_ms, self.age_ms
        return RecordBatch(
            times[start],
            times[end - 1],
            self.time_ms[8 * start : 8 * end],
            source[8 * start : 8 * end] if source is not None else None,
            {name: data[4 * start : 4 * end] for name, data in self.values.items()},
            {name: data[4 * start : 4 * end] for name, data in self.raw.items()},
            {name: data[start:end] for name, data in self.quality.items()},
            age_ms[4 * start : 4 * end] if age_ms is not None else None,
        )

    def column(self, name: str) -> bytes | None:
        """The values of a channel; for `<channel>_raw` those before calibration."""
        if (data := self.values.get(name)) is not None:
            return data
        channel = name.removesuffix(RAW)
        if channel == name:
            return None
        return self.raw.get(channel) or self.values.get(channel)

    def flags(self, name: str) -> bytes | None:
        """The flags of a channel, or of the channel that `<channel>_raw` belongs to."""
        return self.quality.get(name if name in self.values else name.removesuffix(RAW))

    def __len__(self) -> int:
        return len(self.time_ms) // 8


class Statistics(NamedTuple):
    """Statistics of one channel. `n` counts the values that are not bad; `low`, `high` and `total`
    cover only these, and `low` and `high` are NaN if there are none. `suspect` of the n are so
    flagged. `newest` is the time of the last of them, and its value; None: not looked for."""

    n: int
    low: float
    high: float
    total: float
    bad: int = 0
    suspect: int = 0
    newest: tuple[int, float] | None = None

    @property
    def stored(self) -> tuple[int, float, float, float, int, int]:
        """The fields that a group's row keeps of them."""
        return self.n, self.low, self.high, self.total, self.bad, self.suspect

    def join(self, other: Statistics) -> Statistics:
        """The statistics of both together."""
        bad, suspect = self.bad + other.bad, self.suspect + other.suspect
        if not self.n or not other.n:
            some = self if self.n else other
            return Statistics(some.n, some.low, some.high, some.total, bad, suspect, some.newest)
        return Statistics(
            self.n + other.n,
            min(self.low, other.low),
            max(self.high, other.high),
            self.total + other.total,
            bad,
            suspect,
            max([each for each in (self.newest, other.newest) if each], default=None),
        )

    def aggregate(self) -> ChannelAggregate:
        """As it goes on the wire."""
        if not self.n:
            return ChannelAggregate(0, bad=self.bad)
        last_ms, last = self.newest or (None, None)
        return ChannelAggregate(
            self.n, self.low, self.total / self.n, self.high, self.bad, self.suspect, last, last_ms
        )


def statistics_of(column: bytes, flags: bytes | None, time_ms: bytes | None = None) -> Statistics:
    """Statistics of a packed column with its flags, None for all good; with the newest value if
    its times are given. O(n)."""
    n, _, last, low, high, total, suspect = summary(Float32Column(column).native, flags, BAD)
    bad = len(column) // 4 - n
    if not n:
        return Statistics(0, NAN, NAN, 0.0, bad)
    newest = None
    if time_ms is not None:
        [when] = Int64Column(time_ms[8 * last : 8 * last + 8]).numbers()
        [value] = Float32Column(column[4 * last : 4 * last + 4]).numbers()
        newest = (when, value)
    return Statistics(n, low, high, total, bad, suspect, newest)


def layout_of(batch: RecordBatch) -> str:
    """The layout string of a record batch, as defined in `agent.edge.history.row_groups`."""
    names = ["t8"]
    if batch.source_time_ms is not None:
        names.append("s8")
    for kind, found in (("v4", batch.values), ("r4", batch.raw), ("q1", batch.quality)):
        names += [f"{kind}:{channel}" for channel in found]
    if batch.age_ms is not None:
        names.append("a4")
    return " ".join(names)


def encode(batch: RecordBatch) -> tuple[str, bytes]:
    """A record batch as stored: (layout, data), as defined in `agent.edge.history.row_groups`."""
    columns = [batch.time_ms]
    if batch.source_time_ms is not None:
        columns.append(batch.source_time_ms)
    for found in (batch.values, batch.raw, batch.quality):
        columns += found.values()
    if batch.age_ms is not None:
        columns.append(batch.age_ms)
    return layout_of(batch), b"".join(columns)


def decode(layout: str, data: bytes, shift_ms: int = 0) -> RecordBatch:
    """The inverse of `encode`, shifted by `shift_ms`; ValueError if data and layout differ."""
    n, rest = divmod(len(data), reading_bytes(layout))
    if rest or not n:
        raise ValueError(f"{len(data)} bytes do not fit the layout {layout[:80]!r}")
    source = age_ms = None
    values: dict[str, bytes] = {}
    raw: dict[str, bytes] = {}
    quality: dict[str, bytes] = {}
    (_, width, _), *others = columns_of(layout)
    at = n * width
    time_ms = data[:at]
    for kind, width, channel in others:
        column = data[at : (at := at + n * width)]
        if kind == "v":
            values[channel] = column
        elif kind == "q":
            quality[channel] = column
        elif kind == "r":
            raw[channel] = column
        elif kind == "s":
            source = column
        elif kind == "a":
            age_ms = column
    if shift_ms:
        time_ms = Int64Column.of([t + shift_ms for t in Int64Column(time_ms).numbers()]).data
    return RecordBatch(
        TIME.unpack_from(time_ms)[0],
        TIME.unpack_from(time_ms, len(time_ms) - 8)[0],
        time_ms,
        source,
        values,
        raw,
        quality,
        age_ms,
    )


def merge(batches: list[RecordBatch], names: list[str] | None = None) -> RecordBatch:
    """The readings of `batches` in time order, equal times in the order given; O(n) if few of them
    overlap.

    `names` are the channels wanted, by default all, each with its raw values. Columns that a batch
    lacks are filled with defaults: NaN, good, age 0, source time equal to the time.
    """
    # Within a group times increase.
    merged = Merge([batch.time_ms for batch in batches], ascending=True)
    raw: dict[str, bytes] = {}
    if names is None:
        names = list(dict.fromkeys([name for batch in batches for name in batch.values]))
        for name in dict.fromkeys([name for batch in batches for name in batch.raw]):
            raw[name] = merged.column([batch.column(name + RAW) for batch in batches], NAN32)
    source = age_ms = None
    if any(batch.source_time_ms is not None for batch in batches):
        # Outside of replays a reading's source time is its time.
        sources: list[bytes | None] = [batch.source_time_ms or batch.time_ms for batch in batches]
        source = merged.column(sources, bytes(8))
    if any(batch.age_ms is not None for batch in batches):
        age_ms = merged.column([batch.age_ms for batch in batches], ZERO32)
    quality: dict[str, bytes] = {}
    if any(batch.quality for batch in batches):
        for name in names:
            flags = [batch.flags(name) for batch in batches]
            if any(column is not None for column in flags):
                quality[name] = merged.column(flags, bytes(1))
    return RecordBatch(
        min([batch.first_ms for batch in batches]),
        max([batch.last_ms for batch in batches]),
        merged.times,
        source,
        {
            name: merged.column([p.values.get(name) or p.column(name) for p in batches], NAN32)
            for name in names
        },
        raw,
        quality,
        age_ms,
    )


def series_of(batch: RecordBatch) -> Series:
    """A record batch in its wire form; columns with only default values are omitted."""
    source, age_ms = batch.source_time_ms, batch.age_ms
    return Series(
        Int64Column(batch.time_ms),
        {name: Float32Column(data) for name, data in batch.values.items()},
        Int64Column(source) if source is not None else None,
        {name: UInt8Column(data) for name, data in batch.quality.items() if any(data)},
        UInt32Column(age_ms) if age_ms is not None and any(age_ms) else None,
    )
