"""What an answer says about each area, in a few numbers; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from agent.wire.messages import Aggregate, Answer, AreaResult, Series


class ChannelSummary(Struct, frozen=True):
    """One channel of one area; NaN where there was no value. `last` only comes with a series."""

    min: float
    mean: float
    max: float
    last: float = math.nan


class AreaSummary(Struct, frozen=True):
    """Readings of one area: how many, when the first and the last (milliseconds since 1970 UTC),
    and when the same were recorded first, if they are a replay."""

    area: str
    n: int
    first_ms: int
    last_ms: int
    channels: dict[str, ChannelSummary]
    source_ms: tuple[int, int] | None = None


def summarize(answer: Answer) -> list[AreaSummary]:
    """One summary per answered area, in the answer's order. O(readings)."""
    return [_of_result(result) for result in answer.results]


def channels_of(areas: Iterable[AreaSummary]) -> list[str]:
    """The channels that some area has, each once, in the order in which they appear."""
    return list(dict.fromkeys(channel for area in areas for channel in area.channels))


def _of_result(result: AreaResult) -> AreaSummary:
    if result.series is not None:
        return _of_series(result.area, result.series)
    if result.aggregate is not None:
        return _of_aggregate(result.area, result.aggregate)
    return AreaSummary(result.area, 0, 0, 0, {})


def _of_series(area: str, series: Series) -> AreaSummary:
    times = series.time_ms.numbers()
    if not times:
        return AreaSummary(area, 0, 0, 0, {})
    channels = {}
    for name, column in series.values.items():
        # NaN is a reading that is missing; it is the only number unlike itself.
        values = [value for value in column.numbers() if value == value]
        channels[name] = (
            ChannelSummary(min(values), math.fsum(values) / len(values), max(values), values[-1])
            if values
            else ChannelSummary(math.nan, math.nan, math.nan)
        )
    source = series.source_time_ms.numbers() if series.source_time_ms else None
    return AreaSummary(
        area,
        len(times),
        times[0],
        times[-1],
        channels,
        (source[0], source[-1]) if source else None,
    )


def _of_aggregate(area: str, aggregate: Aggregate) -> AreaSummary:
    return AreaSummary(
        area,
        max((c.count for c in aggregate.channels.values()), default=0),
        aggregate.first_ms,
        aggregate.last_ms,
        {
            name: ChannelSummary(c.min, c.mean, c.max)
            if c.count
            else ChannelSummary(math.nan, math.nan, math.nan)
            for name, c in aggregate.channels.items()
        },
    )
