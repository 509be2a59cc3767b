"""What happens to a broker (events) and what it wants done (instructions).

The same for every way of routing: OctopiA's and the baseline's.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from agent.overlay.scot import Broker
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Filter

# One of agent.wire.overlay, or of the baseline.
Message = Any


class _Struct(Struct, frozen=True, gc=False):
    """Events and instructions are immutable and never part of a reference cycle."""


# --- events --------------------------------------------------------------------------------------


class Received(_Struct, frozen=True):
    """A neighbour sent this."""

    sender: Broker
    message: Message


class Advertise(_Struct, frozen=True):
    """A publisher here says what it may publish; again with the same `name`, it changes that."""

    name: str
    filter: Filter


class Unadvertise(_Struct, frozen=True):
    """It withdraws that."""

    name: str


class Subscribe(_Struct, frozen=True):
    """A subscriber here says what it wants; again with the same `name`, it changes that."""

    name: str
    filter: Filter


class Unsubscribe(_Struct, frozen=True):
    """It withdraws that."""

    name: str


class Publish(_Struct, frozen=True):
    """A publisher here has this to tell; again, if it does not know that it went well."""

    notification: Notification


class LinkUp(_Struct, frozen=True):
    """There is a connection to the neighbour, which may have lost its memory."""

    neighbour: Broker


class LinkDown(_Struct, frozen=True):
    """There is none; what was sent last may be lost."""

    neighbour: Broker


class PassedOver(_Struct, frozen=True):
    """There was no room for this in the queue of messages to the neighbour: it was not sent."""

    neighbour: Broker
    message: Message


class LinkMeasured(_Struct, frozen=True):
    """The queue of messages to the neighbour, over the last window: how many notifications
    `entered` and `left` it, and its `length` now (OctopiA Eq. 10)."""

    neighbour: Broker
    entered: int
    left: int
    length: int


class Tick(_Struct, frozen=True):
    """Time has passed: a broker says when in `next_tick`."""


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
    """Put it into the queue of messages to the neighbour. `brought_by` is the neighbour whose
    message it passes on; None: from here."""

    neighbour: Broker
    message: Message
    brought_by: Broker | None = None


class Deliver(_Struct, frozen=True):
    """These subscriptions of this broker want it; never the same twice for one notification."""

    subscriptions: tuple[str, ...]
    notification: Notification


class Settled(_Struct, frozen=True):
    """Every broker with a subscriber has it: the publisher's spool may forget it."""

    origin: Origin


class Undeliverable(_Struct, frozen=True):
    """It reached not everybody, and `reason` says why: to be counted, and kept by the spool."""

    origin: Origin
    reason: str


class Reopen(_Struct, frozen=True):
    """Take the link to the neighbour down, which is there and says nothing; no sooner than in
    `pause_s` seconds it may come up again."""

    neighbour: Broker
    pause_s: float


Instruction = Send | Deliver | Settled | Undeliverable | Reopen
