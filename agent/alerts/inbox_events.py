"""Events and instructions of the subscribers' inboxes."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.wire.base import Count, Identifier
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter
from agent.wire.push import (
    AcknowledgeNotifications,
    Lost,
    SentPush,
    Subscribe,
    Unsubscribe,
)

# A connection: hashable, and equal to itself for as long as it lasts.
Peer = Any
Content = Notification | Lost


class _Struct(Struct, frozen=True, gc=False):
    """Immutable, and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class SubscribeArrived(_Struct, frozen=True):
    """`client` subscribes on the connection `peer`. Its subscriptions are identified by their
    ids."""

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
    """The broker delivers this to the subscriptions of these names; it may be a duplicate."""

    names: tuple[str, ...]
    content: Content


class InboxesDue(_Struct, frozen=True):
    """A timer has expired: `Inboxes.next_tick` says when to send this."""


InboxEvent = (
    SubscribeArrived | AcknowledgeArrived | UnsubscribeArrived | ContentArrived | InboxesDue
)

# --- instructions: for the disk ------------------------------------------------------------------


class SavedSubscription(_Struct, frozen=True):
    """A durable subscription as kept on disk: its client and its filter."""

    client: str
    id: Identifier
    filter: Filter


class SaveSubscription(_Struct, frozen=True):
    """Write the subscription in place of the row with its number; the client's cursor is
    unchanged."""

    number: int
    saved: SavedSubscription


class SaveCursor(_Struct, frozen=True):
    """The client has all positions up to `acknowledged`. May be written late: the client repeats
    its acknowledgement."""

    number: int
    acknowledged: int


class ForgetSubscription(_Struct, frozen=True):
    """Delete the subscription and its positions."""

    number: int


class StoreItem(_Struct, frozen=True):
    """Write an item once, for any number of subscriptions; without body if no client needs it."""

    number: int
    key: bytes
    body: bytes | None


class ForgetBody(_Struct, frozen=True):
    """Delete the item's body: no client needs it any more. The item itself is remembered."""

    number: int


class ForgetItem(_Struct, frozen=True):
    number: int


class StorePosition(_Struct, frozen=True):
    """Record that the item is at this position of the subscription."""

    subscription: int
    position: int
    item: int


class ForgetPositions(_Struct, frozen=True):
    """Delete the subscription's positions up to this one, but those that were set apart."""

    subscription: int
    position: int


class SetPositionApart(_Struct, frozen=True):
    """The client still needs this position, whose neighbours are about to be deleted."""

    subscription: int
    position: int


class ForgetPosition(_Struct, frozen=True):
    """Delete a position that was set apart."""

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
    | SetPositionApart
    | ForgetPosition
)

# --- instructions --------------------------------------------------------------------------------


class SendPush(_Struct, frozen=True):
    """Send this; if it `waits`, only after everything stored so far is on disk."""

    peer: Peer
    message: SentPush
    waits: bool


class StartSubscription(_Struct, frozen=True):
    """Tell the broker about a new subscription, or about its new filter."""

    name: str
    filter: Filter


class EndSubscription(_Struct, frozen=True):
    """Tell the broker that the subscription has ended."""

    name: str


InboxInstruction = InboxChange | SendPush | StartSubscription | EndSubscription


class SavedInboxes(_Struct, frozen=True):
    """State kept on disk: subscriptions by number with their clients' cursors; items by number,
    without body where no client needs it; and the item at each position, the positions of one
    subscription ascending. Those that were set apart have the subscription's number negated."""

    subscriptions: tuple[tuple[int, SavedSubscription, Count], ...] = ()
    items: tuple[tuple[int, bytes, bytes | None], ...] = ()
    positions: tuple[tuple[int, int, int], ...] = ()
