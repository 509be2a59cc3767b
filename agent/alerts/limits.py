"""Capacity limits and time-outs of a master's inboxes."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

# A client that is silent for this long is sent nothing more until it is heard of again.
LEASE_S: Final = 60.0
# A durable subscription whose client stays away for this long expires.
EXPIRE_S: Final = 7 * 86_400.0


class Limits(Struct, frozen=True, kw_only=True):
    """Bytes are those of MessagePack; in memory contents take twice as much. An owner is a client,
    or a connection if its client has no name."""

    # Undelivered items of one durable subscription.
    most: int = 1_000
    most_bytes: int = 1 << 20
    # Contents of one owner's subscriptions, and of all. An owner's share them equally; beyond the
    # bound of all each owner has its share of that.
    most_bytes_owned: int = 24 << 20
    most_bytes_in_all: int = 1 << 27
    # Undelivered items of one that is not durable, whose client may be slow.
    most_queued: int = 256
    # Items that a subscription remembers to recognise duplicates: as many as a spool may publish
    # again. A duplicate that is older counts as new.
    most_remembered: int = 10_000
    # Shared by all subscriptions, 40 bytes each.
    most_remembered_in_all: int = 2_000_000
    # Likewise the items that these are, 340 bytes each. Beyond so many a subscription that gets
    # another one keeps its share of them; so there are at most twice as many.
    most_remembered_items: int = 131_072
    # Messages sent and not acknowledged.
    window: int = 64
    # Subscriptions of one owner, and of all.
    most_owned: int = 100
    most_subscriptions: int = 10_000
    # Filters of one owner, and of all, with the masters among which they may move; parsed they take
    # a dozen times as much.
    most_filter_bytes: int = 1 << 18
    most_filter_bytes_in_all: int = 1 << 23
    lease_s: float = LEASE_S
    expire_s: float = EXPIRE_S

    @classmethod
    def remembering(cls, notifications: int, *, most_owned: int) -> Limits:
        """For a master that remembers so many notifications."""
        return cls(
            most_owned=most_owned,
            most_remembered=min(cls().most_remembered, notifications),
            most_remembered_items=2 * notifications,
        )

    def items(self, *, durable: bool) -> int:
        """Undelivered items of one subscription."""
        return self.most if durable else self.most_queued
