"""The naive twin of the history: every reading in a plain list."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.edge.history.history import History
from agent.edge.history.memtable import Sample
from agent.edge.history.reader import Reader
from agent.edge.history.stream import Stream
from agent.edge.timebase import STEP_MS, Correction
from agent.wire.buckets import MAX_BUCKETS, Buckets, Grid, grid_of
from agent.wire.messages import Series
from agent.wire.packed import Float32Column, UInt32Column
from sensors.quality.flags import BAD, SUSPECT

START_MS = 1_700_000_000_000
CHANNELS = ("temperature", "humidity")


def open_history(path: Path, boot: str = "boot-1", **settings: Any) -> History:
    settings = {"group_readings": 50, "commit_s": 10.0, "retention_s": 1e9} | settings
    return History(path, boot, **settings)


def sample(n: int, step_ms: int = 0, **changes: Any) -> Sample:
    """Reading n of a second each, with a wall clock that is `step_ms` off."""
    plain = Sample(START_MS + n * 1000 + step_ms, n * 1000, False, (n / 2, -float(n)), n)
    return plain._replace(**changes)


def filled(path: Path, readings: Iterable[int], **settings: Any) -> tuple[History, Stream]:
    """A history with these readings, and the stream that they came by."""
    history = open_history(path, **settings)
    stream = history.stream("dht", CHANNELS)
    for number in readings:
        stream.append(sample(number))
    return history, stream


def float32(x: float) -> float:
    return float(Float32Column.of([x]).numbers()[0])


# A number or None, and its flags.
Value = tuple[float | None, int]


class Taken(NamedTuple):
    """One reading as it was taken in, with the boot and sensor that gave it."""

    sensor: str
    boot: str
    channels: tuple[str, ...]
    sample: Sample
    group_ms: int  # monotonic time at which its group began


class Row(NamedTuple):
    """One reading of a series; a value is (number or None, flags)."""

    time_ms: int
    source_time_ms: int
    age_ms: int
    values: tuple[tuple[float | None, int], ...]


def rows(series: Series | None, names: tuple[str, ...]) -> list[Row]:
    """A series as tuples; a channel that it lacks is missing and good."""
    if series is None:
        return []
    times = series.time_ms.numbers()
    sources = series.source_time_ms.numbers() if series.source_time_ms else times
    ages = series.age_ms.numbers() if series.age_ms else [0] * len(times)
    columns = []
    for name in names:
        numbers = (
            series.values[name].numbers() if name in series.values else [math.nan] * len(times)
        )
        flags = series.quality[name].numbers() if name in series.quality else [0] * len(times)
        found = [None if math.isnan(x) else x for x in numbers]
        columns.append(list(zip(found, flags, strict=True)))
    return [
        Row(t, s, a, values)
        for t, s, a, *values_ in zip(times, sources, ages, *columns, strict=True)
        for values in [tuple(values_)]
    ]


class Oracle:
    """What was taken in, in order, as a plain list."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for each in self.taken for name in each.channels))

    def correct(self, boot: str, correction: Correction) -> None:
        """Whole groups move, those that began in the time that the correction is for."""
        since, until = correction.since_monotonic_ms, correction.until_monotonic_ms
        begins = {
            (each.sensor, each.group_ms): each.sample
            for each in reversed(self.taken)
            if each.boot == boot
        }
        for i, each in enumerate(self.taken):
            if each.boot != boot or not since <= each.group_ms < until:
                continue
            if each.sample.synchronised and not correction.every:
                continue
            first = begins[each.sensor, each.group_ms]
            by_ms = correction.offset_ms(each.group_ms) - (first.time_ms - first.monotonic_ms)
            same = first.synchronised == correction.synchronised
            if abs(by_ms) <= STEP_MS and same:
                continue
            later = each.sample._replace(
                time_ms=each.sample.time_ms + by_ms, synchronised=correction.synchronised
            )
            self.taken[i] = each._replace(sample=later)

    def window(self, start_ms: int, end_ms: int, names: tuple[str, ...]) -> list[Row]:
        found = [
            each
            for each in self.taken
            if start_ms <= each.sample.time_ms < end_ms
            and any(name.removesuffix("_raw") in each.channels for name in names)
        ]
        any_source = any(each.sample.source_time_ms is not None for each in found)
        result = []
        for each in found:
            taken = each.sample
            source = taken.source_time_ms if any_source else None
            values = tuple(self._value(each, name) for name in names)
            result.append(
                Row(
                    taken.time_ms,
                    source if source is not None else taken.time_ms,
                    taken.age_ms,
                    values,
                )
            )
        return sorted(result, key=lambda row: row.time_ms)

    @staticmethod
    def _value(each: Taken, name: str) -> tuple[float | None, int]:
        channel = name.removesuffix("_raw")
        if channel not in each.channels:
            return None, 0
        at = each.channels.index(channel)
        numbers = each.sample.raw if channel != name and each.sample.raw else each.sample.values
        number = float32(numbers[at])
        flags = each.sample.quality[at] if each.sample.quality else 0
        return None if math.isnan(number) else number, flags


