"""Conversion of triggers' events to notifications, which do not identify the node."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

import msgspec

from agent.alerts.spool_events import EventAlerts
from agent.wire.base import (
    MAX_COUNTED,
    MAX_EVENT_AREAS,
    TRIGGER_CLEARED,
    TRIGGER_RAISED,
    WallMs,
)
from agent.wire.node_messages import NodeEvent, NodeEvents
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import Filter, Predicate, Value
from agent.wire.push import Lost

RAISED: Final = "raised"
CLEARED: Final = "cleared"
LOST: Final = "lost"
KINDS: Final = {TRIGGER_RAISED: RAISED, TRIGGER_CLEARED: CLEARED}
# An event that covers several areas becomes one notification for each: this many sequences are
# reserved per event.
NUMBERS: Final = MAX_EVENT_AREAS


def alerts_of(iad: str, node: str, message: NodeEvents) -> tuple[EventAlerts, ...]:
    """The trigger events among these, with one notification for each area. The notifications of
    event n have the sequences from 16 n on. O(events)."""
    history = history_of(node, message.history)
    return tuple(
        [
            EventAlerts(event.sequence, tuple(_notifications(iad, history, event)))
            for event in message.events
            if event.kind in KINDS and event.sequence <= MAX_COUNTED // NUMBERS - 1
        ]
    )


def history_of(node: str, history: str) -> str:
    """The pseudonym of a node's history in notification origins. Two nodes with the same history
    file have different ones. It does not reveal the node: a history is 128 random bits that leave
    the IAD in no other form, so names cannot be tried against it. It needs no secret, which a
    master without a state file would lose."""
    return sha256(msgspec.msgpack.encode((node, history))).hexdigest()[:16]


def _notifications(iad: str, history: str, event: NodeEvent) -> Iterator[Notification]:
    for number, attributes in enumerate(_attributes(iad, event)):
        origin = Origin(iad, history, event.sequence * NUMBERS + number)
        yield Notification(origin, event.time_ms, attributes)


def _attributes(iad: str, event: NodeEvent) -> Iterator[dict[str, Value]]:
    told: dict[str, Value] = {
        "iad": iad,
        "kind": KINDS[event.kind],
        "trigger": event.trigger,
        "metric": event.channel,
    }
    if event.value is not None:
        told["value"] = event.value
    for area in event.areas:
        yield told | {"area": area}
    if not event.areas:
        yield told


def announced_by(iad: str) -> Filter:
    """The advertisement that covers everything published here."""
    return ((Predicate("iad", "=", (iad,)),),)


def losses_of(iad: str) -> Filter:
    """The advertisement that covers every result of `notification_of`."""
    return ((Predicate("iad", "=", (iad,)), Predicate("kind", "=", (LOST,))),)


def notification_of(lost: Lost, time_ms: WallMs) -> Notification:
    """A loss notice in the form of a notification. Its origin is unique to this loss and the same
    whenever it is repeated, also after a restart."""
    history = sha256(msgspec.msgpack.encode(lost)).hexdigest()[:16]
    attributes: dict[str, Value] = {
        "iad": lost.publisher,
        "kind": LOST,
        "history": lost.history,
        "first": lost.first,
        "last": lost.last,
        "count": lost.count,
    }
    return Notification(Origin(lost.publisher, history, 0), time_ms, attributes)


def content_of(notification: Notification) -> Notification | Lost:
    """The inbox content of a loss notice: the inverse of `notification_of`."""
    told = notification.attributes
    if told.get("kind") != LOST:
        return notification
    try:
        return msgspec.convert(
            {
                "publisher": notification.origin.publisher,
                "history": told.get("history"),
                **{name: _whole(told.get(name)) for name in ("first", "last", "count")},
            },
            Lost,
        )
    except msgspec.ValidationError:
        return notification


def _whole(value: Value | None) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value
