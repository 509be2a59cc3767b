"""The channels that a result has, and those of them that were asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from msgspec.structs import replace

from agent.wire.messages import AreaResult
from agent.wire.node_messages import SubtaskResult

R = TypeVar("R", SubtaskResult, AreaResult)
C = TypeVar("C")


def channels_of(result: SubtaskResult | AreaResult) -> Collection[str]:
    """Those that it has values of; none in form `about`."""
    if result.series is not None:
        return result.series.values.keys()
    if result.aggregate is not None:
        return result.aggregate.channels.keys()
    return () if result.buckets is None else result.buckets.channels.keys()


def only(channels: Collection[str], result: R) -> R:
    """The result without other channels than these; none named: all of it. O(channels)."""
    if not channels:
        return result
    series, aggregate, buckets = result.series, result.aggregate, result.buckets
    if series is not None and _has_others(channels, series.values):
        values, quality = _of(channels, series.values), _of(channels, series.quality)
        result = replace(result, series=replace(series, values=values, quality=quality))
    if aggregate is not None and _has_others(channels, aggregate.channels):
        there = _of(channels, aggregate.channels)
        result = replace(result, aggregate=replace(aggregate, channels=there))
    if buckets is not None and _has_others(channels, buckets.channels):
        of_these = _of(channels, buckets.channels)
        result = replace(result, buckets=replace(buckets, channels=of_these))
    return result


def _has_others(channels: Collection[str], there: Mapping[str, C]) -> bool:
    return bool(there.keys() - channels)


def _of(channels: Collection[str], there: Mapping[str, C]) -> dict[str, C]:
    return {name: there[name] for name in channels if name in there}
