"""Aggregation of results by area, the same at both levels: subtasks of a task, tasks of a query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Final, TypeVar

from _core.columns.series import Merge
from agent.scheduling.buckets import merge_buckets
from agent.wire.about import About
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
    by_area: dict[str, list[AreaResult]] = {}
    for result in results:
        by_area.setdefault(result.area, []).append(result)
    return tuple([_merge(by_area[area]) for area in sorted(by_area)])


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
    if first.unknown:
        return second
    if first.longest_s is not None and second.longest_s is not None:
        return min(first, second, key=lambda gap: gap.longest_s or 0.0)
    if first.reason != "no_channel" or second.reason == "no_node":
        return first
    if second.reason != "no_channel":
        return second
    there = sorted({*first.channels, *second.channels})
    name = first.name or second.name
    return Missing(first.area, "no_channel", tuple(there[:MAX_CHANNELS]), name=name)


def unaccounted(expected: Sequence[str], known: Iterable[str]) -> list[str]:
    """The expected areas that are neither above, below nor among the known ones.

    O(1) per area that is known itself, else O(depth); a single expected area usually matches the
    first known one.
    """
    if len(expected) == 1:
        [area] = expected
        return [] if any(overlaps(area, k) for k in known) else [area]
    exactly = dict.fromkeys(known)
    left = [area for area in expected if area not in exactly]
    if not left:
        return []
    there = AreaSet(exactly)
    return [area for area in left if not there.overlaps(area)]


def _merge(results: list[AreaResult]) -> AreaResult:
    if len(results) == 1:
        return results[0]
    series = [each.series for each in results if each.series is not None]
    aggregates = [each.aggregate for each in results if each.aggregate is not None]
    buckets = [each.buckets for each in results if each.buckets is not None]
    abouts = [each.about for each in results if each.about is not None]
    return AreaResult(
        results[0].area,
        series=merge_series(*series) if series else None,
        aggregate=reduce(merge_aggregates, aggregates) if aggregates else None,
        buckets=merge_buckets(buckets) if buckets else None,
        about=reduce(merge_abouts, abouts) if abouts else None,
        name=next((each.name for each in results if each.name is not None), None),
    )


def merge_series(*parts: Series) -> Series:
    """Readings of all in time order (the first part's first where equal); a channel that one lacks
    is missing there, and without a flag, because that sensor was not asked. O(n), in compiled
    code, or O(n log n) if they go back in time."""
    merge = Merge([part.time_ms.data for part in parts])

    def merged(kind: type[C], columns: Iterable[PackedColumn | None], default: bytes) -> C:
        return kind(merge.column([None if c is None else c.data for c in columns], default))

    return Series(
        Int64Column(merge.times),
        {
            channel: merged(Float32Column, [part.values.get(channel) for part in parts], MISSING)
            for channel in dict.fromkeys([name for part in parts for name in part.values])
        },
        # A reading without a recording date was recorded when it was taken.
        merged(Int64Column, [part.source_time_ms or part.time_ms for part in parts], bytes(8))
        if any(part.source_time_ms for part in parts)
        else None,
        {
            channel: merged(UInt8Column, [part.quality.get(channel) for part in parts], bytes(1))
            for channel in dict.fromkeys([name for part in parts for name in part.quality])
        },
        merged(UInt32Column, [part.age_ms for part in parts], bytes(4))
        if any(part.age_ms for part in parts)
        else None,
    )


def merge_abouts(a: About, b: About) -> About:
    """Merge both results for an area."""
    channels = {each.name: each for each in a.channels}
    for each in b.channels:
        if each.name not in channels or not channels[each.name].unit:
            channels[each.name] = each
    raised = {(each.trigger, each.since_ms): each for each in (*b.raised, *a.raised)}
    heard = [each.heard_ms_ago for each in (a, b) if each.heard_ms_ago is not None]
    return About(
        tuple(channels.values()),
        tuple([raised[key] for key in sorted(raised)]),
        min(heard, default=None),
        a.down and b.down,
    )


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
    # Where a sender of an earlier version does not tell its newest value, it may be the newest.
    known = [(c.last_ms, c.last) for c in (a, b) if c.last_ms is not None and c.last is not None]
    told = len(known) == (a.count > 0) + (b.count > 0)
    last_ms, last = max(known) if known and told else (None, None)
    if count > MAX_COUNTED or bad > MAX_COUNTED or suspect > MAX_COUNTED:
        count, bad, suspect = (min(n, MAX_COUNTED) for n in (count, bad, suspect))
    return ChannelAggregate(count, low, mean, high, bad, suspect, last, last_ms)
