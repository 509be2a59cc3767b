"""Events and instructions of a webhook."""

from __future__ import annotations

from msgspec import Struct

from agent.runtime.retrying import Answered
from agent.wire.push import Gap, Notified, PushReply, PushRequest


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class WebhookStarted(_Struct, frozen=True):
    """The first event."""


class InboxSaid(_Struct, frozen=True):
    """A message from this master's inboxes."""

    message: PushReply


class WebhookDue(_Struct, frozen=True):
    """A timer has expired: `Webhook.next_tick` says when to send this."""


WebhookEvent = WebhookStarted | InboxSaid | Answered | WebhookDue

# --- instructions --------------------------------------------------------------------------------


class AskInbox(_Struct, frozen=True):
    """Send this to the inboxes. If they cannot take it now they answer nothing, or `refused`."""

    message: PushRequest


class Post(_Struct, frozen=True):
    """Post this once, and report the outcome with one `Answered`. Equal `id` means the same
    content."""

    id: str
    message: Notified | Gap


class TellOperator(_Struct, frozen=True):
    """One line for the operator, which follows the webhook's name."""

    line: str


WebhookInstruction = AskInbox | Post | TellOperator
