"""Tolerance for unchanged facts: measurements always differ a little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from agent.wire.placement import Delay

# Of the larger of two values.
PART: Final = 0.2
# Differences of delays that no price notices.
LEAST_MS: Final = 1.0
# Of the masters to which delays are told: partners come and go.
OTHERS: Final = 1 / 3
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
        return all(
            abs(a - b) <= max(LEAST_MS, PART * max(a, b))
            for a, b in ((one.p50_ms, other.p50_ms), (one.p90_ms, other.p90_ms))
        )
    if isinstance(one, Struct):
        return all(
            (_delays_alike if name == "delays" else alike)(getattr(one, name), getattr(other, name))
            for name in one.__struct_fields__
            if name not in PASSING
        )
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return bool(one == other)


def _delays_alike(one: Sequence[Delay], other: Sequence[Delay]) -> bool:
    ones, others = ({each.iad: each for each in told} for told in (one, other))
    unlike = len(ones.keys() ^ others.keys())
    if unlike > OTHERS * max(len(ones), len(others)):
        return False
    return all(alike(ones[iad], others[iad]) for iad in ones.keys() & others.keys())
