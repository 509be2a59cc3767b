"""Subscriptions of a client to notifications, and what its master sends it for them.

Notifications of a subscription have positions 1, 2, 3, … there, in the order in which they come. A
client says up to which position it has them; what it does not say that it has is sent again, in the
same positions, when it subscribes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from msgspec import Meta
from msgspec.structs import replace

from agent.wire.base import Count, Identifier, Message, Milliseconds, Name, Part, Text
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter

Position = Annotated[int, Meta(ge=1, lt=2**53)]
# Subscriptions that one message is about.
MAX_TOGETHER: Final = 64
Place = tuple[Identifier, Position]


class Lost(Part, frozen=True):
    """Of the notifications `first` to `last` of a publisher's history `count` were given up before
    everybody had them; the others there are none of these. Whether they would have matched,
    nobody knows any more."""

    publisher: Name
    history: Identifier
    first: Count
    last: Count
    count: Position

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError("first is above last")


class Subscribe(Message, frozen=True, tag="subscribe", omit_defaults=True):
    """Ask for every notification for which `filter` holds, its text form or the parts. `durable`:
    they are kept while the client is away. Sent again by a client that lost its connection or a
    position, with `after` the last one that it has: what follows comes again. Again with another
    filter, it holds for what is published from now on."""

    id: Identifier
    filter: Text | Filter
    durable: bool = False
    after: Count | None = None


class AcknowledgeNotifications(
    Message, frozen=True, tag="acknowledge_notifications", omit_defaults=True
):
    """The client has all positions up to `position`. Without it no more than a window of them come.
    It also says that the client is there, and is to come once in `renew_ms`, with the same position
    if there is no other. `also`: the same of other subscriptions. Only answered if a subscription
    is not sent to this client."""

    id: Identifier
    position: Count
    also: Annotated[tuple[tuple[Identifier, Count], ...], Meta(max_length=MAX_TOGETHER - 1)] = ()


class Unsubscribe(Message, frozen=True, tag="unsubscribe"):
    """End a subscription, and forget what is kept for it. Answered with `subscribed`, state
    `cancelled`."""

    id: Identifier


class Subscribed(Message, frozen=True, tag="subscribed", omit_defaults=True):
    """The state of a subscription. `open`: `position` is the last one that its client has, what
    follows is sent. `unknown`: nothing is sent any more, because the master was started again or
    heard nothing of the client for `renew_ms`: subscribe again. `refused`: `message` says why.
    With `open` it says why no alert fulfils the filter, as far as is known, where that is so."""

    id: Annotated[str, Meta(max_length=64)]
    state: Literal["open", "cancelled", "refused", "unknown"]
    position: Count = 0
    renew_ms: Milliseconds = 0.0
    message: Text = ""


class Notified(Message, frozen=True, tag="notified", omit_defaults=True):
    """A notification, and its position. Positions that come are consecutive, those of a `gap`
    included: a client that has n and gets n + 2 lost one, and subscribes again with `after` n.
    `also`: further subscriptions of this connection that want it, and its positions there."""

    id: Identifier
    position: Position
    notification: Notification
    also: Annotated[tuple[Place, ...], Meta(max_length=MAX_TOGETHER - 1)] = ()

    def apart(self) -> Iterator[Notified]:
        """A message for each of the subscriptions."""
        yield replace(self, also=()) if self.also else self
        for id_, position in self.also:
            yield Notified(id_, position, self.notification)


class Gap(Message, frozen=True, tag="gap", omit_defaults=True):
    """Positions `first` to `last` hold no notification and never will: their subscription kept too
    many for a client that was away or slow, or the client said before that it has them. With
    `lost`, it is one position that stands for what was lost on the publisher's side."""

    id: Identifier
    first: Position
    last: Position
    lost: Lost | None = None

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError("first is above last")


PushRequest = Subscribe | AcknowledgeNotifications | Unsubscribe
PushReply = Subscribed | Notified | Gap
