"""The baseline: routing by tree identification (TID) over the whole cyclic overlay.

As in PADRES (Li, Muthusamy and Jacobsen, Middleware 2008; OctopiA sections II and VII): an
advertisement is flooded to all brokers under the identification of its tree; the first copy that
reaches a broker determines its place in the tree, and later ones are discarded. A subscription is
matched with the advertisements at its subscriber's broker and travels in reverse along their trees,
to which it is bound. A notification carries the tree of an advertisement and goes to wherever a
subscription is bound to it.

It is deliberately simple, as a peer for measurements: links do not fail, so that nothing is kept
until it is settled, and a notification that is published twice is delivered twice. A change of an
advertisement or a subscription is a withdrawal and a new one. A notification that satisfies several
advertisements of its publisher's broker takes the tree of the oldest: a matching subscription is
bound to each of these trees, and gets it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from agent.overlay.events import (
    Advertise,
    Deliver,
    Event,
    Instruction,
    LinkDown,
    LinkMeasured,
    LinkUp,
    Message,
    Publish,
    Received,
    Send,
    Settled,
    Subscribe,
    Tick,
    Unadvertise,
    Undeliverable,
    Unsubscribe,
)
from agent.overlay.matcher import Matcher
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import Notification
from agent.wire.predicates import Filter
from lab.overlay.tid_tables import AdvertisementTable, SubscriptionId, SubscriptionTable, Tid

# Trees of withdrawn advertisements that are remembered, some 15 MB at most. A copy of an older
# advertisement that is still in flight would be taken for a new one.
MAX_WITHDRAWN: Final = 65_536

Matching = Literal["ends", "everywhere"]
"""Which brokers match the content of a notification: those of its publisher and its subscribers,
with what is between going by the tree alone, as OctopiA describes it; or all on the way, which
costs more matching and sends nothing where nobody wants it."""


class _Struct(Struct, frozen=True, gc=False):
    pass


class TidAdvertisement(_Struct, frozen=True):
    """Flooded."""

    tid: Tid
    filter: Filter


class TidUnadvertisement(_Struct, frozen=True):
    """Flooded."""

    tid: Tid


class TidSubscription(_Struct, frozen=True):
    """One hop towards the roots of these trees, to which it is bound."""

    subscription: SubscriptionId
    filter: Filter
    tids: tuple[Tid, ...]


class TidUnsubscription(_Struct, frozen=True):
    """One hop along the paths that the subscription took from the sender."""

    subscription: SubscriptionId


class TidNotification(_Struct, frozen=True):
    """One hop along the tree."""

    tid: Tid
    notification: Notification


class _Own(Struct, frozen=True):
    number: int
    filter: Filter


class TidBroker:
    """One broker of the baseline: events in, instructions out.

    Memory: an entry for each advertisement of the overlay, one for each subscription and each last
    hop that it came from, and `max_withdrawn` trees.
    """

    def __init__(
        self,
        at: BrokerId,
        scot: Scot,
        *,
        matching: Matching = "ends",
        max_withdrawn: int = MAX_WITHDRAWN,
    ) -> None:
        """A broker of that overlay, which treats links of both kinds alike. ScotError."""
        scot.check(at)
        self.broker: Final = at
        self.next_tick: Final[float | None] = None
        # Discarded copies of floods, and notifications whose content was matched here.
        self.counters: Final = {"duplicates": 0, "matchings": 0}
        self._matching: Final = matching
        self._max_withdrawn: Final = max_withdrawn
        self._neighbours: Final = (*scot.cluster_neighbours(at), *scot.region_neighbours(at))
        self._srt = AdvertisementTable()
        self._prt = SubscriptionTable()
        self._numbers = 0
        self._advertised: dict[str, _Own] = {}
        self._announced: Matcher[Tid] = Matcher()
        self._subscribed: dict[str, _Own] = {}
        self._wanted: Matcher[tuple[str, int]] = Matcher()
        self._withdrawn: dict[Tid, None] = {}
        self._handlers: Final[dict[type, Callable[[Any], list[Instruction]]]] = {
            Received: self._received,
            Advertise: self._advertise,
            Unadvertise: self._unadvertise,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Publish: self._publish,
            LinkUp: _nothing,
            LinkDown: self._link_down,
            LinkMeasured: _nothing,
            Tick: _nothing,
        }
        self._messages: Final[dict[type, Callable[[BrokerId, Any], list[Instruction]]]] = {
            TidAdvertisement: self._on_advertisement,
            TidUnadvertisement: self._on_unadvertisement,
            TidSubscription: self._on_subscription,
            TidUnsubscription: self._on_unsubscription,
            TidNotification: self._on_notification,
        }

    @property
    def srt_entries(self) -> int:
        """(advertisement, last hop) pairs."""
        return len(self._srt)

    @property
    def prt_entries(self) -> int:
        """(subscription, last hop) pairs, including those of the subscribers here."""
        return len(self._prt)

    def handle(self, event: Event, now: float) -> list[Instruction]:  # noqa: ARG002 - the interface of all brokers
        """Handle one event; the time does not matter. ValueError for a dead link, for which the
        baseline has no detour, and for invalid filters."""
        return self._handlers[type(event)](event)

    # --- events of clients -----------------------------------------------------------------------

    def _advertise(self, event: Advertise) -> list[Instruction]:
        known = self._advertised.get(event.name)
        if known is not None and known.filter == event.filter:
            return []
        tid = Tid(self.broker, self._next_number())
        # First, because the filter may be invalid.
        self._announced.put(tid, event.filter)
        instructions = self._unadvertise(Unadvertise(event.name))
        self._advertised[event.name] = _Own(tid.number, event.filter)
        instructions += self._on_advertisement(self.broker, TidAdvertisement(tid, event.filter))
        return instructions

    def _unadvertise(self, event: Unadvertise) -> list[Instruction]:
        known = self._advertised.pop(event.name, None)
        if known is None:
            return []
        tid = Tid(self.broker, known.number)
        self._announced.remove(tid)
        return self._on_unadvertisement(self.broker, TidUnadvertisement(tid))

    def _subscribe(self, event: Subscribe) -> list[Instruction]:
        known = self._subscribed.get(event.name)
        if known is not None and known.filter == event.filter:
            return []
        number = self._next_number()
        self._wanted.put((event.name, number), event.filter)
        instructions = self._unsubscribe(Unsubscribe(event.name))
        self._subscribed[event.name] = _Own(number, event.filter)
        subscription = SubscriptionId(self.broker, number)
        tids = self._srt.intersecting(event.filter)
        return instructions + self._bind(subscription, event.filter, self.broker, tids)

    def _unsubscribe(self, event: Unsubscribe) -> list[Instruction]:
        known = self._subscribed.pop(event.name, None)
        if known is None:
            return []
        self._wanted.remove((event.name, known.number))
        withdrawn = TidUnsubscription(SubscriptionId(self.broker, known.number))
        return self._on_unsubscription(self.broker, withdrawn)

    def _publish(self, event: Publish) -> list[Instruction]:
        notification = event.notification
        trees = self._announced.match(notification.attributes)
        if not trees:
            return [Undeliverable(notification.origin, "no advertisement here announces it")]
        tid = trees[0]
        self.counters["matchings"] += 1
        hops = self._prt.matching_last_hops(tid, notification.attributes)
        return [
            *self._forward(TidNotification(tid, notification), hops),
            *self._deliver(notification, hops),
            Settled(notification.origin),
        ]

    # --- events of neighbours --------------------------------------------------------------------

    def _received(self, event: Received) -> list[Instruction]:
        return self._messages[type(event.message)](event.sender, event.message)

    def _on_advertisement(self, sender: BrokerId, message: TidAdvertisement) -> list[Instruction]:
        tid = message.tid
        if tid in self._srt or tid in self._withdrawn:
            self.counters["duplicates"] += 1
            return []
        self._srt.insert(tid, message.filter, sender)
        instructions = self._flood(message, sender)
        for name, number in self._wanted.intersecting(message.filter):
            wanted = self._subscribed[name].filter
            subscription = SubscriptionId(self.broker, number)
            instructions += self._bind(subscription, wanted, self.broker, (tid,))
        return instructions

    def _on_unadvertisement(
        self, sender: BrokerId, message: TidUnadvertisement
    ) -> list[Instruction]:
        tid = message.tid
        if tid not in self._srt:
            # Links preserve the order of messages, so the advertisement came before and is gone.
            self.counters["duplicates"] += 1
            return []
        # A copy of the advertisement may still be in flight, over a slower link.
        self._withdrawn[tid] = None
        if len(self._withdrawn) > self._max_withdrawn:
            del self._withdrawn[next(iter(self._withdrawn))]
        self._srt.remove(tid)
        self._prt.remove_tree(tid, self.broker)
        return self._flood(message, sender)

    def _on_subscription(self, sender: BrokerId, message: TidSubscription) -> list[Instruction]:
        # The tree may have been withdrawn while this was in flight.
        tids = [tid for tid in message.tids if tid in self._srt]
        return self._bind(message.subscription, message.filter, sender, tids) if tids else []

    def _on_unsubscription(self, sender: BrokerId, message: TidUnsubscription) -> list[Instruction]:
        tids = self._prt.remove(message.subscription, sender)
        return self._forward(message, self._srt.by_last_hop(tids or ()))

    def _on_notification(self, sender: BrokerId, message: TidNotification) -> list[Instruction]:  # noqa: ARG002 - trees lead away from it
        if self._matching == "ends":
            hops = self._prt.last_hops(message.tid)
        else:
            hops = self._prt.matching_last_hops(message.tid, message.notification.attributes)
        if self._matching == "everywhere" or self.broker in hops:
            self.counters["matchings"] += 1
        return [*self._forward(message, hops), *self._deliver(message.notification, hops)]

    def _link_down(self, event: LinkDown) -> list[Instruction]:
        raise ValueError(f"the link to {event.neighbour} is down, and the baseline cannot go round")

    # --- shared ----------------------------------------------------------------------------------

    def _next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _flood(self, message: Message, sender: BrokerId) -> list[Instruction]:
        return [Send(each, message) for each in self._neighbours if each != sender]

    def _forward(self, message: Message, hops: Iterable[BrokerId]) -> list[Instruction]:
        return [Send(hop, message) for hop in hops if hop != self.broker]

    def _deliver(self, notification: Notification, hops: list[BrokerId]) -> list[Instruction]:
        if self.broker not in hops:
            return []
        names = tuple(name for name, _ in self._wanted.match(notification.attributes))
        return [Deliver(names, notification)] if names else []

    def _bind(
        self, subscription: SubscriptionId, wanted: Filter, last_hop: BrokerId, tids: Sequence[Tid]
    ) -> list[Instruction]:
        self._prt.bind(subscription, wanted, last_hop, tids)
        return [
            Send(hop, TidSubscription(subscription, wanted, tuple(bound)))
            for hop, bound in self._srt.by_last_hop(tids).items()
            if hop != self.broker
        ]


def _nothing(event: Event) -> list[Instruction]:  # noqa: ARG001 - nothing is done about any of these
    return []
