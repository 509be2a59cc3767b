"""Buckets at a master: merged from several nodes, and made of series from nodes that make none."""

from __future__ import annotations

from collections.abc import Sequence

from _core.columns.buckets import BucketSums
from agent.wire.buckets import MAX_CELLS, Buckets, Grid, grid_of, of_sums
from agent.wire.messages import Series, Window
from agent.wire.quality import BAD


def merge_buckets(parts: Sequence[Buckets]) -> Buckets:
    """The buckets of all readings, in the range of all parts; at most the newest `MAX_CELLS`. A
    part whose buckets are other ones than those of the first is left out. O(buckets), in compiled
    code."""
    length_ms, origin_ms = parts[0].length_ms, parts[0].start_ms
    parts = [
        part
        for part in parts
        if part.length_ms == length_ms and not (part.start_ms - origin_ms) % length_ms
    ]
    end_ms = max(part.start_ms + len(part) * length_ms for part in parts)
    start_ms = max(min(part.start_ms for part in parts), end_ms - MAX_CELLS * length_ms)
    grid = Grid(start_ms, length_ms, max(1, (end_ms - start_ms) // length_ms))
    sums: dict[str, BucketSums] = {}
    for part in parts:
        for name, channel in part.channels.items():
            if name not in sums:
                sums[name] = BucketSums(*grid)
            sums[name].add_buckets(
                part.start_ms,
                channel.count.native,
                channel.min.native,
                channel.mean.native,
                channel.max.native,
                None if channel.bad is None else channel.bad.native,
                None if channel.suspect is None else channel.suspect.native,
            )
    return of_sums(sums, grid)


def buckets_of(series: Series, window: Window, length_ms: int) -> Buckets:
    """The buckets of a node's series. A missing value without a flag was not asked for: its reading
    is another sensor's. ValueError if its times are not in the window, or too far apart.
    O(readings), in compiled code."""
    first_ms, last_ms = series.time_ms.bounds  # a node may send times in any order
    if window.start_ms is not None and window.end_ms is not None:
        grid = grid_of(window.start_ms, window.end_ms, length_ms, relative=False)
        if grid.place(first_ms) < 0 or grid.place(last_ms) >= grid.number:
            raise ValueError("readings outside the window")
    else:
        grid = grid_of(first_ms, last_ms + 1, length_ms, relative=True)
    sums = {}
    for name, values in series.values.items():
        flags = series.quality.get(name)
        sums[name] = BucketSums(*grid)
        sums[name].add(
            series.time_ms.data,
            values.native,
            None if flags is None else flags.data,
            BAD,
            gaps_are_bad=False,
        )
    return of_sums(sums, grid)


def checked(buckets: Buckets, window: Window, length_ms: int) -> Buckets:
    """The buckets, if a node may have made these of that window; otherwise ValueError."""
    origin_ms = window.start_ms or 0
    are_its = buckets.length_ms == length_ms and not (buckets.start_ms - origin_ms) % length_ms
    if are_its and window.start_ms is not None and window.end_ms is not None:
        grid = grid_of(window.start_ms, window.end_ms, length_ms, relative=False)
        first = grid.place(buckets.start_ms)
        are_its = 0 <= first <= first + len(buckets) <= grid.number
    if not are_its:
        raise ValueError("its buckets are not those of the window")
    return buckets
