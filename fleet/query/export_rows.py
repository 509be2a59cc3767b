"""Rows of exported answers: readings in time order, aggregates, buckets; pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import repeat
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from agent.wire.base import QueryForm
from agent.wire.buckets import Buckets
from agent.wire.messages import Answer, AreaResult, Series
from agent.wire.quality import names
from agent.wire.units import sign_of
from fleet.terminal.screen import unit_of

Kind = Literal["time", "text", "float", "count"]
Row = tuple[Any, ...]


class Column(NamedTuple):
    """A column of an export. Times are in ms since 1970 UTC; each `time` column has a `count`
    beside it with the same number."""

    name: str
    kind: Kind


READINGS: Final = (
    Column("time", "time"),
    Column("time_ms", "count"),
    Column("area", "text"),
    Column("channel", "text"),
    Column("value", "float"),
    Column("unit", "text"),
    Column("quality", "text"),
)
STATISTICS: Final = (
    Column("area", "text"),
    Column("channel", "text"),
    Column("count", "count"),
    Column("bad", "count"),
    Column("suspect", "count"),
    Column("min", "float"),
    Column("mean", "float"),
    Column("max", "float"),
    Column("unit", "text"),
)
AGGREGATES: Final = (
    Column("first", "time"),
    Column("first_ms", "count"),
    Column("last", "time"),
    Column("last_ms", "count"),
    *STATISTICS,
)
BUCKETS: Final = (
    Column("start", "time"),
    Column("start_ms", "count"),
    Column("end", "time"),
    Column("end_ms", "count"),
    *STATISTICS,
)
# The last column of each: the area's name for people, empty if it has none.
NAME: Final = Column("name", "text")
COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "series": (*READINGS, NAME),
    "aggregate": (*AGGREGATES, NAME),
    "buckets": (*BUCKETS, NAME),
}
# The units that nodes told, by area and channel.
Units = Mapping[tuple[str, str], str]
NONE: Final[Units] = {}


def units_of(about: Answer) -> dict[tuple[str, str], str]:
    """The units in an answer of form `about`, as people write them."""
    return {
        (result.area, each.name): sign_of(each.unit)
        for result in about.results
        for each in (() if result.about is None else result.about.channels)
        if each.unit
    }


def rows_of(answer: Answer, form: QueryForm, units: Units) -> Iterator[Row]:
    """The rows of an answer to a query of that form; `units` go before those that names of channels
    tell."""
    kinds = {"series": readings, "aggregate": aggregates, "buckets": buckets}
    return kinds[form](answer, units)


def readings(answer: Answer, units: Units = NONE) -> Iterator[Row]:
    """The readings of an answer as rows of `READINGS` and `NAME`, by time, area and channel. A
    reading that a sensor did not give has no value, and its flags say why; readings of sensors
    without the channel make no row. O(n log areas); nothing is held but the answer."""
    columns = [
        _readings(result, channel, result.series, _unit(units, result, channel))
        for result in answer.results
        if result.series is not None and result.stale_ms is None
        for channel in sorted(result.series.values)
    ]
    return heapq.merge(*columns, key=itemgetter(0, 2, 3))


def _readings(result: AreaResult, channel: str, series: Series, unit: str) -> Iterator[Row]:
    area, name = result.area, result.name or ""
    quality = series.quality.get(channel)
    flags = repeat(0) if quality is None else quality.data
    columns = zip(series.time_ms.numbers(), series.values[channel].numbers(), flags, strict=False)
    for time_ms, value, flagged in columns:
        if value == value:
            yield time_ms, time_ms, area, channel, value, unit, _words(flagged), name
        elif flagged:
            yield time_ms, time_ms, area, channel, None, unit, _words(flagged), name


def aggregates(answer: Answer, units: Units = NONE) -> Iterator[Row]:
    """The aggregates of an answer as rows of `AGGREGATES` and `NAME`, by area and channel."""
    for result in sorted(answer.results, key=lambda each: each.area):
        if result.aggregate is None or result.stale_ms is not None:
            continue
        first_ms, last_ms = result.aggregate.first_ms, result.aggregate.last_ms
        for channel, found in sorted(result.aggregate.channels.items()):
            low, mean, high = found.extent or (None, None, None)
            yield (
                *(first_ms, first_ms, last_ms, last_ms, result.area, channel),
                *(found.count, found.bad, found.suspect, low, mean, high),
                *(_unit(units, result, channel), result.name or ""),
            )


def buckets(answer: Answer, units: Units = NONE) -> Iterator[Row]:
    """The buckets of an answer as rows of `BUCKETS` and `NAME`, by time, area and channel; none of
    a bucket without readings."""
    columns = [
        _buckets(result, channel, result.buckets, _unit(units, result, channel))
        for result in answer.results
        if result.buckets is not None
        for channel in sorted(result.buckets.channels)
    ]
    return heapq.merge(*columns, key=itemgetter(0, 4, 5))


def _buckets(result: AreaResult, channel: str, found: Buckets, unit: str) -> Iterator[Row]:
    area, name = result.area, result.name or ""
    of = found.channels[channel]
    zeros = repeat(0)
    columns = zip(
        *(column.numbers() for column in (of.count, of.min, of.mean, of.max)),
        zeros if of.bad is None else of.bad.numbers(),
        zeros if of.suspect is None else of.suspect.numbers(),
        strict=False,
    )
    for number, (count, low, mean, high, bad, suspect) in enumerate(columns):
        if not count and not bad:
            continue
        start_ms = found.start_ms + number * found.length_ms
        end_ms = start_ms + found.length_ms
        values = (low, mean, high) if count else (None, None, None)
        yield (
            *(start_ms, start_ms, end_ms, end_ms, area, channel, count, bad, suspect),
            *(*values, unit, name),
        )


def _unit(units: Units, result: AreaResult, channel: str) -> str:
    """That which the node told, else that which the channel's name tells."""
    return units.get((result.area, channel)) or unit_of(channel)


@cache
def _words(flags: int) -> str:
    """Quality flags in words, with semicolons between; empty for a good value."""
    return ";".join(names(flags))


def values_of(answer: Answer) -> int:
    """How many values the series of an answer have, or its buckets. O(areas)."""
    count = 0
    for result in answer.results:
        if result.series is not None:
            count += len(result.series.time_ms) * len(result.series.values)
        if result.buckets is not None:
            count += len(result.buckets) * len(result.buckets.channels)
    return count
