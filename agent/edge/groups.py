"""Row groups: readings that one boot took one after another, packed column by column.

Within a group times grow strictly and the wall clock keeps its distance to the monotonic one, so a
group can be searched by bisection and, if its clock turns out to have been wrong, be moved as one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from agent.wire.messages import ChannelAggregate
from agent.wire.packed import Float32Column, Int64Column

NAN: Final = float("nan")
NAN32: Final = Float32Column.of([NAN]).data
# A larger change of wall time against monotonic time is a step of the clock, not its slewing.
CLOCK_STEP_MS: Final = 500


class Sample(NamedTuple):
    """One reading with its clocks: wall and monotonic time in ms, and whether the wall clock was
    synchronised. A value that is NaN is missing.

    `age_ms` is how long before its time it was measured; `quality` has the flags of each value
    (`sensors.quality.flags`), () if all are good; `raw` has the values before calibration, where
    that changed them.
    """

    time_ms: int
    monotonic_ms: int
    synchronised: bool | None
    values: tuple[float, ...]
    source_time_ms: int | None = None
    age_ms: int = 0
    quality: tuple[int, ...] = ()
    raw: tuple[float, ...] | None = None


class Piece(NamedTuple):
    """The part of a group that lies in a window, in the byte order of the wire; never empty."""

    first_ms: int
    last_ms: int
    time_ms: bytes
    source_time_ms: bytes | None
    columns: Mapping[str, bytes]


class Statistics(NamedTuple):
    """One channel's readings that are not missing; `low` and `high` are NaN where there is none."""

    n: int
    low: float
    high: float
    total: float

    def join(self, other: Statistics) -> Statistics:
        """The statistics of both together."""
        if not self.n or not other.n:
            return self if self.n else other
        return Statistics(
            self.n + other.n,
            min(self.low, other.low),
            max(self.high, other.high),
            self.total + other.total,
        )

    def aggregate(self) -> ChannelAggregate:
        """As it goes on the wire; there must be a reading."""
        return ChannelAggregate(self.n, self.low, self.total / self.n, self.high)


NOTHING: Final = Statistics(0, NAN, NAN, 0.0)


def statistics_of(numbers: Iterable[float]) -> Statistics:
    """Statistics of a column; O(n)."""
    # Only NaN differs from itself.
    there = [x for x in numbers if x == x]
    return Statistics(len(there), min(there), max(there), sum(there)) if there else NOTHING


class RowGroup:
    """A group in memory, growing at its end. `sequence` is the number of its first reading."""

    __slots__ = (
        "channels",
        "first",
        "last",
        "sequence",
        "source_time_ms",
        "time_ms",
        "values",
        "written",
    )

    def __init__(self, sequence: int, channels: tuple[str, ...], first: Sample) -> None:
        self.sequence = sequence
        self.channels = channels
        self.first = first
        self.time_ms = array("q")
        self.source_time_ms = array("q") if first.source_time_ms is not None else None
        self.values = tuple([array("f") for _ in channels])
        self.written = 0  # readings that are on stable storage
        self.add(first)

    def __len__(self) -> int:
        return len(self.time_ms)

    def continues(self, sample: Sample) -> bool:
        """Whether `sample` belongs to this group: no step of the clock, the same columns."""
        first = self.first
        drift = (sample.time_ms - first.time_ms) - (sample.monotonic_ms - first.monotonic_ms)
        return (
            sample.time_ms > self.last.time_ms
            and abs(drift) <= CLOCK_STEP_MS
            and sample.synchronised == first.synchronised
            and (sample.source_time_ms is None) == (first.source_time_ms is None)
        )

    def add(self, sample: Sample) -> None:
        """Append a reading, or raise and change nothing; O(channels)."""
        # What a 32-bit float cannot hold was no reading.
        values = [value if -3.4e38 < value < 3.4e38 else NAN for value in sample.values]
        if len(values) != len(self.values):
            raise ValueError(f"{len(values)} values for {len(self.values)} channels")
        times = array("q", [sample.time_ms])
        if self.source_time_ms is not None:
            assert sample.source_time_ms is not None
            self.source_time_ms += array("q", [sample.source_time_ms])
        # Nothing fails from here on, so that all columns stay equally long.
        self.time_ms += times
        for column, value in zip(self.values, values, strict=True):
            column.append(value)
        self.last = sample

    def cut(self, start_ms: int, end_ms: int) -> Piece | None:
        """The readings of [start_ms, end_ms), copied; None if there are none."""
        start, end = bisect_left(self.time_ms, start_ms), bisect_left(self.time_ms, end_ms)
        if start >= end:
            return None
        source = self.source_time_ms
        return Piece(
            self.time_ms[start],
            self.time_ms[end - 1],
            Int64Column.of(self.time_ms[start:end]).data,
            Int64Column.of(source[start:end]).data if source is not None else None,
            {
                name: Float32Column.of(column[start:end]).data
                for name, column in zip(self.channels, self.values, strict=True)
            },
        )


def cut_packed(
    start_ms: int,
    end_ms: int,
    first_ms: int,
    last_ms: int,
    time_ms: bytes,
    source_time_ms: bytes | None,
    columns: Mapping[str, bytes],
) -> Piece | None:
    """The readings of [start_ms, end_ms) of a packed group; None if there are none.

    A group that lies inside the window is passed on as it is: no number is looked at.
    """
    if first_ms >= start_ms and last_ms < end_ms:
        return Piece(first_ms, last_ms, time_ms, source_time_ms, columns)
    times = Int64Column(time_ms).numbers()
    start, end = bisect_left(times, start_ms), bisect_left(times, end_ms)
    if start >= end:
        return None
    return Piece(
        times[start],
        times[end - 1],
        time_ms[8 * start : 8 * end],
        source_time_ms[8 * start : 8 * end] if source_time_ms is not None else None,
        {name: data[4 * start : 4 * end] for name, data in columns.items()},
    )
