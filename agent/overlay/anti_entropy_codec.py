"""Wire messages of anti-entropy: table updates to and from `agent.overlay.anti_entropy`.

Subscriptions and advertisements are replicated to different brokers, with different messages: a
subscription message names the home, an advertisement always belongs to its sender.
"""

from __future__ import annotations

from typing import Any

import msgspec

from agent.overlay.anti_entropy import Delta, Home, SnapshotPart, Version
from agent.wire.overlay import (
    AdvertisementChange,
    AdvertisementPart,
    SubscriptionChange,
    SubscriptionPart,
)
from agent.wire.predicates import MAX_FILTER_BYTES, Filter

SubscriptionUpdate = SubscriptionChange | SubscriptionPart
AdvertisementUpdate = AdvertisementChange | AdvertisementPart

Replica = Delta[Home, int, Filter] | SnapshotPart[Home, int, Filter]


def replica(home: Home, update: SubscriptionUpdate | AdvertisementUpdate) -> Replica[Home]:
    """The update of that home's set that a message carries. O(1)."""
    version = Version(update.epoch, update.version)
    if isinstance(update, SubscriptionChange | AdvertisementChange):
        return Delta(home, version, update.key, update.filter)
    return SnapshotPart(home, version, update.start, update.total, update.entries)


def subscription_update(told: Replica[str]) -> SubscriptionUpdate:
    """The message for an update of its home's subscriptions. O(1)."""
    if isinstance(told, Delta):
        return SubscriptionChange(told.home, *told.version, told.name, told.item)
    return SubscriptionPart(told.home, *told.version, told.start, told.total, told.items)


def advertisement_update(told: Replica[Any]) -> AdvertisementUpdate:
    """The message for an update of its sender's advertisements. O(1)."""
    if isinstance(told, Delta):
        return AdvertisementChange(*told.version, told.name, told.item)
    return AdvertisementPart(*told.version, told.start, told.total, told.items)


def size_of(wanted: Filter) -> int:
    """Bytes of a filter on the wire. O(size)."""
    return len(msgspec.msgpack.encode(wanted))


def fits(update: Replica[Any]) -> bool:
    """Whether every filter is within the limit on filters of a broker's own users. O(their
    size)."""
    came = [update.item] if isinstance(update, Delta) else [each for _, each in update.items]
    return all(each is None or size_of(each) <= MAX_FILTER_BYTES for each in came)
