"""When facts are as good as unchanged: what is measured always differs a little."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from agent.wire.placement import Delay

# Of the larger of two values.
PART: Final = 0.2
# Differences of delays that no price notices.
LEAST_MS: Final = 1.0
# What changes with each message.
PASSING: Final = frozenset({"number", "next_s", "age_s"})


def alike(one: Any, other: Any) -> bool:
    """Whether the structs have the same values, but for `PART` of the floats. O(size)."""
    if one is other:
        return True
    if isinstance(one, float) and isinstance(other, int | float):
        return abs(one - other) <= PART * max(abs(one), abs(other))
    if type(one) is not type(other):
        return False
    if isinstance(one, Delay):
        return one.iad == other.iad and all(
            abs(a - b) <= max(LEAST_MS, PART * max(a, b))
            for a, b in ((one.p50_ms, other.p50_ms), (one.p90_ms, other.p90_ms))
        )
    if isinstance(one, Struct):
        return all(
            alike(getattr(one, name), getattr(other, name))
            for name in one.__struct_fields__
            if name not in PASSING
        )
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return bool(one == other)
