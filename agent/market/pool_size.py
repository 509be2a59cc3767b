"""Bounds on the areas of a pool: each member is sent the whole of it as one message, which another
member's areas must not make too large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from agent.wire.base import MAX_AREAS
from agent.wire.codec import MAX_BULK_VALUES, MAX_REQUEST_BYTES
from agent.wire.market import Member

# What a `Join` has beside its members.
OTHER_BYTES: Final = 1 << 12
OTHER_VALUES: Final = 1 << 6
MEMBER_VALUES: Final = 16  # without its areas
TOO_LARGE: Final = "has areas that do not fit into the pool beside those of others: ask fewer"

_pack = msgspec.msgpack.Encoder().encode


def left_out(sellers: Iterable[Member], others: Sequence[Member]) -> dict[str, str]:
    """The sellers that a pool with `others` has no room for, and why, by IAD: those with more areas
    than a message may name, then those whose areas take most, until the rest fits."""
    reasons = {}
    fitting = []
    for seller in sellers:
        if len(seller.areas) > MAX_AREAS:
            reasons[seller.iad] = (
                f"offers {len(seller.areas):,} areas there, a proposal has at most {MAX_AREAS:,}: "
                "ask finer areas"
            )
        else:
            fitting.append((len(_pack(seller)), seller))
    fitting.sort(key=lambda each: each[0])
    size = OTHER_BYTES + len(_pack(others))
    values = OTHER_VALUES + sum(MEMBER_VALUES + len(each.areas) for each in others)
    for more, seller in fitting:
        size += more
        values += MEMBER_VALUES + len(seller.areas)
        if size > MAX_REQUEST_BYTES or values > MAX_BULK_VALUES:
            reasons[seller.iad] = TOO_LARGE
    return reasons
