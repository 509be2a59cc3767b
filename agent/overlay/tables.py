"""What a broker does with its tables: users' changes go to all that have copies, and what others
tell, ask or miss is taken in, answered and asked for.

Subscriptions go along the cluster's tree, advertisements to the region. Where a neighbour in the
cluster cannot be reached, those behind it are told; what a secondary neighbour could not be told is
said again, all together, when the link comes up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from _core.matching.civ import Civ
from agent.overlay.advertisements import Announced, Hosted, Told
from agent.overlay.anti_entropy_codec import AdvertisementUpdate, SubscriptionUpdate
from agent.overlay.events import Advertise, Subscribe, Unadvertise, Unsubscribe
from agent.overlay.scot import Broker, Scot
from agent.overlay.source_routing import Ways
from agent.overlay.subscriptions import Changed, Subscriptions
from agent.wire.overlay import (
    AdvertisementChange,
    AdvertisementPart,
    AdvertisementVersion,
    CibClear,
    CibSet,
    CibState,
    Direct,
    HomeVersion,
    SubscriptionChange,
    SubscriptionPart,
    SubscriptionVersions,
)
from agent.wire.predicates import Attributes


class Tables:
    """The subscriptions of a cluster and the advertisements of a region, at one broker.

    Messages go out by `ways`. Who was not heard of for `unknown_s` after the first `begin_turn`
    wants nothing, and keeps nothing.
    """

    def __init__(self, own: Broker, scot: Scot, epoch: int, unknown_s: float, ways: Ways) -> None:
        self._own = own
        self._scot = scot
        self._ways = ways
        self.subscriptions: Final = Subscriptions(own, scot, epoch)
        self._hosted = Hosted(own, scot.clusters, epoch)
        self._announced = Announced(own, epoch)
        self._unknown_s = unknown_s
        self._waits_for_unknown = scot.order > 1
        self.next_tick: float | None = None
        """When those that were not heard of are given up."""
        self._complete = self.subscriptions.complete
        self._now = 0.0
        self.events: Final[dict[type, Callable[[Any], None]]] = {
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Advertise: self._advertise,
            Unadvertise: self._unadvertise,
        }
        """What users do, by kind. ValueError for a filter that makes no sense or one too many; then
        nothing has changed."""
        self.messages: Final[dict[type, Callable[[Broker, Any], None]]] = {
            SubscriptionChange: self._subscription_update,
            SubscriptionPart: self._subscription_update,
            SubscriptionVersions: self._subscription_versions,
            AdvertisementChange: self._advertisement_update,
            AdvertisementPart: self._advertisement_update,
            AdvertisementVersion: self._advertisement_version,
            CibSet: self._cib,
            CibClear: self._cib,
            CibState: self._cib,
        }
        """What another broker says, by kind. ValueError if it cannot have said that."""

    # --- what they are ---------------------------------------------------------------------------

    @property
    def srt_entries(self) -> int:
        """Advertisements: its own, and those of its secondary neighbours."""
        return len(self._hosted) + len(self._announced)

    @property
    def unknown(self) -> int:
        """Homes and clusters that were never heard of."""
        return self.subscriptions.unknown + self._hosted.unheard

    @property
    def unusable(self) -> int:
        """Updates that could not be taken, and filters that could not be used."""
        return self.subscriptions.unusable + self._announced.unusable

    def targets_of(self, advertisement: str) -> list[int]:
        """The clusters with a subscription that may want it, the own one left out. KeyError."""
        return self._hosted.targets_of(advertisement)

    def targets(self, attributes: Attributes) -> tuple[Civ, list[int]] | None:
        """The clusters that may want a notification from here, and others that nobody here can
        speak for, since the link to them is down; None if nothing announces it."""
        targets = self._hosted.targets(attributes)
        if targets is None:
            return None
        beside = []
        for cluster in self._hosted.doubtful:
            if self._ways.is_up(Broker(self._own.vertex, cluster)):
                targets.set(cluster)
            elif cluster not in targets:
                beside.append(cluster)
        return targets, beside

    # --- time ------------------------------------------------------------------------------------

    def begin_turn(self, now: float) -> None:
        """It is so late now, for all that follows."""
        self._now = now
        if self._waits_for_unknown:
            self._waits_for_unknown = False
            self.next_tick = now + self._unknown_s

    def end_turn(self) -> None:
        """Who was not heard of until now may have to be given up."""
        if self._complete and not self._hosted.unheard:
            self.next_tick = None
        elif self.next_tick is not None and self._now >= self.next_tick:
            self.next_tick = None
            self._hosted.give_up_unheard()
            if not self._complete:
                self._complete = True
                self.subscriptions.give_up_unknown()
                self._tell_states()

    # --- here ------------------------------------------------------------------------------------

    def _subscribe(self, event: Subscribe) -> None:
        self._changed(self.subscriptions.subscribe(event.name, event.filter), self._own)

    def _unsubscribe(self, event: Unsubscribe) -> None:
        self._changed(self.subscriptions.unsubscribe(event.name), self._own)

    def _advertise(self, event: Advertise) -> None:
        self._tell_region(self._hosted.advertise(event.name, event.filter))

    def _unadvertise(self, event: Unadvertise) -> None:
        self._tell_region(self._hosted.unadvertise(event.name))

    # --- links -----------------------------------------------------------------------------------

    def link_up(self, neighbour: Broker) -> None:
        """Both ends say which versions they have, and a cluster what it wants."""
        if neighbour.cluster == self._own.cluster:
            self._send(neighbour, self.subscriptions.versions())
        else:
            self._send(neighbour, self._announced.version(neighbour))
            self._tell(self._announced.state(neighbour, self.subscriptions))

    def link_down(self, neighbour: Broker) -> None:
        """What its cluster wants from now on may not be told here."""
        if neighbour.cluster != self._own.cluster:
            self._hosted.link_down(neighbour.cluster)

    def returned(self, to: Broker, message: Direct) -> None:
        """A message that did not find its way to that broker."""
        if isinstance(message, SubscriptionChange | SubscriptionPart):
            self._pass_on(to, message)
        else:
            self._send(to, message)

    def _send(self, to: Broker, message: Direct) -> bool:
        return self._ways.send(to, message, self._now)

    # --- subscriptions ---------------------------------------------------------------------------

    def _subscription_update(self, source: Broker, message: SubscriptionUpdate) -> None:
        self._check_cluster(source)
        if message.home == self._own.vertex:
            self._outbid(HomeVersion(message.home, message.epoch, message.version))
            return
        toward = self.subscriptions.toward(message.home)
        # Others may tell of it as well: as long as that link is up, they are not believed.
        if self._scot.next_vertex(self._own.vertex, source.vertex) != toward.vertex and (
            self._ways.is_up(toward) and self.subscriptions.knows(message.home)
        ):
            return
        changed = self.subscriptions.take(message)
        if changed is None:
            self._send(source, self.subscriptions.versions(message.home))
        else:
            self._changed(changed, source)

    def _subscription_versions(self, source: Broker, message: SubscriptionVersions) -> None:
        self._check_cluster(source)
        self._outbid(*message.homes)
        for update in self.subscriptions.newer(message):
            self._send(source, update)

    def _outbid(self, *versions: HomeVersion) -> None:
        """Somebody knows a later set of this broker than there can be: go above it, tell all."""
        if self.subscriptions.outbid(versions):
            self._tell_cluster(self.subscriptions.own_set(), self._own)
            self._begin(self.subscriptions.epoch)

    def _check_cluster(self, source: Broker) -> None:
        if source.cluster != self._own.cluster:
            raise ValueError(f"{source} is in another cluster")

    def _changed(self, changed: Changed | None, source: Broker) -> None:
        if changed is None:
            return
        self._tell_cluster(changed.updates, source)
        # First what came, so that no bit goes and comes back.
        for wanted in changed.added:
            self._tell(self._announced.subscribed(wanted, self.subscriptions))
        for wanted in changed.removed:
            self._tell(self._announced.unsubscribed(wanted, self.subscriptions))
        if not self._complete and self.subscriptions.complete:
            self._complete = True
            self._tell_states()

    def _tell_cluster(self, updates: Iterable[SubscriptionUpdate], source: Broker) -> None:
        """To all neighbours in the cluster, but not back."""
        at = self._own.vertex
        came_from = None if source == self._own else self._scot.next_vertex(at, source.vertex)
        for neighbour in self._scot.cluster_neighbours(self._own):
            if neighbour.vertex != came_from:
                for update in updates:
                    self._pass_on(neighbour, update)

    def _pass_on(self, to: Broker, update: SubscriptionUpdate) -> None:
        """If there is no way to that broker, to those behind it."""
        waiting = [to]
        while waiting:
            each = waiting.pop()
            if self._send(each, update) or self._scot.clusters == 1 or self._ways.alone:
                continue
            back = self._scot.next_vertex(each.vertex, self._own.vertex)
            behind = self._scot.cluster_neighbours(each)
            waiting += (other for other in behind if other.vertex != back)

    # --- advertisements --------------------------------------------------------------------------

    def _tell_region(self, update: AdvertisementUpdate | None) -> None:
        if update is not None:
            for neighbour in self._scot.region_neighbours(self._own):
                self._send(neighbour, update)

    def _advertisement_update(self, source: Broker, message: AdvertisementUpdate) -> None:
        self._check_region(source)
        told = self._announced.take(source, message, self.subscriptions)
        if told is None:
            self._send(source, self._announced.version(source))
        else:
            self._tell(told)

    def _advertisement_version(self, source: Broker, message: AdvertisementVersion) -> None:
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

    def _cib(self, source: Broker, message: CibSet | CibClear | CibState) -> None:
        self._check_region(source)
        self._hosted.heard(source.cluster, message, up=self._ways.is_up(source))

    def _check_region(self, source: Broker) -> None:
        if source.vertex != self._own.vertex or source.cluster == self._own.cluster:
            raise ValueError(f"{source} is no secondary neighbour of {self._own}")

    def _tell(self, told: Iterable[Told]) -> None:
        """Without a way it is said again, all together, when the link comes up."""
        for to, message in told:
            self._send(to, message)

    def _tell_states(self) -> None:
        for neighbour in self._scot.region_neighbours(self._own):
            self._tell(self._announced.state(neighbour, self.subscriptions))
