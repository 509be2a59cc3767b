"""What happens to a webhook (events), and what it wants done (instructions)."""

from __future__ import annotations

from msgspec import Struct

from agent.wire.push import Gap, Notified, PushReply, PushRequest


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class WebhookStarted(_Struct, frozen=True):
    """The first of all."""


class InboxSaid(_Struct, frozen=True):
    """From the inboxes of this master."""

    message: PushReply


class Answered(_Struct, frozen=True):
    """How the attempt ended that a `Post` asked for. `status` is the receiver's, or 0: there was no
    answer in time, and `line` says why. `retry_after_s`: it asks for a pause of so long, or 0."""

    status: int
    line: str
    retry_after_s: float = 0.0


class WebhookDue(_Struct, frozen=True):
    """Time has passed: `Webhook.next_tick` says when."""


WebhookEvent = WebhookStarted | InboxSaid | Answered | WebhookDue

# --- instructions --------------------------------------------------------------------------------


class AskInbox(_Struct, frozen=True):
    """Tell the inboxes. Those that cannot take it now say nothing, or `refused`."""

    message: PushRequest


class Post(_Struct, frozen=True):
    """Try to post this once, and say how it ended with one `Answered`. Whatever has this `id` is
    the same thing again."""

    id: str
    message: Notified | Gap


class TellOperator(_Struct, frozen=True):
    """One line, which begins after the webhook's name."""

    line: str


WebhookInstruction = AskInbox | Post | TellOperator
