"""Per-area summary statistics of an answer; pure."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from itertools import compress, zip_longest
from operator import sub
from statistics import median_low
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.messages import Aggregate, Answer, AreaResult, ChannelAggregate, Series
from agent.wire.quality import counts, names

# A pause is at least this share of the window, and this many times as long as the usual step from
# one reading to the next; fewer readings show no usual step.
LEAST_SHARE: Final = 0.1
OUT_OF_STEP: Final = 10.0
LEAST_READINGS: Final = 10


class ChannelSummary(Struct, frozen=True):
    """One channel of one area: statistics of its values that are not bad (NaN if there are none),
    and the numbers of bad and suspect values. Only a series gives more: the `last` value, the
    number of values with each of the `flags`, the flags of the latest value, the maximum age, and
    the recording dates of the oldest and the newest replayed value.

    `n` counts the channel's values, good or not; other readings of the area belong to other
    sensors.
    """

    n: int
    min: float = math.nan
    mean: float = math.nan
    max: float = math.nan
    last: float = math.nan
    bad: int = 0
    suspect: int = 0
    flags: dict[str, int] = {}
    last_flags: tuple[str, ...] = ()
    age_ms: int = 0
    source_ms: tuple[int, int] | None = None


class AreaSummary(Struct, frozen=True):
    """Readings of one area: their number, the first and last time (milliseconds since 1970 UTC),
    and the maximum age."""

    area: str
    n: int
    first_ms: int
    last_ms: int
    channels: dict[str, ChannelSummary]
    age_ms: int = 0
    name: str | None = None

    @property
    def label(self) -> str:
        """Its path, and what people call it."""
        return labelled(self.area, self.name)


def names_in(answer: Answer) -> dict[str, str]:
    """What people call the rooms of an answer, by area."""
    found = {each.area: each.name for each in answer.results}
    found |= {gap.area: gap.name for gap in answer.missing}
    return {area: name for area, name in found.items() if name}


def labelled(area: str, name: str | None) -> str:
    """``b1/f4/r413 Meeting 4.13``."""
    return f"{area} {name}" if name else area


def summarize(answer: Answer) -> list[AreaSummary]:
    """One summary per area that answered, in the answer's order. O(readings)."""
    return [
        replace(_of_result(result), name=result.name)
        for result in answer.results
        if result.stale_ms is None and result.buckets is None
    ]


class LastKnown(Struct, frozen=True):
    """A channel's last known value, and between which ages it is, in ms: an aggregate does not say
    which of its channels is the oldest."""

    channel: str
    value: float
    youngest_ms: int
    oldest_ms: int


def last_known(result: AreaResult) -> list[LastKnown]:
    """The values that a clone knows of an area without a live answer; none of one with."""
    stale_ms = result.stale_ms
    if stale_ms is None:
        return []
    if (series := result.series) is not None:
        times = series.time_ms.numbers()
        found = {name: series.summary(name) for name in series.values}
        ages = {name: stale_ms + times[-1] - times[f.last] for name, f in found.items() if f.n}
        return [
            LastKnown(name, series.measured(name)[found[name].last], age_ms, age_ms)
            for name, age_ms in ages.items()
        ]
    if (aggregate := result.aggregate) is None:
        return []
    oldest_ms = stale_ms + aggregate.last_ms - aggregate.first_ms
    return [
        LastKnown(name, channel.mean, stale_ms, oldest_ms)
        for name, channel in aggregate.channels.items()
        if channel.mean is not None
    ]


def not_given(answer: Answer, channels: Iterable[str]) -> list[str]:
    """The channels that no answered area has; none if no area answered."""
    if not answer.results:
        return []
    given: set[str] = set()
    for result in answer.results:
        given.update(result.series.values if result.series else ())
        given.update(result.aggregate.channels if result.aggregate else ())
        given.update(result.buckets.channels if result.buckets else ())
    return [channel for channel in channels if channel not in given]


def held_of(answer: Answer) -> tuple[str, float, int] | None:
    """The label of the area whose readings cover least of the window, the seconds covered (of
    buckets at most), and the number of areas with clearly incomplete coverage; None if all are
    covered."""
    held_from_ms = {each.area: each.held_from_ms for each in answer.results}
    spans = [
        ((area.last_ms - from_ms) / 1e3, area.label)
        for area in summarize(answer)
        if (from_ms := held_from_ms[area.area]) is not None
    ]
    spans += [
        ((filled[1] - each.held_from_ms) / 1e3, labelled(each.area, each.name))
        for each in answer.results
        if each.buckets is not None
        and each.held_from_ms is not None
        and (filled := each.buckets.filled_ms) is not None
    ]
    if not spans:
        return None
    covered_s, area = min(spans)
    return area, covered_s, len(spans)


