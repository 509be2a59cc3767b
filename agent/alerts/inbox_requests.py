"""Why a request to subscribe is refused, whoever asks."""

from __future__ import annotations

import msgspec

from agent.alerts.inbox import Inbox
from agent.alerts.inbox_events import InboxInstruction, Peer, SendPush
from agent.wire.predicates import MAX_FILTER_BYTES, Filter
from agent.wire.push import Subscribe, Subscribed


def check_size(given: str | Filter) -> None:
    """ValueError if it takes more than `MAX_FILTER_BYTES`. O(size)."""
    if (size := len(msgspec.msgpack.encode(given))) > MAX_FILTER_BYTES:
        raise ValueError(f"{size} bytes, over {MAX_FILTER_BYTES}; take two subscriptions")


def why_not_again(inbox: Inbox, message: Subscribe) -> str:
    """Why the subscription that is there cannot be this one; empty if it can."""
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
    """The reply that says so, at once."""
    reply = Subscribed(message.id, "refused", message=why[:500])
    return [SendPush(peer, reply, waits=False)]
