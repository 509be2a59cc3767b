"""Memtable: row groups in memory, holding consecutive readings of one sensor and boot by column.

Within a group times increase strictly and wall minus monotonic time is constant. A group can
therefore be searched by bisection and, if its clock turns out to have been wrong, shifted as one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

from agent.edge.history.columns import NAN, ZERO32, RecordBatch
from agent.wire.packed import Float32Column, Int64Column, UInt32Column

# A larger change of wall time against monotonic time is a step of the clock, not its slewing.
CLOCK_STEP_MS: Final = 500


class Sample(NamedTuple):
    """One reading with its wall and monotonic time in ms, and whether the wall clock was
    synchronised. NaN stands for a missing value.

    `age_ms` is how long before its time it was measured; `quality` has the flags of each value
    (`sensors.quality.flags`), () if all are good; `raw` has the values before calibration, if that
    changed them. Derived values have the `position` at their `source` (`agent.wire.derived`).
    """

    time_ms: int
    monotonic_ms: int
    synchronised: bool
    values: tuple[float, ...]
    source_time_ms: int | None = None
    age_ms: int = 0
    quality: tuple[int, ...] = ()
    raw: tuple[float, ...] | None = None
    source: str = ""
    position: int = 0


class RowGroup:
    """An append-only group in memory. `sequence` is the number of its first reading; `written`
    readings are on stable storage; a `closed` group is complete. `position` is that of its last
    derived values."""

    __slots__ = (
        "age_ms",
        "channels",
        "closed",
        "first",
        "last_monotonic_ms",
        "position",
        "quality",
        "raw",
        "sensor",
        "sequence",
        "source_time_ms",
        "time_ms",
        "values",
        "written",
    )

    def __init__(
        self,
        sequence: int,
        sensor: str,
        channels: tuple[str, ...],
        first: Sample,
        *,
        keeps_raw: bool = False,
    ) -> None:
        self.sequence = sequence
        self.sensor = sensor
        self.channels = channels
        self.first = first
        self.last_monotonic_ms = first.monotonic_ms
        self.time_ms = array("q")
        self.source_time_ms = array("q") if first.source_time_ms is not None else None
        self.age_ms = array("I")
        self.values = tuple([array("f") for _ in channels])
        self.raw = tuple([array("f") for _ in channels]) if keeps_raw else None
        self.quality = tuple([bytearray() for _ in channels])
        self.written = 0
        self.closed = False
        self.position = 0
        self.add(first)

    def __len__(self) -> int:
        return len(self.time_ms)

    @property
    def source(self) -> str:
        """Source of these derived values; empty for readings."""
        return self.first.source

    def continues(self, sample: Sample) -> bool:
        """Whether `sample` belongs to this group: no step of the clock, the same columns."""
        first = self.first
        drift = (sample.time_ms - first.time_ms) - (sample.monotonic_ms - first.monotonic_ms)
        return (
            sample.time_ms > self.time_ms[-1]
            and abs(drift) <= CLOCK_STEP_MS
            and sample.synchronised == first.synchronised
            and sample.source == first.source
            and (sample.source_time_ms is None) == (first.source_time_ms is None)
        )

    def add(self, sample: Sample) -> None:
        """Append a reading, or raise and change nothing; O(channels)."""
        values, raw = _numbers(sample.values), _numbers(sample.raw or sample.values)
        flags = bytes(sample.quality) or bytes(len(values))
        if not len(values) == len(raw) == len(flags) == len(self.channels):
            raise ValueError(f"{len(values)} values for {len(self.channels)} channels")
        times, ages = array("q", [sample.time_ms]), array("I", [sample.age_ms])
        if self.source_time_ms is not None:
            assert sample.source_time_ms is not None
            self.source_time_ms += array("q", [sample.source_time_ms])
        # Nothing below may fail, so that all columns keep the same length.
        self.time_ms += times
        self.age_ms += ages
        for i in range(len(values)):
            self.values[i].append(values[i])
            self.quality[i].append(flags[i])
            if self.raw is not None:
                self.raw[i].append(raw[i])
        self.last_monotonic_ms = sample.monotonic_ms
        self.position = sample.position

    def cut(self, start_ms: int, end_ms: int) -> RecordBatch | None:
        """The readings of [start_ms, end_ms), copied; None if there are none."""
        start, end = bisect_left(self.time_ms, start_ms), bisect_left(self.time_ms, end_ms)
        return self.slice(start, end) if start < end else None

    def slice(self, start: int, end: int) -> RecordBatch:
        """Readings `start` … `end` - 1, copied; at least one. Columns with only default values (no
        flag set, age 0, raw as stored) are omitted."""
        source = self.source_time_ms
        values = [Float32Column.of(column[start:end]).data for column in self.values]
        raw: dict[str, bytes] = {}
        if self.raw is not None:
            before = [Float32Column.of(column[start:end]).data for column in self.raw]
            raw = {
                name: column
                for name, column, value in zip(self.channels, before, values, strict=True)
                if column != value
            }
        flags = [bytes(column[start:end]) for column in self.quality]
        age_ms = UInt32Column.of(self.age_ms[start:end]).data
        return RecordBatch(
            self.time_ms[start],
            self.time_ms[end - 1],
            Int64Column.of(self.time_ms[start:end]).data,
            Int64Column.of(source[start:end]).data if source is not None else None,
            dict(zip(self.channels, values, strict=True)),
            raw,
            {
                name: column
                for name, column in zip(self.channels, flags, strict=True)
                if any(column)
            },
            age_ms if age_ms != ZERO32 * (end - start) else None,
        )

    def cut_to_written(self) -> int:
        """Discard the readings that are not on stable storage; returns how many."""
        given_up = len(self) - self.written
        keep = self.written
        # Within a group the two clocks advance equally.
        self.last_monotonic_ms -= self.time_ms[-1] - self.time_ms[keep - 1]
        del self.time_ms[keep:], self.age_ms[keep:]
        if self.source_time_ms is not None:
            del self.source_time_ms[keep:]
        for column in [*self.values, *(self.raw or ())]:
            del column[keep:]
        for flags in self.quality:
            del flags[keep:]
        return given_up


def _numbers(values: Iterable[float]) -> list[float]:
    # A value outside the range of a 32-bit float is not a valid reading.
    return [value if -3.4e38 < value < 3.4e38 else NAN for value in values]
