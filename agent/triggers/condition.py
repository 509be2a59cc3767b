"""Trigger conditions on a sensor's latest readings, in three-valued logic: true, false, unknown.

The language is that of event-triggered queries (`agent.triggers.language`), with the node's
semantics: a channel alone, or ``last(…)`` of it, is its latest good value, and ``rate(…)`` its
change over a window. `and` is false if a part is false, `or` is true if a part is true; otherwise
the result is unknown if any part is unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Final

from agent.triggers.expression import Both, Comparison, Either, Expression
from agent.triggers.language import TriggerError, read_trigger
from agent.triggers.readings import Latest, Readings, Window

COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


class Value:
    """A channel's latest good value compared with a threshold."""

    __slots__ = ("_compare", "_latest", "_stale_s", "_threshold", "channel")

    def __init__(self, comparison: Comparison, readings: Readings) -> None:
        self.channel = comparison.channel
        self._compare = COMPARE[comparison.operator]
        self._threshold = comparison.threshold
        self._latest: Latest = readings.channels[comparison.channel]
        self._stale_s = readings.stale_s

    def holds(self, now: float) -> bool | None:
        """Whether it holds at `now`; None: the value is stale or missing."""
        if now - self._latest.at_s > self._stale_s:
            return None
        return self._compare(self._latest.value, self._threshold)

    def rate(self) -> float | None:
        """None: this comparison uses no rate."""
        return None


class Rate(Value):
    """A channel's rate over a window compared with a threshold, both per second."""

    __slots__ = ("_window",)

    def __init__(self, comparison: Comparison, readings: Readings, window_s: float) -> None:
        super().__init__(comparison, readings)
        self._window: Window = self._latest.window(window_s)

    def holds(self, now: float) -> bool | None:
        """Whether it holds at `now`; None also while there are too few readings for a rate."""
        rate = self._window.rate
        if rate != rate or now - self._latest.at_s > self._stale_s:
            return None
        return self._compare(rate, self._threshold)

    def rate(self) -> float | None:
        """The rate that was compared, per second."""
        return self._window.rate


class Joined:
    """Parts joined by `and`, decided by a `False`, or by `or`, decided by a `True`."""

    __slots__ = ("_deciding", "_hold", "_parts")

    def __init__(self, parts: tuple[Condition, ...], *, deciding: bool) -> None:
        self._parts = parts
        self._hold = tuple([part.holds for part in parts])
        self._deciding = deciding

    def holds(self, now: float) -> bool | None:
        """Whether the whole holds at `now`; None if unknown. O(comparisons)."""
        found: bool | None = not self._deciding
        for part_holds in self._hold:
            holds = part_holds(now)
            if holds is self._deciding:
                return holds
            if holds is None:
                found = None
        return found

    def comparisons(self) -> Iterator[Value]:
        """All comparisons, in the order written."""
        for part in self._parts:
            yield from comparisons(part)


Condition = Value | Joined


def comparisons(condition: Condition) -> Iterator[Value]:
    """The comparisons of a condition, in the order written."""
    if isinstance(condition, Joined):
        yield from condition.comparisons()
    else:
        yield condition


def read_condition(text: str) -> Expression:
    """Parse `text`; TriggerError in one line if it is not a valid condition for a node."""
    expression = read_trigger(text)
    for comparison in _comparisons(expression):
        if comparison.function in ("min", "max", "mean"):
            said = f"{comparison.function}({comparison.channel})"
            raise TriggerError(
                f"{said} is for queries; a node compares a channel, such as {comparison.channel}, "
                f"or its rate, such as rate({comparison.channel})"
            )
    return expression


def has_rate(expression: Expression) -> bool:
    """Whether the expression compares a rate."""
    return any(comparison.function == "rate" for comparison in _comparisons(expression))


def condition(expression: Expression, readings: Readings, window_s: float) -> Condition:
    """Bind `expression` to `readings`, which has its channels; rates are over `window_s`."""
    if isinstance(expression, Both | Either):
        parts = tuple([condition(part, readings, window_s) for part in expression.parts])
        return Joined(parts, deciding=isinstance(expression, Either))
    if expression.function == "rate":
        return Rate(expression, readings, window_s)
    return Value(expression, readings)


def _comparisons(expression: Expression) -> Iterator[Comparison]:
    if isinstance(expression, Comparison):
        yield expression
    else:
        for part in expression.parts:
            yield from _comparisons(part)
