"""A broker of the overlay: a state machine without sockets and clocks (OctopiA).

Tables are `agent.overlay.subscriptions` and `agent.overlay.advertisements`, notifications
`agent.overlay.forwarding`, what must not be lost `agent.overlay.custody`, links that are down
`agent.overlay.ways`.

Links are in order and lose nothing while they are up. A broker that restarts has empty tables and a
higher epoch; its shell gives it the subscriptions and advertisements again before the first
`LinkUp`, or others would for a moment see a home that wants nothing; then what was published and
not settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from _core.civ import Civ
from agent.overlay import scot as overlay
from agent.overlay.advertisements import Announced, Hosted, Told
from agent.overlay.events import (
    Advertise,
    Event,
    Instruction,
    LinkDown,
    LinkMeasured,
    LinkUp,
    Publish,
    Received,
    Subscribe,
    Tick,
    Unadvertise,
    Undeliverable,
    Unsubscribe,
)
from agent.overlay.forwarding import Forwarding, Routing
from agent.overlay.limits import Limits
from agent.overlay.scot import Scot
from agent.overlay.subscriptions import Changed, Subscriptions
from agent.overlay.updates import AdvertisementUpdate, SubscriptionUpdate
from agent.overlay.ways import Ways
from agent.wire.overlay import (
    AdvertisementChange,
    AdvertisementPart,
    AdvertisementVersion,
    CibClear,
    CibSet,
    CibState,
    Direct,
    Have,
    HomeVersion,
    Notify,
    NoWay,
    Relay,
    SubscriptionChange,
    SubscriptionPart,
    SubscriptionVersions,
)

NOT_ADVERTISED: Final = "no advertisement of this broker announces it: advertise it first"


class Broker:
    """One broker: `handle` events, carry out the instructions, `Tick` at `next_tick`.

    Deterministic: equal events in equal order give equal instructions. Memory: the subscriptions of
    its cluster, the advertisements of its region, and what `limits` allow.
    """

    def __init__(
        self,
        at: overlay.Broker,
        scot: Scot,
        *,
        epoch: int,
        routing: Routing = "idr",
        limits: Limits | None = None,
    ) -> None:
        """`epoch` is at least 1, and higher than at any earlier start. ScotError if the overlay has
        no such broker."""
        scot.check(at)
        self.broker: Final = at
        self._scot = scot
        self._limits = limits or Limits()
        self._out: list[Instruction] = []
        self._subscriptions = Subscriptions(at, scot, epoch)
        self._hosted = Hosted(at, scot.clusters, epoch)
        self._announced = Announced(at, epoch)
        self._ways = Ways(at, scot, self._out)
        self._forwarding = Forwarding(
            at, scot, routing, self._limits, self._subscriptions, self._ways, self._out
        )
        self._unknown_until: float | None = None
        self._waits_for_unknown = scot.order > 1
        self._complete = self._subscriptions.complete
        self._malformed = 0
        self._not_advertised = 0
        self._now = 0.0
        self._events: dict[type, Callable[[Any], None]] = {
            Received: self._received,
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Advertise: self._advertise,
            Unadvertise: self._unadvertise,
            Publish: self._publish,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            LinkMeasured: self._forwarding.measured,
            Tick: lambda _: None,
        }
        self._messages: dict[type, Callable[[overlay.Broker, Any], None]] = {
            SubscriptionChange: self._subscription_update,
            SubscriptionPart: self._subscription_update,
            SubscriptionVersions: self._subscription_versions,
            AdvertisementChange: self._advertisement_update,
            AdvertisementPart: self._advertisement_update,
            AdvertisementVersion: self._advertisement_version,
            CibSet: self._cib,
            CibClear: self._cib,
            CibState: self._cib,
            Notify: self._notify,
            Have: self._have,
        }

    # --- what it is ------------------------------------------------------------------------------

    @property
    def srt_entries(self) -> int:
        """Advertisements: its own, and those of its secondary neighbours."""
        return len(self._hosted) + len(self._announced)

    @property
    def prt_entries(self) -> int:
        """Subscriptions: those of its cluster."""
        return len(self._subscriptions)

    def targets_of(self, advertisement: str) -> list[int]:
        """The clusters with a subscription that may want it, the own one left out. KeyError."""
        return self._hosted.targets_of(advertisement)

    @property
    def held(self) -> int:
        """Notifications in custody."""
        return len(self._forwarding.custody)

    @property
    def counters(self) -> dict[str, int]:
        """Since the start, for metrics; `held` and `unknown` (homes and clusters that were never
        heard of) are now."""
        ways, forwarding = self._ways, self._forwarding
        return {
            "delivered": forwarding.delivered,
            "given_up": forwarding.given_up,
            "held": self.held,
            "lost_relays": ways.lost,
            "malformed": self._malformed,
            "not_advertised": self._not_advertised,
            "relayed": ways.relayed,
            "repeated": forwarding.repeated,
            "resent": forwarding.resent,
            "returned": ways.returned,
            "unknown": self._subscriptions.unknown + self._hosted.unheard,
            "unusable": self._subscriptions.unusable + self._announced.unusable,
            "without_way": forwarding.without_way,
        }

    @property
    def next_tick(self) -> float | None:
        """When it wants a `Tick`, in seconds of the clock of `handle`."""
        due = self._forwarding.next_tick
        if self._unknown_until is None:
            return due
        return self._unknown_until if due is None else min(due, self._unknown_until)

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """What to do about it, in this order. `now` is in seconds and never goes back. ValueError
        for a filter that makes no sense or one too many, in an `Advertise` or `Subscribe`; then
        nothing has changed."""
        self._now = now
        if self._waits_for_unknown:
            self._waits_for_unknown = False
            self._unknown_until = now + self._limits.unknown_s
        try:
            self._events[type(event)](event)
            self._tick()
            self._forwarding.flush(now)
            return list(self._out)
        finally:
            self._out.clear()

    def _tick(self) -> None:
        if self._complete and not self._hosted.unheard:
            self._unknown_until = None
        elif self._unknown_until is not None and self._now >= self._unknown_until:
            self._unknown_until = None
            self._hosted.give_up_unheard()
            if not self._complete:
                self._complete = True
                self._subscriptions.give_up_unknown()
                self._tell_states()
        self._forwarding.tick(self._now)

    # --- here ------------------------------------------------------------------------------------

    def _subscribe(self, event: Subscribe) -> None:
        self._changed(self._subscriptions.subscribe(event.name, event.filter), self.broker)

    def _unsubscribe(self, event: Unsubscribe) -> None:
        self._changed(self._subscriptions.unsubscribe(event.name), self.broker)

    def _advertise(self, event: Advertise) -> None:
        self._tell_region(self._hosted.advertise(event.name, event.filter))

    def _unadvertise(self, event: Unadvertise) -> None:
        self._tell_region(self._hosted.unadvertise(event.name))

    def _publish(self, event: Publish) -> None:
        notification = event.notification
        targets = self._hosted.targets(notification.attributes)
        if targets is None:
            self._not_advertised += 1
            self._out.append(Undeliverable(notification.origin, NOT_ADVERTISED))
        else:
            beside = []
            for cluster in self._hosted.doubtful:
                if self._ways.is_up(overlay.Broker(self.broker.vertex, cluster)):
                    targets.set(cluster)
                elif cluster not in targets:
                    beside.append(cluster)
            self._forwarding.take(None, notification, targets, self._now, beside)

    # --- links -----------------------------------------------------------------------------------

    def _link_up(self, event: LinkUp) -> None:
        neighbour = event.neighbour
        if self._scot.link_kind(self.broker, neighbour) is None:
            raise ValueError(f"{neighbour} is no neighbour of {self.broker}")
        self._ways.link_up(neighbour)
        if neighbour.cluster == self.broker.cluster:
            self._send(neighbour, self._subscriptions.versions())
        else:
            self._send(neighbour, self._announced.version(neighbour))
            self._tell(self._announced.state(neighbour, self._subscriptions))
        self._forwarding.link_up(neighbour, self._now)

    def _link_down(self, event: LinkDown) -> None:
        self._ways.link_down(event.neighbour)
        if event.neighbour.cluster != self.broker.cluster:
            self._hosted.link_down(event.neighbour.cluster)
        self._forwarding.link_down(event.neighbour, self._now)

    def _send(self, to: overlay.Broker, message: Direct) -> bool:
        return self._ways.send(to, message, self._now)

    # --- messages --------------------------------------------------------------------------------

    def _received(self, event: Received) -> None:
        sender, message = event.sender, event.message
        try:
            if isinstance(message, Relay):
                came = self._ways.relay(sender, message)
                if came is not None:
                    self._direct(self._checked(message.source), came)
            elif isinstance(message, NoWay):
                end = self._checked(message.path[-1])
                back = self._ways.no_way(sender, message, self._now)
                if back is not None:
                    self._returned(end, back)
            else:
                self._direct(self._checked(sender), message)
        except ValueError:
            # Of an overlay with other factors, perhaps; what it means is not to be guessed.
            self._malformed += 1

    def _checked(self, other: tuple[str, int]) -> overlay.Broker:
        self._scot.check(other)
        if other == self.broker:
            raise ValueError("a message from here, or back to here")
        return overlay.Broker(*other)

    def _direct(self, source: overlay.Broker, message: Direct) -> None:
        self._messages[type(message)](source, message)

    def _returned(self, to: overlay.Broker, message: Direct) -> None:
        if isinstance(message, Notify):
            self._forwarding.returned(message.notification.origin, to, self._now)
        elif isinstance(message, SubscriptionChange | SubscriptionPart):
            self._pass_on(to, message)
        else:
            self._send(to, message)

    def _notify(self, source: overlay.Broker, message: Notify) -> None:
        clusters = self._clusters(message.clusters)
        self._forwarding.take(source, message.notification, clusters, self._now)

    def _have(self, source: overlay.Broker, message: Have) -> None:
        parts = [(each.origin, self._clusters(each.clusters)) for each in message.parts]
        self._forwarding.kept(source, parts, self._now)

    def _clusters(self, vector: bytes) -> Iterable[int]:
        return Civ.from_bytes(self._scot.clusters, vector) if vector else ()

    # --- subscriptions ---------------------------------------------------------------------------

    def _subscription_update(self, source: overlay.Broker, message: SubscriptionUpdate) -> None:
        self._check_cluster(source)
        if message.home == self.broker.vertex:
            self._outbid(HomeVersion(message.home, message.epoch, message.version))
            return
        toward = self._subscriptions.toward(message.home)
        # Others may tell of it as well: as long as that link is up, they are not believed.
        if self._forwarding.custody.direction(source) != toward.vertex and (
            self._ways.is_up(toward) and self._subscriptions.knows(message.home)
        ):
            return
        changed = self._subscriptions.take(message)
        if changed is None:
            self._send(source, self._subscriptions.versions(message.home))
        else:
            self._changed(changed, source)

    def _subscription_versions(self, source: overlay.Broker, message: SubscriptionVersions) -> None:
        self._check_cluster(source)
        self._outbid(*message.homes)
        for update in self._subscriptions.newer(message):
            self._send(source, update)

    def _outbid(self, *versions: HomeVersion) -> None:
        """Somebody knows a later set of this broker than there can be: go above it, tell all."""
        if self._subscriptions.outbid(versions):
            self._tell_cluster(self._subscriptions.own_set(), self.broker)
            self._begin(self._subscriptions.epoch)

    def _check_cluster(self, source: overlay.Broker) -> None:
        if source.cluster != self.broker.cluster:
            raise ValueError(f"{source} is in another cluster")

    def _changed(self, changed: Changed | None, source: overlay.Broker) -> None:
        if changed is None:
            return
        self._tell_cluster(changed.updates, source)
        # First what came, so that no bit goes and comes back.
        for wanted in changed.added:
            self._tell(self._announced.subscribed(wanted, self._subscriptions))
        for wanted in changed.removed:
            self._tell(self._announced.unsubscribed(wanted, self._subscriptions))
        if not self._complete and self._subscriptions.complete:
            self._complete = True
            self._tell_states()

    def _tell_cluster(self, updates: Iterable[SubscriptionUpdate], source: overlay.Broker) -> None:
        """To all neighbours in the cluster, but not back."""
        came_from = None if source == self.broker else self._forwarding.custody.direction(source)
        for neighbour in self._scot.cluster_neighbours(self.broker):
            if neighbour.vertex != came_from:
                for update in updates:
                    self._pass_on(neighbour, update)

    def _pass_on(self, to: overlay.Broker, update: SubscriptionUpdate) -> None:
        """If there is no way to that broker, to those behind it."""
        waiting = [to]
        while waiting:
            each = waiting.pop()
            if self._send(each, update) or self._scot.clusters == 1 or self._ways.alone:
                continue
            back = self._scot.next_vertex(each.vertex, self.broker.vertex)
            behind = self._scot.cluster_neighbours(each)
            waiting += (other for other in behind if other.vertex != back)

    # --- advertisements --------------------------------------------------------------------------

    def _tell_region(self, update: AdvertisementUpdate | None) -> None:
        if update is not None:
            for neighbour in self._scot.region_neighbours(self.broker):
                self._send(neighbour, update)

    def _advertisement_update(self, source: overlay.Broker, message: AdvertisementUpdate) -> None:
        self._check_region(source)
        told = self._announced.take(source, message, self._subscriptions)
        if told is None:
            self._send(source, self._announced.version(source))
        else:
            self._tell(told)

    def _advertisement_version(self, source: overlay.Broker, message: AdvertisementVersion) -> None:
        self._check_region(source)
        updates, outbid = self._hosted.updates(message)
        for update in updates:
            if outbid:
                self._tell_region(update)
            else:
                self._send(source, update)
        if outbid:
            self._begin(self._hosted.epoch)

    def _begin(self, epoch: int) -> None:
        """An epoch that is higher than that of this start, which somebody knew a later one of."""
        if self._announced.begin(epoch):
            self._tell_states()

    def _cib(self, source: overlay.Broker, message: CibSet | CibClear | CibState) -> None:
        self._check_region(source)
        self._hosted.heard(source.cluster, message, up=self._ways.is_up(source))

    def _check_region(self, source: overlay.Broker) -> None:
        if source.vertex != self.broker.vertex or source.cluster == self.broker.cluster:
            raise ValueError(f"{source} is no secondary neighbour of {self.broker}")

    def _tell(self, told: Iterable[Told]) -> None:
        """Without a way it is said again, all together, when the link comes up."""
        for to, message in told:
            self._send(to, message)

    def _tell_states(self) -> None:
        for neighbour in self._scot.region_neighbours(self.broker):
            self._tell(self._announced.state(neighbour, self._subscriptions))