def longest_pause(answer: Answer, asked_s: float) -> tuple[str, float, int] | None:
    """The label of the area whose readings pause longest within a window of `asked_s` seconds, the
    seconds without one, and the number of areas with a clear pause; None if there is none. Only a
    series tells. O(readings)."""
    pauses = [
        (pause_s, labelled(result.area, result.name))
        for result in answer.results
        if result.series is not None
        and (pause_s := _pause_s(result.series, LEAST_SHARE * asked_s)) > 0.0
    ]
    if not pauses:
        return None
    pause_s, area = max(pauses)
    return area, pause_s, len(pauses)


def _pause_s(series: Series, least_s: float) -> float:
    """The longest time without a reading if it is clearly out of step with the others, else 0."""
    times = series.time_ms.numbers()
    if len(times) < LEAST_READINGS:
        return 0.0
    steps: list[int] = list(map(sub, times[1:], times))
    longest_ms = max(steps)
    if longest_ms <= least_s * 1e3 or longest_ms <= OUT_OF_STEP * median_low(steps):
        return 0.0
    return longest_ms / 1e3


def channels_of(areas: Iterable[AreaSummary]) -> list[str]:
    """The channels that any area has, each once, in order of appearance."""
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
    channels = {name: _of_column(name, series) for name in series.values}
    oldest_ms = max(series.age_ms.numbers()) if series.age_ms else 0
    return AreaSummary(area, len(times), times[0], times[-1], channels, oldest_ms)


def _of_column(name: str, series: Series) -> ChannelSummary:
    values = series.measured(name)
    flags = series.quality[name].data if name in series.quality else b""
    bad, suspect = counts(flags)
    found = series.summary(name)
    latest = len(flags.rstrip(b"\0")) - 1
    is_last = latest >= 0 and (not found.n or found.last <= latest)
    summary = ChannelSummary(
        found.n + bad,
        bad=bad,
        suspect=suspect,
        flags=Counter(word for byte in flags if byte for word in names(byte)),
        last_flags=names(flags[latest]) if is_last else (),
        age_ms=_oldest_ms(series, values, flags),
        source_ms=_source_ms(series, values, flags),
    )
    if not found.n:
        return summary
    mean, last = found.total / found.n, values[found.last]
    return replace(summary, min=found.low, mean=mean, max=found.high, last=last)


def _oldest_ms(series: Series, values: array[float], flags: bytes) -> int:
    if series.age_ms is None:
        return 0
    return max(compress(series.age_ms.numbers(), _own(values, flags)), default=0)


def _source_ms(series: Series, values: array[float], flags: bytes) -> tuple[int, int] | None:
    """The recording dates of the oldest and the newest replayed value; the dates of other values
    equal their times."""
    if series.source_time_ms is None:
        return None
    pairs = zip(series.time_ms.numbers(), series.source_time_ms.numbers(), strict=True)
    own = compress(pairs, _own(values, flags))
    replayed = [source_ms for time_ms, source_ms in own if source_ms != time_ms]
    return (min(replayed), max(replayed)) if replayed else None


def _own(values: array[float], flags: bytes) -> Iterable[bool]:
    """The readings that have a value of the channel, good or not."""
    return (value == value or flag > 0 for value, flag in zip_longest(values, flags, fillvalue=0))


def _of_aggregate(area: str, aggregate: Aggregate) -> AreaSummary:
    return AreaSummary(
        area,
        max((c.count + c.bad for c in aggregate.channels.values()), default=0),
        aggregate.first_ms,
        aggregate.last_ms,
        {name: _of_channel(channel) for name, channel in aggregate.channels.items()},
    )


def _of_channel(channel: ChannelAggregate) -> ChannelSummary:
    low, mean, high = channel.extent or (math.nan, math.nan, math.nan)
    return ChannelSummary(
        channel.count + channel.bad,
        low,
        mean,
        high,
        math.nan if channel.last is None else channel.last,
        bad=channel.bad,
        suspect=channel.suspect,
    )
