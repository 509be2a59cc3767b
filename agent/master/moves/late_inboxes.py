"""Inboxes of topics and clients that have left: what they still get, as batches for where these
went."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from agent.alerts.inbox_events import Content
from agent.alerts.inbox_handover import FORWARDING
from agent.master.push.push_plane import PushPlane
from agent.placement.world import Unit
from agent.wire.handover import read_body
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Lost,
    Notified,
    PushReply,
    Subscribe,
    Subscribed,
)

# A minute of silence detaches a client.
RENEW_S: Final = 20.0
RETRY_S: Final = 0.5
# Bytes of a batch, beyond which no further item goes into it; an item has less than 64 KiB.
FULL: Final = 1 << 19


class Batch(Struct, frozen=True, array_like=True):
    """Late items, in order; None stands for the next of the losses."""

    notifications: tuple[Notification | None, ...]
    losses: tuple[Lost, ...] = ()

    def __post_init__(self) -> None:
        if self.notifications.count(None) > len(self.losses):
            raise ValueError("late items name a loss that they do not have")

    def contents(self) -> Iterable[Content]:
        """All of them."""
        losses = iter(self.losses)
        return [next(losses) if each is None else each for each in self.notifications]


def contents_of(items: bytes) -> Iterable[Content] | None:
    """The contents of a batch, in order; None if this version cannot read it."""
    try:
        return read_body(items, Batch).contents()
    except ValueError:
        return None


class _Inbox:
    __slots__ = ("client", "heard", "id", "peer", "renew_s", "waiting", "wanted")

    def __init__(self, client: str, id_: str, wanted: Filter) -> None:
        self.client = client
        self.id = id_
        self.wanted = wanted
        self.peer: Callable[[PushReply], object] = lambda _: None
        self.waiting: deque[tuple[int, Content | None]] = deque()
        self.heard = 0  # the last position that came
        self.renew_s = 0.0


def client_of(to: str, name: str) -> str:
    """The owner of the inbox of a unit that has moved to that IAD."""
    return f"{FORWARDING}{to}/{name}"


class LateInboxes:
    """A client of each of these inboxes, within this process. `on_late` gets the unit when its
    first item waits."""

    def __init__(self, push: PushPlane) -> None:
        self._push = push
        self._inboxes: dict[Unit, _Inbox] = {}
        self.on_late: Callable[[Unit], object] = lambda _: None

    def begin(self, unit: Unit, to: str, id_: str, wanted: Filter) -> None:
        """Take in what comes for a unit that was released."""
        inbox = self._inboxes[unit] = _Inbox(client_of(to, unit.name), id_, wanted)
        inbox.peer = partial(self._said, unit, inbox)

    def client(self, unit: Unit) -> str:
        """The owner of that inbox; "" if there is none."""
        return self._inboxes[unit].client if unit in self._inboxes else ""

    def id_of(self, unit: Unit) -> str:
        """The id of that inbox, which for a topic is random for each creation; "" likewise."""
        return self._inboxes[unit].id if unit in self._inboxes else ""

    def drop(self, unit: Unit) -> None:
        """The inbox is no more."""
        self._inboxes.pop(unit, None)

    def late(self, unit: Unit) -> tuple[int, bytes] | None:
        """The next batch, and the position of its last item."""
        if (inbox := self._inboxes.get(unit)) is None or not inbox.waiting:
            return None
        notifications: list[Notification | None] = []
        losses: list[Lost] = []
        size = last = 0
        for position, content in inbox.waiting:
            last = position
            if isinstance(content, Notification):
                notifications.append(content)
                size += len(msgspec.msgpack.encode(content))
            elif content is not None:
                notifications.append(None)
                losses.append(content)
            if size >= FULL:
                break
        return last, msgspec.msgpack.encode(Batch(tuple(notifications), tuple(losses)))

    def kept(self, unit: Unit, position: int) -> None:
        """The target has all up to this position."""
        if (inbox := self._inboxes.get(unit)) is None:
            return
        while inbox.waiting and inbox.waiting[0][0] <= position:
            inbox.waiting.popleft()
        self._ask(inbox, AcknowledgeNotifications(inbox.id, position))

    @property
    def next_due(self) -> float | None:
        """When a client has to say that it is there."""
        return min([each.renew_s for each in self._inboxes.values()], default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for inbox in list(self._inboxes.values()):
            if inbox.renew_s <= now:
                after = inbox.waiting[0][0] - 1 if inbox.waiting else inbox.heard or None
                taken = self._ask(
                    inbox, Subscribe(inbox.id, inbox.wanted, durable=True, after=after)
                )
                inbox.renew_s = now + (RENEW_S if taken else RETRY_S)

    def _ask(self, inbox: _Inbox, message: Subscribe | AcknowledgeNotifications) -> bool:
        return self._push.ask(inbox.peer, inbox.client, message)

    def _said(self, unit: Unit, inbox: _Inbox, message: PushReply) -> None:
        match message:
            case Notified(_, position, notification):
                self._came(unit, inbox, position, notification)
            case Gap(_, _, last, lost):
                self._came(unit, inbox, last, lost)
            case Subscribed(state="unknown"):
                inbox.renew_s = 0.0

    def _came(self, unit: Unit, inbox: _Inbox, position: int, content: Content | None) -> None:
        if position <= inbox.heard or self._inboxes.get(unit) is not inbox:
            return  # sent again
        inbox.heard = position
        inbox.waiting.append((position, content))
        self.on_late(unit)
