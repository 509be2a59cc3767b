"""What the brokers of the overlay say to each other.

Tables first, then notifications, then what goes round a link that is down. A set of subscriptions
or advertisements is its home's alone to change: it has the home's `epoch`, which is higher after
each restart, and a `version`, one higher after each change (`agent.overlay.anti_entropy`). An
entry's `key` is a number that stays through changes of its filter, and is not given again in an
epoch.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agent.wire.base import Count, Identifier, Message, Name, Part, WallMs
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
# Far above any time in seconds, and room above it.
Epoch = Annotated[int, Meta(ge=0, lt=1 << 48)]
# Of one broker, later ones are greater: its epoch, and how many it gave before.
Stamp = tuple[Epoch, Count]


class Origin(Part, frozen=True, array_like=True):
    """Which notification it is, everywhere and however often it comes: of the IAD `publisher`,
    number `sequence` of a random `history`, which does not tell whose it is."""

    publisher: Name
    history: Identifier
    sequence: Count


class Notification(Part, frozen=True):
    """Something that happened, for whoever wants to know."""

    origin: Origin
    time_ms: WallMs
    attributes: Attributes


# --- tables --------------------------------------------------------------------------------------

# Of a subscription or an advertisement, between brokers; what its home calls it stays there.
Key = Count
Entries = Annotated[tuple[tuple[Key, Filter], ...], Meta(max_length=MAX_ENTRIES)]


class SubscriptionChange(Message, frozen=True, tag="subscription_change", omit_defaults=True):
    """A subscription of the broker of vertex `home` in this cluster came, changed or, without a
    `filter`, went; told on along the cluster's tree."""

    home: Name
    epoch: Epoch
    version: Count
    key: Key
    filter: Filter | None = None


class SubscriptionPart(Message, frozen=True, tag="subscription_part"):
    """Of all `total` subscriptions of that broker, those from position `start` on."""

    home: Name
    epoch: Epoch
    version: Count
    start: Count
    total: Count
    entries: Entries


class HomeVersion(Part, frozen=True, array_like=True):
    """Which set of that broker's subscriptions the sender has; 0, 0: none."""

    home: Name
    epoch: Epoch
    version: Count


class SubscriptionVersions(Message, frozen=True, tag="subscription_versions"):
    """What the sender has; it wants what is newer of these homes, and if `all_homes` of all others
    too."""

    homes: Annotated[tuple[HomeVersion, ...], Meta(max_length=MAX_HOMES)]
    all_homes: bool


class AdvertisementChange(Message, frozen=True, tag="advertisement_change", omit_defaults=True):
    """An advertisement of the sender came, changed or, without a `filter`, went."""

    epoch: Epoch
    version: Count
    key: Key
    filter: Filter | None = None


class AdvertisementPart(Message, frozen=True, tag="advertisement_part"):
    """Of all `total` advertisements of the sender, those from position `start` on."""

    epoch: Epoch
    version: Count
    start: Count
    total: Count
    entries: Entries


class AdvertisementVersion(Message, frozen=True, tag="advertisement_version"):
    """Which set of the receiver's advertisements the sender has; 0, 0: none. It wants a newer
    one."""

    epoch: Epoch
    version: Count


class CibSet(Message, frozen=True, tag="cib_set"):
    """The sender's cluster has a subscription that may want what this advertisement of the receiver
    announces, and had none."""

    epoch: Epoch
    key: Key
    stamp: Stamp


class CibClear(Message, frozen=True, tag="cib_clear"):
    """It has none any more."""

    epoch: Epoch
    key: Key
    stamp: Stamp


class CibState(Message, frozen=True, tag="cib_state"):
    """Of the receiver's advertisements that the sender knows, which may be wanted in its cluster,
    and which are not."""

    epoch: Epoch
    wanted: Annotated[tuple[Key, ...], Meta(max_length=MAX_ENTRIES)]
    unwanted: Annotated[tuple[Key, ...], Meta(max_length=MAX_ENTRIES)]
    stamp: Stamp


# --- notifications -------------------------------------------------------------------------------


class Notify(Message, frozen=True, tag="notify"):
    """A copy: for the subscribers of the receiver's cluster that lie behind it, and for the
    `clusters`, which it has to serve too."""

    notification: Notification
    clusters: Clusters


class Kept(Part, frozen=True, array_like=True):
    """Of these `clusters`, as far as the receiver asked for it, every subscriber's home has it; of
    none yet, the sender keeps it."""

    origin: Origin
    clusters: Clusters


class Have(Message, frozen=True, tag="have"):
    """The sender and all behind it have these: the receiver need not keep them for it."""

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

# --- round what is down --------------------------------------------------------------------------


class Relay(Message, frozen=True, tag="relay"):
    """To be handed on along `path`, which ends where `message` belongs; the receiver is hop `step`
    of it. A path has no broker twice, so nothing goes in circles."""

    source: Hop
    path: Path
    step: Count
    message: Direct


class NoWay(Message, frozen=True, tag="no_way"):
    """A relay could not go on from hop `broken` of its path to the next; on its way back along the
    brokers before it, now at hop `step`, -1 being its source."""

    source: Hop
    path: Path
    broken: Count
    step: Annotated[int, Meta(ge=-1)]
    message: Direct


OverlayMessage = Direct | Relay | NoWay
