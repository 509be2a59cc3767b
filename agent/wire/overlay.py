"""Overlay messages between brokers.

Tables first, then notifications, then detours around a failed link. Only the home of a set of
subscriptions or advertisements changes it: the set has the home's `epoch`, which increases with
each restart, and a `version`, which increases by one with each change
(`agent.overlay.anti_entropy`). An entry's `key` is a number that is kept when its filter changes,
and never reused within an epoch.
"""

from __future__ import annotations

from sys import intern
from typing import Annotated

from msgspec import Meta

from agent.wire.base import Count, Identifier, Message, Name, WallMs, WireStruct
from agent.wire.predicates import Attributes, Filter

MAX_BROKERS = 1 << 20
MAX_ENTRIES = 100_000  # of one home
MAX_HOMES = 1 << 20
MAX_PARTS = 1_024  # of one message of custody

ClusterIndex = Annotated[int, Meta(ge=0, lt=1_024)]
# A cluster index vector: bit i of the little-endian bytes is cluster i.
Clusters = Annotated[bytes, Meta(max_length=128)]
# A broker: vertex of the tree, index of the cluster.
Hop = tuple[Name, ClusterIndex]
Path = Annotated[tuple[Hop, ...], Meta(min_length=1, max_length=MAX_BROKERS)]
# Far above any time in seconds, with room to increment.
Epoch = Annotated[int, Meta(ge=0, lt=1 << 48)]
# Increasing for each broker: its epoch, and the number of stamps issued before.
Stamp = tuple[Epoch, Count]


class Origin(WireStruct, frozen=True, array_like=True):
    """The identity of a notification, the same everywhere and in every copy: IAD `publisher`,
    number `sequence` of a random `history`, which does not reveal its node."""

    publisher: Name
    history: Identifier
    sequence: Count

    def interned(self) -> Origin:
        """The same, to be remembered: each decoded origin has its own copies of both names, 120
        bytes."""
        return Origin(intern(self.publisher), intern(self.history), self.sequence)


class Notification(WireStruct, frozen=True):
    """A published event, delivered to subscribers with matching filters."""

    origin: Origin
    time_ms: WallMs
    attributes: Attributes


# --- tables --------------------------------------------------------------------------------------

# Identifies a subscription or advertisement between brokers; its name stays at its home.
Key = Count
Entries = Annotated[tuple[tuple[Key, Filter], ...], Meta(max_length=MAX_ENTRIES)]


class SubscriptionChange(Message, frozen=True, tag="subscription_change", omit_defaults=True):
    """A subscription of the broker at vertex `home` of this cluster was added, changed or, without
    a `filter`, removed; forwarded along the cluster's tree."""

    home: Name
    epoch: Epoch
    version: Count
    key: Key
    filter: Filter | None = None


class SubscriptionPart(Message, frozen=True, tag="subscription_part"):
    """A part of that broker's `total` subscriptions, from position `start` on."""

    home: Name
    epoch: Epoch
    version: Count
    start: Count
    total: Count
    entries: Entries


class HomeVersion(WireStruct, frozen=True, array_like=True):
    """The version of that broker's subscriptions that the sender has; 0, 0: none."""

    home: Name
    epoch: Epoch
    version: Count


class SubscriptionVersions(Message, frozen=True, tag="subscription_versions"):
    """The versions that the sender has; it requests newer ones of these homes and, if `all_homes`,
    of all others."""

    homes: Annotated[tuple[HomeVersion, ...], Meta(max_length=MAX_HOMES)]
    all_homes: bool


class AdvertisementChange(Message, frozen=True, tag="advertisement_change", omit_defaults=True):
    """An advertisement of the sender was added, changed or, without a `filter`, removed."""

    epoch: Epoch
    version: Count
    key: Key
    filter: Filter | None = None


class AdvertisementPart(Message, frozen=True, tag="advertisement_part"):
    """A part of the sender's `total` advertisements, from position `start` on."""

    epoch: Epoch
    version: Count
    start: Count
    total: Count
    entries: Entries


class AdvertisementVersion(Message, frozen=True, tag="advertisement_version"):
    """The version of the receiver's advertisements that the sender has (0, 0: none); it requests a
    newer one."""

    epoch: Epoch
    version: Count


class CibSet(Message, frozen=True, tag="cib_set"):
    """The sender's cluster now has a first subscription that may match this advertisement of the
    receiver."""

    epoch: Epoch
    key: Key
    stamp: Stamp


class CibClear(Message, frozen=True, tag="cib_clear"):
    """The sender's cluster no longer has a subscription that may match it."""

    epoch: Epoch
    key: Key
    stamp: Stamp


class CibState(Message, frozen=True, tag="cib_state"):
    """The receiver's advertisements that the sender knows: those that may match a subscription in
    its cluster, and those that do not."""

    epoch: Epoch
    wanted: Annotated[tuple[Key, ...], Meta(max_length=MAX_ENTRIES)]
    unwanted: Annotated[tuple[Key, ...], Meta(max_length=MAX_ENTRIES)]
    stamp: Stamp


# --- notifications -------------------------------------------------------------------------------


class Notify(Message, frozen=True, tag="notify"):
    """A copy of a notification: for the subscribers behind the receiver in its cluster, and for the
    `clusters` that it must serve."""

    notification: Notification
    clusters: Clusters


class Kept(WireStruct, frozen=True, array_like=True):
    """In these `clusters`, as far as the receiver requested them, every subscriber's home has the
    notification; if there are none yet, the sender has custody."""

    origin: Origin
    clusters: Clusters


class Have(Message, frozen=True, tag="have"):
    """The sender and all brokers behind it have these: the receiver's custody for them ends."""

    parts: Annotated[tuple[Kept, ...], Meta(max_length=MAX_PARTS)]


Direct = (
    SubscriptionChange
    | SubscriptionPart
    | SubscriptionVersions
    | AdvertisementChange
    | AdvertisementPart
    | AdvertisementVersion
    | CibSet
    | CibClear
    | CibState
    | Notify
    | Have
)

# --- detours -------------------------------------------------------------------------------------


class Relay(Message, frozen=True, tag="relay"):
    """A source-routed `message` for the end of `path`; the receiver is hop `step` of it. A path has
    no broker twice, so there are no loops."""

    source: Hop
    path: Path
    step: Count
    message: Direct


class NoWay(Message, frozen=True, tag="no_way"):
    """A relay failed between hop `broken` of its path and the next; returned along the brokers
    before it, now at hop `step`, where -1 is the source."""

    source: Hop
    path: Path
    broken: Count
    step: Annotated[int, Meta(ge=-1)]
    message: Direct


OverlayMessage = Direct | Relay | NoWay