def by_time(found: list[Row]) -> list[tuple[int, list[Row]]]:
    """Rows by time: those of one time in any order, which several sensors leave open."""
    times = sorted({row.time_ms for row in found})
    return [(t, sorted((row for row in found if row.time_ms == t), key=repr)) for t in times]


def check_window(
    reader: Reader, oracle: Oracle, start_ms: int, end_ms: int, asked: tuple[str, ...] = ()
) -> None:
    """Series, aggregate and buckets of a window are what the list says."""
    names = asked or oracle.names()
    expected = oracle.window(start_ms, end_ms, names)
    found = rows(reader.series(start_ms, end_ms, asked), names)
    assert [row.time_ms for row in found] == [row.time_ms for row in expected]
    assert by_time(found) == by_time(expected)
    aggregate = reader.aggregate(start_ms, end_ms, asked)
    timed = _of_channels(oracle, start_ms, end_ms, names)
    there = {name: [value for _, value in values] for name, values in timed.items()}
    counted = {
        name: [x for x, flags in values if x is not None and not flags & BAD]
        for name, values in there.items()
    }
    inner_ms = max(1, expected[-1].time_ms - expected[0].time_ms) if expected else 1
    for length_ms in {-(-(end_ms - start_ms) // 7) or 1, 2_500, inner_ms // 3 or 1}:
        for relative in (False, True):
            if (end_ms - start_ms) // length_ms < MAX_BUCKETS:
                grid = grid_of(start_ms, end_ms, length_ms, relative=relative)
                check_buckets(reader.buckets(start_ms, end_ms, asked, grid), grid, timed)
    if not any(there.values()):
        assert aggregate is None
        return
    assert aggregate is not None
    assert (aggregate.first_ms, aggregate.last_ms) == (expected[0].time_ms, expected[-1].time_ms)
    assert aggregate.channels.keys() == {name for name, values in there.items() if values}
    for name, each in aggregate.channels.items():
        good = counted[name]
        assert each.count == len(good)
        newest = [(t, x) for t, (x, flags) in timed[name] if x is not None and not flags & BAD]
        assert (each.last_ms, each.last) == (max(newest) if newest else (None, None))
        if each.extent is not None:
            mean = pytest.approx(math.fsum(good) / len(good), rel=1e-9, abs=1e-9)
            assert each.extent == (min(good), mean, max(good))
        assert each.bad == len(there[name]) - len(good)
        assert each.suspect == sum(
            x is not None and not flags & BAD and bool(flags & SUSPECT) for x, flags in there[name]
        )


def check_buckets(
    buckets: Buckets | None, grid: Grid, timed: dict[str, list[tuple[int, Value]]]
) -> None:
    """Buckets are what the list says, of the channels with readings in the window."""
    timed = {name: values for name, values in timed.items() if values}
    if buckets is None:
        assert not timed
        return
    assert (buckets.start_ms, buckets.length_ms, len(buckets)) == grid
    assert buckets.channels.keys() == timed.keys()
    for name, found in buckets.channels.items():
        cells: list[list[Value]] = [[] for _ in range(grid.number)]
        for time_ms, value in timed[name]:
            cells[(time_ms - grid.start_ms) // grid.length_ms].append(value)
        none = UInt32Column(bytes(4 * grid.number))
        counts, bads, suspects = (
            each.numbers() for each in (found.count, found.bad or none, found.suspect or none)
        )
        extents = list(zip(*[c.numbers() for c in (found.min, found.mean, found.max)], strict=True))
        for i, values in enumerate(cells):
            good = [x for x, flags in values if x is not None and not flags & BAD]
            assert counts[i] == len(good)
            assert bads[i] == len(values) - len(good)
            assert suspects[i] == sum(
                x is not None and not flags & BAD and bool(flags & SUSPECT) for x, flags in values
            )
            extent = (min(good), math.fsum(good) / len(good), max(good)) if good else [math.nan] * 3
            assert extents[i] == pytest.approx(
                tuple(map(float32, extent)), rel=1e-6, abs=1e-6, nan_ok=True
            )


def _of_channels(
    oracle: Oracle, start_ms: int, end_ms: int, names: tuple[str, ...]
) -> dict[str, list[tuple[int, Value]]]:
    """The values of each channel with their times, of the sensors only that have it."""
    return {
        name: [
            (each.sample.time_ms, oracle._value(each, name))
            for each in oracle.taken
            if start_ms <= each.sample.time_ms < end_ms
            and name.removesuffix("_raw") in each.channels
        ]
        for name in names
    }


def sources(reader: Reader) -> list[int]:
    """The source times of all readings, which count them."""
    return [row.source_time_ms for row in rows(reader.series(0, 2**53), CHANNELS)]
