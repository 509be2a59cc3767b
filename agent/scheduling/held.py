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
MAX_MS: Final = 1 << 53


def with_held(results: Iterable[AreaResult], asked_s: float) -> tuple[AreaResult, ...]:
    """The results, with `held_from_ms` where the readings cover clearly less than the `asked_s`
    seconds of the window. O(results)."""
    slack_s = max(min(SLACK_S, MAX_SHARE * asked_s), SLACK_SHARE * asked_s)
    nearly_ms = 1e3 * (asked_s - slack_s)
    return tuple(
        [
            replace(each, held_from_ms=ends[0])
            if (ends := _ends_ms(each))
            and ends[1] - ends[0] < nearly_ms
            and (ends[0] != ends[1] or asked_s > SLACK_S)
            else each
            for each in results
        ]
    )


def _ends_ms(result: AreaResult) -> tuple[int, int] | None:
    """The times of the first and the last reading; None if there is none."""
    if result.aggregate is not None:
        return result.aggregate.first_ms, result.aggregate.last_ms
    if result.series is None or not result.series.time_ms:
        return None
    ends = result.series.time_ms.ends
    # What no message may say: a node may claim any time.
    return ends if min(ends) > -MAX_MS and max(ends) < MAX_MS else None
