"""Trigger expressions: the syntax tree, and its evaluation on an area's result."""

from __future__ import annotations

import math
from array import array
from typing import Final, Literal

from msgspec import Struct

from agent.wire.messages import AreaResult, ChannelAggregate, Series

Operator = Literal[">", ">=", "<", "<="]
# Functions of a channel's values over the window. `any` is the maximum or the minimum, depending on
# the operator.
Function = Literal["any", "min", "max", "mean", "last", "rate"]

NAN: Final = math.nan


class Comparison(Struct, frozen=True):
    """`function` of `channel` compared with `threshold`; a rate's threshold is per second."""

    function: Function
    channel: str
    operator: Operator
    threshold: float

    @property
    def channels(self) -> tuple[str, ...]:
        """The channel that it uses."""
        return (self.channel,)

    @property
    def needs_series(self) -> bool:
        """Whether aggregates are not enough: they give neither the last reading nor a rate."""
        return self.function in ("last", "rate")

    def holds(self, result: AreaResult) -> bool:
        """Whether it holds; false for a channel without a measured value. O(readings)."""
        value = self._value(result)
        match self.operator:
            case ">":
                return value > self._bound
            case ">=":
                return value >= self._bound
            case "<":
                return value < self._bound
            case "<=":
                return value <= self._bound

    @property
    def _bound(self) -> float:
        # A reading of 23.46 is the nearest 32-bit float, and 23.46 >= 23.46 must hold.
        computed = self.function in ("mean", "rate")
        return self.threshold if computed else float(array("f", [self.threshold])[0])

    def _value(self, result: AreaResult) -> float:
        function = self.function
        if function == "any":
            function = "max" if self.operator[0] == ">" else "min"
        if result.series is not None:
            return _of_series(function, self.channel, result.series)
        if result.aggregate is not None and self.channel in result.aggregate.channels:
            return _of_aggregate(function, result.aggregate.channels[self.channel])
        return NAN


class _Parts(Struct, frozen=True):
    parts: tuple[Expression, ...]

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it looks at, each once."""
        return tuple(dict.fromkeys(channel for part in self.parts for channel in part.channels))

    @property
    def needs_series(self) -> bool:
        """Whether aggregates are not enough."""
        return any(part.needs_series for part in self.parts)


class Both(_Parts, frozen=True):
    """All `parts` hold."""

    def holds(self, result: AreaResult) -> bool:
        """Whether it holds."""
        return all(part.holds(result) for part in self.parts)


class Either(_Parts, frozen=True):
    """At least one of `parts` holds."""

    def holds(self, result: AreaResult) -> bool:
        """Whether it holds."""
        return any(part.holds(result) for part in self.parts)


Expression = Comparison | Both | Either


def _of_series(function: Function, channel: str, series: Series) -> float:
    if channel not in series.values:
        return NAN
    count, first, last, low, high, total, _ = series.summary(channel)
    if not count:
        return NAN
    if function == "rate":
        times, values = series.time_ms.numbers(), series.values[channel].numbers()
        elapsed_s = (times[last] - times[first]) / 1e3
        return float(values[last] - values[first]) / elapsed_s if elapsed_s else NAN
    if function == "last":
        return float(series.values[channel].numbers()[last])
    if function == "mean":
        return total / count
    return low if function == "min" else high


def _of_aggregate(function: Function, channel: ChannelAggregate) -> float:
    if channel.extent is None:
        return NAN
    low, mean, high = channel.extent
    return {"min": low, "mean": mean, "max": high}.get(function, NAN)
