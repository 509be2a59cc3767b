"""What happens to the inboxes of subscribers (events), and what they want done (instructions)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.wire.base import Count, Identifier
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter
from agent.wire.push import (
    AcknowledgeNotifications,
    Lost,
    PushReply,
    Subscribe,
    Unsubscribe,
)

# A connection; equal to itself for as long as it lasts, and hashable.
Peer = Any
Content = Notification | Lost


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class SubscribeArrived(_Struct, frozen=True):
    """From the connection `peer` of `client`, whose subscriptions are known by their ids."""

    peer: Peer
    client: str
    message: Subscribe


class AcknowledgeArrived(_Struct, frozen=True):
    peer: Peer
    client: str
    message: AcknowledgeNotifications


class UnsubscribeArrived(_Struct, frozen=True):
    peer: Peer
    client: str
    message: Unsubscribe


class ContentArrived(_Struct, frozen=True):
    """The broker has this for the subscriptions of these names, perhaps again."""

    names: tuple[str, ...]
    content: Content


class InboxesDue(_Struct, frozen=True):
    """Time has passed: `Inboxes.next_tick` says when."""


InboxEvent = (
    SubscribeArrived | AcknowledgeArrived | UnsubscribeArrived | ContentArrived | InboxesDue
)

# --- instructions: what the disk keeps -----------------------------------------------------------


class SavedSubscription(_Struct, frozen=True):
    """A durable subscription: whose, and of what."""

    client: str
    id: Identifier
    filter: Filter


class SaveSubscription(_Struct, frozen=True):
    """Keep it in place of what was kept under its number; how far its client is stays."""

    number: int
    saved: SavedSubscription


class SaveCursor(_Struct, frozen=True):
    """Its client has all positions up to `acknowledged`. May reach the disk later: the client says
    so again."""

    number: int
    acknowledged: int


class ForgetSubscription(_Struct, frozen=True):
    """With its positions."""

    number: int


class StoreItem(_Struct, frozen=True):
    """Keep what came once, for any number of subscriptions."""

    number: int
    key: bytes
    body: bytes


class ForgetBody(_Struct, frozen=True):
    """No client needs it any more; that it came is remembered."""

    number: int


class ForgetItem(_Struct, frozen=True):
    number: int


class StorePosition(_Struct, frozen=True):
    """The item is at this position of the subscription."""

    subscription: int
    position: int
    item: int


class ForgetPositions(_Struct, frozen=True):
    """Of the subscription, up to this one."""

    subscription: int
    position: int


InboxChange = (
    SaveSubscription
    | SaveCursor
    | ForgetSubscription
    | StoreItem
    | ForgetBody
    | ForgetItem
    | StorePosition
    | ForgetPositions
)

# --- instructions --------------------------------------------------------------------------------


class SendPush(_Struct, frozen=True):
    """Send it; if it `waits`, not before all that was to be kept until now is on disk."""

    peer: Peer
    message: PushReply
    waits: bool


class StartSubscription(_Struct, frozen=True):
    """Tell the broker that this is wanted, or that another filter is."""

    name: str
    filter: Filter


class EndSubscription(_Struct, frozen=True):
    """Tell the broker that it is wanted no more."""

    name: str


InboxInstruction = InboxChange | SendPush | StartSubscription | EndSubscription


class SavedInboxes(_Struct, frozen=True):
    """What the disk kept: subscriptions by number and how far their clients are; items by number,
    without body where no client needs it; and which item is at which position, positions of one
    subscription ascending."""

    subscriptions: tuple[tuple[int, SavedSubscription, Count], ...] = ()
    items: tuple[tuple[int, bytes, bytes | None], ...] = ()
    positions: tuple[tuple[int, int, int], ...] = ()
