"""Aggregation of results by area, the same at both levels: subtasks of a task, tasks of a query."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from _core.columns.series import in_order, merged_order
from agent.wire.areas import AreaSet, overlaps, with_parents
from agent.wire.base import MAX_CHANNELS, MAX_COUNTED
from agent.wire.messages import Aggregate, AreaResult, ChannelAggregate, Missing, Series
from agent.wire.packed import (
    Float32Column,
    Int64Column,
    PackedColumn,
    UInt8Column,
    UInt32Column,
)

# The value of a missing reading.
MISSING: Final = Float32Column.of([math.nan]).data

C = TypeVar("C", bound=PackedColumn)


def merge_results(results: Iterable[AreaResult]) -> tuple[AreaResult, ...]:
    """One result per area, sorted by area. If several sources cover an area, their series are
    interleaved by time and their aggregates combined, so their number is not visible."""
    by_area: dict[str, AreaResult] = {}
    for result in results:
        known = by_area.get(result.area)
        by_area[result.area] = result if known is None else _merge(known, result)
    return tuple(by_area[area] for area in sorted(by_area))


def merge_missing(
    missing: Sequence[Missing], answered: Iterable[AreaResult]
) -> tuple[Missing, ...]:
    """The unanswered areas, each once, with the first reason given, sorted by area.

    A reason that an IAD has no node for an area yields to one of an IAD that knows areas below it;
    likewise a missing channel.
    """
    gaps = {gap.area: gap for gap in missing}
    if not gaps:
        return ()
    if len(gaps) < len(missing):
        gaps = {}
        for gap in missing:
            before = gaps.get(gap.area)
            gaps[gap.area] = gap if before is None else _of_both(before, gap)
    areas = {result.area for result in answered}
    nowhere = {area for area, gap in gaps.items() if gap.reason == "no_node"}
    if nowhere:
        known = areas.union(gaps.keys() - nowhere)
        nowhere.intersection_update(parent for area in known for parent in with_parents(area))
    left_out = areas | nowhere
    return tuple([gaps[area] for area in sorted(gaps) if area not in left_out])


def _of_both(first: Missing, second: Missing) -> Missing:
    if first.longest_s is not None and second.longest_s is not None:
        return min(first, second, key=lambda gap: gap.longest_s or 0.0)
    if first.reason != "no_channel" or second.reason == "no_node":
        return first
    if second.reason != "no_channel":
        return second
    there = sorted({*first.channels, *second.channels})
    return Missing(first.area, "no_channel", tuple(there[:MAX_CHANNELS]))


def unaccounted(expected: Sequence[str], known: Iterable[str]) -> list[str]:
    """The expected areas that are neither above, below nor among the known ones.

    O(depth) per area; a single expected area usually matches the first known one.
    """
    if len(expected) == 1:
        [area] = expected
        return [] if any(overlaps(area, k) for k in known) else [area]
    there = AreaSet(known)
    return [area for area in expected if not there.overlaps(area)]


def _merge(a: AreaResult, b: AreaResult) -> AreaResult:
    series = merge_series(a.series, b.series) if a.series and b.series else a.series or b.series
    aggregate = (
        merge_aggregates(a.aggregate, b.aggregate)
        if a.aggregate and b.aggregate
        else a.aggregate or b.aggregate
    )
    return AreaResult(a.area, series=series, aggregate=aggregate)


def merge_series(a: Series, b: Series) -> Series:
    """Readings of both in time order (a's first where equal); a channel that one lacks is missing
    there, and without a flag, because that sensor was not asked. O(n), in compiled code, or O(n log
    n) if one of them goes back in time."""
    order = _order(a.time_ms, b.time_ms)

    def merged(kind: type[C], column: Callable[[Series], bytes]) -> C:
        return kind(in_order(column(a) + column(b), kind.ITEM_BYTES, order))

    return Series(
        merged(Int64Column, lambda part: part.time_ms.data),
        {
            channel: merged(Float32Column, partial(_values, channel))
            for channel in dict.fromkeys([*a.values, *b.values])
        },
        merged(Int64Column, _sources) if a.source_time_ms or b.source_time_ms else None,
        {
            channel: merged(UInt8Column, partial(_flags, channel))
            for channel in dict.fromkeys([*a.quality, *b.quality])
        },
        merged(UInt32Column, _ages) if a.age_ms or b.age_ms else None,
    )


def _order(a: Int64Column, b: Int64Column) -> bytes:
    """The indices of both in order of time, 32 bits each."""
    order = merged_order(a.data, b.data) if sys.byteorder == "little" else None
    if order is None:
        times = a.numbers() + b.numbers()
        order = array("I", sorted(range(len(times)), key=times.__getitem__)).tobytes()
    return order


def _values(channel: str, series: Series) -> bytes:
    column = series.values.get(channel)
    return MISSING * len(series.time_ms) if column is None else column.data


def _sources(series: Series) -> bytes:
    # A reading without a recording date was recorded when it was taken.
    return (series.source_time_ms or series.time_ms).data


def _flags(channel: str, series: Series) -> bytes:
    column = series.quality.get(channel)
    return bytes(len(series.time_ms)) if column is None else column.data


def _ages(series: Series) -> bytes:
    return series.age_ms.data if series.age_ms else bytes(4 * len(series.time_ms))


def merge_aggregates(a: Aggregate, b: Aggregate) -> Aggregate:
    """The aggregate of both sets of readings."""
    channels = dict(a.channels)
    for name, right in b.channels.items():
        left = channels.get(name)
        channels[name] = right if left is None else _joined(left, right)
    return Aggregate(min(a.first_ms, b.first_ms), max(a.last_ms, b.last_ms), channels)


def _joined(a: ChannelAggregate, b: ChannelAggregate) -> ChannelAggregate:
    count = a.count + b.count
    left, right = a.extent, b.extent
    low, mean, high = left or right or (None, None, None)
    if left and right:
        low, high = min(left[0], right[0]), max(left[2], right[2])
        # The weighted sum may overflow a float.
        mean = left[1] + (right[1] - left[1]) * (b.count / count)
    bad, suspect = a.bad + b.bad, a.suspect + b.suspect
    if count > MAX_COUNTED or bad > MAX_COUNTED or suspect > MAX_COUNTED:
        count, bad, suspect = (min(n, MAX_COUNTED) for n in (count, bad, suspect))
    return ChannelAggregate(count, low, mean, high, bad, suspect)
