"""Events and instructions of a broker.

They are the same for every routing scheme: OctopiA's and the baseline's.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.overlay.scot import BrokerId
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Filter

# A message of agent.wire.overlay, or of the baseline.
Message = Any


class _Struct(Struct, frozen=True, gc=False):
    """Events and instructions are immutable and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class Received(_Struct, frozen=True):
    """A message from a neighbour."""

    sender: BrokerId
    message: Message


class Advertise(_Struct, frozen=True):
    """A publisher at this broker announces what it may publish; the same `name` again replaces
    that."""

    name: str
    filter: Filter


class Unadvertise(_Struct, frozen=True):
    """The publisher withdraws the advertisement."""

    name: str


class Subscribe(_Struct, frozen=True):
    """A subscriber at this broker registers a filter; the same `name` again replaces it."""

    name: str
    filter: Filter


class Unsubscribe(_Struct, frozen=True):
    """The subscriber withdraws the subscription."""

    name: str


class Publish(_Struct, frozen=True):
    """A publisher at this broker publishes a notification, or repeats one that it does not know to
    be settled. One that `stays` is for subscribers of this broker only."""

    notification: Notification
    stays: bool = False


class LinkUp(_Struct, frozen=True):
    """The link to the neighbour is up; the neighbour may have lost its state."""

    neighbour: BrokerId


class LinkDown(_Struct, frozen=True):
    """The link is down; the last messages sent may be lost."""

    neighbour: BrokerId


class PassedOver(_Struct, frozen=True):
    """There was no room for this in the queue to the neighbour: it was not sent."""

    neighbour: BrokerId
    message: Message


class LinkMeasured(_Struct, frozen=True):
    """The queue of messages to the neighbour, over the last window: how many notifications
    `entered` and `left` it, and its `length` now (OctopiA Eq. 10)."""

    neighbour: BrokerId
    entered: int
    left: int
    length: int


class Tick(_Struct, frozen=True):
    """A timer has expired: the broker's `next_tick` says when to send this."""


Event = (
    Received
    | Advertise
    | Unadvertise
    | Subscribe
    | Unsubscribe
    | Publish
    | LinkUp
    | LinkDown
    | PassedOver
    | LinkMeasured
    | Tick
)

# --- instructions --------------------------------------------------------------------------------


class Send(_Struct, frozen=True):
    """Put the message into the queue to the neighbour. `brought_by` is the neighbour whose message
    is forwarded; None: it originates here."""

    neighbour: BrokerId
    message: Message
    brought_by: BrokerId | None = None


class Deliver(_Struct, frozen=True):
    """Deliver to these subscriptions of this broker; never the same one twice for a
    notification."""

    subscriptions: tuple[str, ...]
    notification: Notification


class Settled(_Struct, frozen=True):
    """Every broker with a matching subscriber has it: the publisher's spool may forget it."""

    origin: Origin


class Undeliverable(_Struct, frozen=True):
    """Not every subscriber could be reached; `reason` says why. To be counted, and kept by the
    spool."""

    origin: Origin
    reason: str


class Reopen(_Struct, frozen=True):
    """Take down the link to the neighbour, which is connected but unresponsive. The link may come
    up again after `pause_s` seconds at the earliest."""

    neighbour: BrokerId
    pause_s: float


Instruction = Send | Deliver | Settled | Undeliverable | Reopen
