"""Plausibility of what an edge node says: the areas that it speaks for, its events, its results.

A node that is mistaken or hostile harms its own areas only. What is refused here is refused in
words; the rest of the message is served. Nothing is compared with a clock: a node's clock may be
unset, and so may the master's. Times only have to be those that some clock can show.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from agent.scheduling.events import Peer, SendToNode, TellOperator
from agent.wire.areas import AreaSet
from agent.wire.buckets import Buckets
from agent.wire.messages import Aggregate, Series
from agent.wire.node_messages import EventsTaken, NodeEvent, NodeEvents, SubtaskResult

# An unset clock shows 1970 or the time of an image. Real-time clocks of a Pi end in 2199, and times
# in nanoseconds, as the lake's tools have them, in 2262.
EARLIEST_MS: Final = -2_208_988_800_000  # 1900
LATEST_MS: Final = 7_258_118_400_000  # 2200
# A node divides a rounded sum: the mean of equal values may differ from them in the last digits.
ROUNDING: Final = 1e-9
# A history may have channels of former configurations beside the 64 that a node announces.
MAX_CHANNELS_OF_RESULT: Final = 1_024
TIME_BYTES: Final = 8
MAX_SHOWN: Final = 200  # characters of an area
# Minimum time between two operator lines about the same name.
QUIET_S: Final = 3_600.0


def why_not_theirs(node: str, areas: Iterable[str], allowed: Collection[str] | None) -> str:
    """Why a node may not speak for all these areas; empty: it may. `allowed` as in `Sender`.
    O(areas + allowed)."""
    return "" if allowed is None else _why_not_in(AreaSet(allowed), node, areas)


def _why_not_in(own: AreaSet, node: str, areas: Iterable[str]) -> str:
    outside = [area for area in areas if not own.covers(area)]
    if not outside:
        return ""
    first = outside[0] if len(outside[0]) <= MAX_SHOWN else f"{outside[0][:MAX_SHOWN]}…"
    more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
    return (
        f"the allow-list does not give {first}{more} to node {node}: correct its areas there, "
        "or at the node"
    )


def unacceptable(
    node: str, events: Sequence[NodeEvent], allowed: Collection[str] | None
) -> dict[int, str]:
    """The sequences of the events that are refused, each with the reason. O(events + allowed)."""
    own = None if allowed is None else AreaSet(allowed)
    refused = {}
    for event in events:
        if not _has_been(event.time_ms):
            refused[event.sequence] = _no_time(event.time_ms)
        elif own is not None and (why_not := _why_not_in(own, node, event.areas)):
            refused[event.sequence] = why_not
    return refused


class EventClaims:
    """Takes out of the nodes' events those that their node cannot mean. They are acknowledged and
    dropped: it would send them again for ever. The operator is told once in a while."""

    def __init__(self) -> None:
        # Events that were taken out.
        self.implausible = 0
        # By node: until then the operator is not told again.
        self._quiet_until_s: dict[str, float] = {}

    def sift(
        self,
        peer: Peer,
        node: str,
        message: NodeEvents,
        allowed: Collection[str] | None,
        now: float,
    ) -> tuple[NodeEvents, list[SendToNode | TellOperator]]:
        """The message with the other events, and what is to be done about those taken out.
        `allowed` as in `Sender`. O(events)."""
        refused = unacceptable(node, message.events, allowed)
        if not refused:
            return message, []
        self.implausible += len(refused)
        taken = EventsTaken(message.incarnation, message.history, tuple(refused))
        instructions: list[SendToNode | TellOperator] = [SendToNode(peer, taken)]
        if now >= self._quiet_until_s.get(node, -math.inf):
            self._quiet_until_s[node] = now + QUIET_S
            reason = next(iter(refused.values()))
            instructions.append(TellOperator(f"an event of node {node} was refused: {reason}"))
        kept = [each for each in message.events if each.sequence not in refused]
        return replace(message, events=tuple(kept)), instructions


def implausible(result: SubtaskResult) -> str:
    """Why the content of a result cannot be true; empty: it may be. O(channels)."""
    if result.aggregate is not None and (problem := _of_aggregate(result.aggregate)):
        return problem
    if result.buckets is not None and (problem := _of_buckets(result.buckets)):
        return problem
    return "" if result.series is None else _of_series(result.series)


def _of_buckets(buckets: Buckets) -> str:
    if len(buckets.channels) > MAX_CHANNELS_OF_RESULT:
        return f"it has {len(buckets.channels)} channels"
    return "" if _has_been(buckets.start_ms) else _no_time(buckets.start_ms)


def _of_aggregate(aggregate: Aggregate) -> str:
    first_ms, last_ms = aggregate.first_ms, aggregate.last_ms
    if not EARLIEST_MS <= first_ms <= last_ms < LATEST_MS:
        for time_ms in (first_ms, last_ms):
            if not _has_been(time_ms):
                return _no_time(time_ms)
        return "its last reading is before its first"
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
    if len(series.values) > MAX_CHANNELS_OF_RESULT:
        return f"it has {len(series.values)} channels"
    packed = series.time_ms.data
    for encoded in (packed[:TIME_BYTES], packed[-TIME_BYTES:]):
        time_ms = int.from_bytes(encoded, "little", signed=True)
        if not _has_been(time_ms):
            return _no_time(time_ms)
    return ""


def _has_been(time_ms: int) -> bool:
    return EARLIEST_MS <= time_ms < LATEST_MS


def _no_time(time_ms: int) -> str:
    return f"{time_ms} ms since 1970 is before 1900 or after 2199"
