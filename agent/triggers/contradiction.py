"""Valid triggers that hold nowhere, or where their author hardly expects it: a warning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from agent.triggers.expression import Both, Comparison, Either, Expression

# For each function those of the same readings that are never less: min ≤ mean ≤ max.
AT_MOST: Final = {
    "min": ("min", "mean", "last", "max"),
    "mean": ("mean", "max"),
    "last": ("last", "max"),
    "max": ("max",),
    "rate": ("rate",),
}


class _Conflict(Struct, frozen=True):
    """Two comparisons that no single reading fulfils, and whether no window does."""

    pair: tuple[Comparison, Comparison]
    never: bool


def doubt(trigger: Expression) -> str:
    """Why the trigger never holds, or only for readings that contradict each other, in words; empty
    if it may hold. O(comparisons²)."""
    found = _conflict(trigger, ())
    if found is None:
        return ""
    both = " and ".join([_written(each) for each in found.pair])
    if found.never:
        return f"{both} never hold together"
    return f"{both} hold together only where a round has a reading of each kind"


def _conflict(trigger: Expression, given: Sequence[Comparison]) -> _Conflict | None:
    """A conflict in each way to fulfil the trigger beside the comparisons `given`; one of a way
    that some window fulfils, if there is any."""
    if isinstance(trigger, Either):
        found = [_conflict(part, given) for part in trigger.parts]
        ways = [each for each in found if each is not None]
        return min(ways, key=lambda each: each.never) if len(ways) == len(found) else None
    own, either = _together(trigger)
    together = [*given, *own]
    pairs = ((together[i], each) for n, each in enumerate(own) for i in range(len(given) + n))
    conflicts = [_of_two(*pair) for pair in pairs] + [_conflict(each, together) for each in either]
    return max(filter(None, conflicts), key=lambda each: each.never, default=None)


def _together(trigger: Comparison | Both) -> tuple[list[Comparison], list[Either]]:
    """What has to hold together."""
    if isinstance(trigger, Comparison):
        return [trigger], []
    together: list[Comparison] = []
    either: list[Either] = []
    for part in trigger.parts:
        if isinstance(part, Either):
            either.append(part)
        else:
            more, others = _together(part)
            together += more
            either += others
    return together, either


def _of_two(one: Comparison, other: Comparison) -> _Conflict | None:
    lower, upper = (one, other) if one.operator[0] == ">" else (other, one)
    if one.channel != other.channel or lower.operator[0] == upper.operator[0]:
        return None
    meet = lower.threshold == upper.threshold and lower.operator == ">=" and upper.operator == "<="
    if lower.threshold < upper.threshold or meet:
        return None
    never = _function(upper) in AT_MOST[_function(lower)]
    if not never and lower.function != upper.function:
        return None
    return _Conflict((one, other), never)


def _function(comparison: Comparison) -> str:
    if comparison.function != "any":
        return comparison.function
    return "max" if comparison.operator[0] == ">" else "min"


def _written(comparison: Comparison) -> str:
    function, channel, threshold = comparison.function, comparison.channel, comparison.threshold
    quantity = channel if function == "any" else f"{function}({channel})"
    unit = "/s" if function == "rate" else ""
    return f"{quantity} {comparison.operator} {threshold:g}{unit}"
