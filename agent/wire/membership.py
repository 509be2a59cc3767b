"""Membership messages: masters of one operator tell each other where masters are."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from agent.wire.base import Address, Message, Name, WireStruct

MAX_TOLD_ADDRESSES: Final = 16
MAX_AGE_MS: Final = 86_400_000


class MemberAddress(WireStruct, frozen=True, array_like=True):
    """Reported address of a master, which somebody heard itself so many milliseconds ago."""

    iad: Name
    address: Address
    age_ms: Annotated[int, Meta(ge=0, le=MAX_AGE_MS)]


class Members(Message, frozen=True, tag="members", omit_defaults=True):
    """The master `iad` is at `address`, and `known` are said to be there. `view`: the sender has
    the receiver in its active view, or wants it there; if it `needs` it, for a unit that moves or
    is pinned. The answer is another one of these."""

    iad: Name
    address: Address
    view: bool = False
    needs: bool = False
    known: Annotated[tuple[MemberAddress, ...], Meta(max_length=MAX_TOLD_ADDRESSES)] = ()
