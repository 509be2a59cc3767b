"""Validation of subscribe requests, and the reasons for refusing them."""

from __future__ import annotations

import msgspec

from agent.alerts.inbox import Inbox
from agent.alerts.inbox_events import InboxInstruction, Peer, SendPush
from agent.wire.predicates import MAX_FILTER_BYTES, Filter
from agent.wire.push import Subscribe, Subscribed

# A text has at most 512 characters, but they may take as long as 8 KiB of a filter in parts:
# parentheses are multiplied out.
TEXT_WEIGHT = 16


def filter_bytes(given: str | Filter) -> int:
    """Size of a filter in MessagePack. O(size)."""
    return len(msgspec.msgpack.encode(given))


def parsed_bytes(given: str | Filter) -> int:
    """Bytes of a filter by which its cost is judged before it is parsed. O(size)."""
    return TEXT_WEIGHT * len(given) if isinstance(given, str) else filter_bytes(given)


def check_size(given: str | Filter) -> int:
    """The size of the filter; ValueError if it is more than `MAX_FILTER_BYTES`. O(size)."""
    if (size := filter_bytes(given)) > MAX_FILTER_BYTES:
        raise ValueError(f"{size} bytes, over {MAX_FILTER_BYTES}; take two subscriptions")
    return size


def why_not_again(inbox: Inbox, message: Subscribe) -> str:
    """Why the request does not match the existing subscription of that id; empty if it does."""
    if inbox.durable != message.durable:
        return (
            f"subscription {inbox.id!r} is open and {'' if inbox.durable else 'not '}durable; "
            "unsubscribe it or take another id"
        )
    if message.after is not None and message.after > inbox.last:
        return (
            f"position {message.after} of subscription {inbox.id!r} is yet to come: its master "
            "lost what it had, or the id was used before; unsubscribe it, and subscribe anew"
        )
    return ""


def refusal(peer: Peer, message: Subscribe, why: str) -> list[InboxInstruction]:
    """The reply that refuses the request, to be sent at once."""
    reply = Subscribed(message.id, "refused", message=why[:500])
    return [SendPush(peer, reply, waits=False)]
