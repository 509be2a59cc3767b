"""Plausibility of results: what no sensor, clock or arithmetic makes is no result.

One that is mistaken or hostile, a node or another IAD, harms its own areas only: a time that no
message may say would make the whole answer unreadable. Nothing is compared with a clock: a node's
clock may be unset, and so may the master's. Times only have to be those that some clock can show.
"""

from __future__ import annotations

import math
from typing import Final

from agent.wire.about import About
from agent.wire.buckets import Buckets
from agent.wire.messages import Aggregate, AreaResult, Series
from agent.wire.node_messages import SubtaskResult

# An unset clock shows 1970 or the time of an image. Real-time clocks of a Pi end in 2199, and times
# in nanoseconds, as the lake's tools have them, in 2262.
EARLIEST_MS: Final = -2_208_988_800_000  # 1900
LATEST_MS: Final = 7_258_118_400_000  # 2200
# A node divides a rounded sum: the mean of equal values may differ from them in the last digits.
ROUNDING: Final = 1e-9
# A history may have channels of former configurations beside the 64 that a node announces.
MAX_CHANNELS_OF_RESULT: Final = 1_024
MAX_RAISED: Final = 64  # of an area
NOTHING: Final = "it has no channel"


def implausible(result: SubtaskResult | AreaResult) -> str:
    """Why the content of a result cannot be true; empty: it may be. O(channels), and for a series
    O(readings), in compiled code."""
    if result.aggregate is not None and (problem := _of_aggregate(result.aggregate)):
        return problem
    if result.buckets is not None and (problem := _of_buckets(result.buckets)):
        return problem
    if isinstance(result, AreaResult) and result.about is not None:
        return _of_about(result.about)
    return "" if result.series is None else _of_series(result.series)


def _of_about(about: About) -> str:
    if len(about.channels) > MAX_CHANNELS_OF_RESULT:
        return f"it has {len(about.channels)} channels"
    if len(about.raised) > MAX_RAISED:
        return f"it has {len(about.raised)} triggers raised"
    return ""


def _of_buckets(buckets: Buckets) -> str:
    if not buckets.channels:
        return NOTHING
    if len(buckets.channels) > MAX_CHANNELS_OF_RESULT:
        return f"it has {len(buckets.channels)} channels"
    return "" if has_been(buckets.start_ms) else no_time(buckets.start_ms)


def _of_aggregate(aggregate: Aggregate) -> str:
    first_ms, last_ms = aggregate.first_ms, aggregate.last_ms
    if not EARLIEST_MS <= first_ms <= last_ms < LATEST_MS:
        for time_ms in (first_ms, last_ms):
            if not has_been(time_ms):
                return no_time(time_ms)
        return "its last reading is before its first"
    if not aggregate.channels:
        return NOTHING
    if len(aggregate.channels) > MAX_CHANNELS_OF_RESULT:
        return f"it has {len(aggregate.channels)} channels"
    for name, channel in aggregate.channels.items():
        low, mean, high = channel.min, channel.mean, channel.max
        if low is None or mean is None or high is None:
            continue  # all its readings are bad, so that it has no last value either
        if not _is_between(low, mean, high):
            return f"the mean of {name} is not between its minimum and maximum"
        if channel.last_ms is not None:
            if not first_ms <= channel.last_ms <= last_ms:
                return f"the last value of {name} is not of the window's readings"
            if channel.last is None or not _is_between(low, channel.last, high):
                return f"the last value of {name} is not between its minimum and maximum"
    return ""


def _is_between(low: float, value: float, high: float) -> bool:
    """Whether all are finite and in order, up to rounding."""
    # True of nearly every result, so it is looked at first; no NaN nor infinity passes.
    if low <= value <= high and high - low < math.inf:
        return True
    if not (low <= high and all(map(math.isfinite, (low, value, high)))):
        return False
    tolerance = ROUNDING * max(abs(low), abs(high))
    return low - tolerance <= value <= high + tolerance


def _of_series(series: Series) -> str:
    if not len(series.time_ms):
        return "it has no readings"
    if not series.values:
        return NOTHING
    if len(series.values) > MAX_CHANNELS_OF_RESULT:
        return f"it has {len(series.values)} channels"
    # All of them, in any order: whoever merges series sorts them by time.
    for times in (series.time_ms, series.source_time_ms):
        for time_ms in () if times is None else times.bounds:
            if not has_been(time_ms):
                return no_time(time_ms)
    return ""


def has_been(time_ms: int) -> bool:
    """Whether some clock can show this time."""
    return EARLIEST_MS <= time_ms < LATEST_MS


def no_time(time_ms: int) -> str:
    """Why a time is none, in words."""
    return f"{time_ms} ms since 1970 is before 1900 or after 2199"
