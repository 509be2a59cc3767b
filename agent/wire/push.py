"""Push messages: a client's subscriptions, and the notifications that its master delivers.

The notifications of a subscription have positions 1, 2, 3, … in order of arrival. A client
acknowledges up to a position; unacknowledged notifications are sent again, at the same positions,
when it subscribes again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, Self

from msgspec import Meta
from msgspec.structs import replace

from agent.wire.base import (
    MAX_MASTERS,
    Address,
    Count,
    Identifier,
    Message,
    Milliseconds,
    Name,
    Position,
    Text,
    WallMs,
    WireStruct,
)
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import MAX_ATTRIBUTES, Attribute, Filter, Value

# Maximum number of subscriptions in one message.
MAX_TOGETHER: Final = 64
Place = tuple[Identifier, Position]
# A history that masters of this version make: 8 bytes in hexadecimal.
HISTORY: Final = re.compile("[0-9a-f]{16}")


class Lost(WireStruct, frozen=True):
    """`count` of the notifications `first` to `last` of a publisher's history were dropped before
    every receiver had them; the others in the range are not affected. Whether the dropped ones
    would have matched is unknown."""

    publisher: Name
    history: Identifier
    first: Count
    last: Count
    count: Position

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError("first is above last")


class ShortForm(WireStruct, frozen=True):
    """What a client knows already, so that a master need not repeat it: `number` is its own for the
    subscription, `names` are attributes that a place in this list stands for."""

    number: Count
    names: Annotated[tuple[Attribute, ...], Meta(max_length=MAX_ATTRIBUTES)] = ()


class GivenMaster(WireStruct, frozen=True, omit_defaults=True):
    """A master that a client may talk to, by its public address as the client was given it, and the
    least round trip to there that the client has measured lately."""

    address: Address
    round_trip_ms: Milliseconds | None = None


class Subscribe(Message, frozen=True, tag="subscribe", omit_defaults=True):
    """Subscribe to every notification that matches `filter`, in text form or in parts. `durable`:
    notifications are kept while the client is away. A client that lost its connection or a position
    sends it again, with `after` the last position that it has; delivery resumes from there. Another
    filter applies to notifications published from then on. With `kept_only` no subscription is
    begun: a client asks so where one may have moved to. With `short` the client also takes
    notifications as `short`; masters of earlier versions do not send these. `masters` are those
    among which a durable subscription may be moved, the one that is asked first: their client
    follows to each."""

    id: Identifier
    filter: Text | Filter
    durable: bool = False
    after: Count | None = None
    kept_only: bool = False
    short: ShortForm | None = None
    masters: Annotated[tuple[GivenMaster, ...], Meta(max_length=MAX_MASTERS)] = ()


class AcknowledgeNotifications(
    Message, frozen=True, tag="acknowledge_notifications", omit_defaults=True
):
    """The client has all positions up to `position`. At most a window of unacknowledged positions
    is sent. It also renews the subscription, and must be sent once in `renew_ms`, with the same
    position if there is no new one. `also`: the same for other subscriptions. Answered only if a
    subscription is not active on this connection."""

    id: Identifier
    position: Count
    also: Annotated[tuple[tuple[Identifier, Count], ...], Meta(max_length=MAX_TOGETHER - 1)] = ()


class Unsubscribe(Message, frozen=True, tag="unsubscribe"):
    """End a subscription and delete its kept notifications. Answered with `subscribed`, state
    `cancelled`."""

    id: Identifier


class Subscribed(Message, frozen=True, tag="subscribed", omit_defaults=True):
    """The state of a subscription. `open`: `position` is the last one that its client has; later
    ones follow. `unknown`: delivery has ended, because the master restarted or received nothing
    from the client for `renew_ms`: subscribe again. `refused`: `message` gives the reason; with
    `renew_ms` it is refused for now, and what is kept stays: subscribe again after it. With
    `open`, `message` says why no alert can match the filter, if that is known; with `cancelled`,
    that there was no such subscription. With `refused` and `unknown`, `master` is the public
    address of the master where the subscription lives now: subscribe there, with `after`."""

    id: Annotated[str, Meta(max_length=64)]
    state: Literal["open", "cancelled", "refused", "unknown"]
    position: Count = 0
    renew_ms: Milliseconds = 0.0
    message: Text = ""
    master: Text = ""


class Notified(Message, frozen=True, tag="notified", omit_defaults=True):
    """A notification and its position. Positions are consecutive, those of a `gap` included: a
    client that has n and receives n + 2 has lost one, and subscribes again with `after` n. `also`:
    further matching subscriptions of this connection, and its positions there."""

    id: Identifier
    position: Position
    notification: Notification
    also: Annotated[tuple[Place, ...], Meta(max_length=MAX_TOGETHER - 1)] = ()

    def apart(self) -> Iterator[Notified]:
        """One message per subscription."""
        yield replace(self, also=()) if self.also else self
        for id_, position in self.also:
            yield Notified(id_, position, self.notification)


class ShortContent(WireStruct, frozen=True, array_like=True):
    """A notification without what its receiver can restore. `publisher` is left out where it is the
    attribute `iad`; `history` is the text's bytes. `names` are attributes, or places in the
    receiver's list of names, in the order of `values`."""

    publisher: Name | None
    history: Annotated[bytes, Meta(min_length=8, max_length=8)]
    sequence: Count
    time_ms: WallMs
    names: Annotated[tuple[Count | Attribute, ...], Meta(max_length=MAX_ATTRIBUTES)]
    values: Annotated[tuple[Value, ...], Meta(max_length=MAX_ATTRIBUTES)]

    @classmethod
    def of(cls, notification: Notification, names: Sequence[str]) -> Self | None:
        """The notification for a receiver with these `names`; None if it has no short form.
        O(attributes · names)."""
        origin, attributes = notification.origin, notification.attributes
        if HISTORY.fullmatch(origin.history) is None:
            return None
        return cls(
            None if attributes.get("iad") == origin.publisher else origin.publisher,
            bytes.fromhex(origin.history),
            origin.sequence,
            notification.time_ms,
            tuple([names.index(each) if each in names else each for each in attributes]),
            tuple(attributes.values()),
        )

    def notification(self, names: Sequence[str]) -> Notification:
        """The notification, as `of` got it. ValueError if it was not made for these `names`."""
        try:
            known = [each if isinstance(each, str) else names[each] for each in self.names]
            attributes = dict(zip(known, self.values, strict=True))
            publisher = attributes["iad"] if self.publisher is None else self.publisher
        except (LookupError, ValueError):
            raise ValueError("a notification in short form names what was not agreed") from None
        origin = Origin(str(publisher), self.history.hex(), self.sequence)
        return Notification(origin, self.time_ms, attributes)


class ShortNotified(Message, frozen=True, tag="short"):
    """As `notified`, to a client that asked for the short form: `to` are its numbers of the
    subscriptions, and its positions there."""

    to: Annotated[tuple[tuple[Count, Position], ...], Meta(min_length=1, max_length=MAX_TOGETHER)]
    of: ShortContent


class Gap(Message, frozen=True, tag="gap", omit_defaults=True):
    """Positions `first` to `last` have no notification and never will: the subscription exceeded
    its limit while the client was away or slow, or the client had acknowledged them. With `lost`,
    it is one position that stands for losses on the publisher's side."""

    id: Identifier
    first: Position
    last: Position
    lost: Lost | None = None

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError("first is above last")


PushRequest = Subscribe | AcknowledgeNotifications | Unsubscribe
PushReply = Subscribed | Notified | Gap
# What a client is sent, too, if it asked for it.
SentPush = PushReply | ShortNotified
