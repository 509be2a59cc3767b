"""The part of a window that nodes hold: a node keeps some days, or has just started."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from agent.wire.messages import AreaResult

# Tolerance: rarely read sensors, and nodes that have just started, cover a little less than the
# window.
SLACK_S: Final = 60.0
SLACK_SHARE: Final = 0.1
# Of short windows no more than this share. Readings at any interval cover a third, or are a single
# one, of which the interval is not known.
MAX_SHARE: Final = 0.75
# A node that was late for a moment has two readings close together in a window of seconds.
LEAST_S: Final = 2.0
MAX_MS: Final = 1 << 53


def with_held(results: Iterable[AreaResult], asked_s: float) -> tuple[AreaResult, ...]:
    """The results, with `held_from_ms` where the readings cover clearly less than the `asked_s`
    seconds of the window. O(results)."""
    return tuple(
        [
            replace(each, held_from_ms=ends[0])
            if (ends := ends_ms(each)) and is_less(ends, asked_s)
            else each
            for each in results
        ]
    )


def is_less(ends: tuple[int, int], asked_s: float) -> bool:
    """Whether readings between these times cover clearly less than `asked_s` seconds."""
    slack_s = max(LEAST_S, min(SLACK_S, MAX_SHARE * asked_s), SLACK_SHARE * asked_s)
    first_ms, last_ms = ends
    is_one = first_ms == last_ms
    return last_ms - first_ms < 1e3 * (asked_s - slack_s) and not (is_one and asked_s <= SLACK_S)


def ends_ms(result: AreaResult) -> tuple[int, int] | None:
    """The times of the first and the last reading, of buckets the outer bounds of those that have
    readings; None if there is none."""
    if result.aggregate is not None:
        return result.aggregate.first_ms, result.aggregate.last_ms
    if result.buckets is not None:
        ends = result.buckets.filled_ms
    else:
        ends = result.series.time_ms.ends if result.series and result.series.time_ms else None
    if ends is None:
        return None
    # What no message may say: a node may claim any time.
    return ends if min(ends) > -MAX_MS and max(ends) < MAX_MS else None
