"""Replication of a broker's routing tables: propagates local changes, applies and requests remote
ones.

Subscriptions propagate along the cluster's tree, advertisements to the region. If a neighbour in
the cluster cannot be reached, the brokers behind it are told directly; what a secondary neighbour
could not be told is sent again as one state when the link comes up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable
from typing import Any, Final

from _core.matching.civ import Civ
from agent.overlay.advertisements import Announced, Hosted, Told
from agent.overlay.anti_entropy import NOTHING, Version
from agent.overlay.anti_entropy_codec import AdvertisementUpdate, SubscriptionUpdate
from agent.overlay.events import Advertise, Subscribe, Unadvertise, Unsubscribe
from agent.overlay.scot import BrokerId, Scot
from agent.overlay.source_routing import SourceRouter
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

# Each claim of a later set of this broker has the whole set told to its cluster or region.
OUTBID_S: Final = 10.0
# Between slices of some 2 ms, so that what a neighbour changes takes a tenth of the time: only the
# first one is charged to it.
SLICE_PAUSE_S: Final = 0.02


# A question has 60 bytes, its answer up to 32 MB for each home, which takes 50 ms.
ANSWERED_BYTES_PER_S: Final = float(1 << 24)
ANSWERS_AHEAD_S: Final = 0.06  # 1 MiB at once


class _Claims:
    """Later versions of a set of this broker than it ever had, as others claim: the latest is
    outbid, the first one at once, those that follow it after `OUTBID_S`."""

    __slots__ = ("_free_s", "_latest")

    def __init__(self) -> None:
        self._latest = NOTHING
        self._free_s = -math.inf

    def add(self, version: Version) -> None:
        """Somebody claims this version, or `NOTHING`."""
        self._latest = max(self._latest, version)

    @property
    def next_due(self) -> float | None:
        """When the latest is to be outbid."""
        return None if self._latest == NOTHING else self._free_s

    def take(self, now: float) -> Version:
        """The version to outbid now, or `NOTHING`."""
        if self._latest == NOTHING or now < self._free_s:
            return NOTHING
        self._free_s = now + OUTBID_S
        latest, self._latest = self._latest, NOTHING
        return latest


class _Questions:
    """Brokers that lack some of the cluster's subscriptions, and the versions that they have. They
    are answered one after another; what a broker asks before its answer is answered with it."""

    __slots__ = ("_busy_until_s", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[BrokerId, SubscriptionVersions] = {}
        self._busy_until_s = -math.inf

    def add(self, source: BrokerId, asked: SubscriptionVersions, homes: Container[str]) -> None:
        """That broker has these versions, of which those of `homes` count."""
        known = {each.home: each for each in asked.homes if each.home in homes}
        every = asked.all_homes
        if not every and (before := self._waiting.get(source)) is not None:
            known = {each.home: each for each in before.homes} | known
            every = before.all_homes
        self._waiting[source] = SubscriptionVersions(tuple(known.values()), every)

    def drop(self, source: BrokerId) -> None:
        """It asks again when its link comes up."""
        self._waiting.pop(source, None)

    @property
    def next_due(self) -> float | None:
        """When the next one is to be answered."""
        return self._busy_until_s - ANSWERS_AHEAD_S if self._waiting else None

    def take(self, now: float) -> tuple[BrokerId, SubscriptionVersions] | None:
        """The next one, if it is to be answered now; `answered` follows."""
        if not self._waiting or now < self._busy_until_s - ANSWERS_AHEAD_S:
            return None
        source = next(iter(self._waiting))
        return source, self._waiting.pop(source)

    def answered(self, size: int, now: float) -> None:
        """The answer has so many bytes."""
        self._busy_until_s = max(now, self._busy_until_s) + size / ANSWERED_BYTES_PER_S


class Tables:
    """The subscriptions of a cluster and the advertisements of a region, at one broker.

    Messages are sent through `source_router`. A broker that was not heard of for `unknown_s` after
    the first `begin_turn` is taken to want nothing and to have nothing.
    """

    def __init__(
        self,
        own: BrokerId,
        scot: Scot,
        epoch: int,
        unknown_s: float,
        source_router: SourceRouter,
        wall: Callable[[], float],
    ) -> None:
        self._own = own
        self._scot = scot
        self._source_router = source_router
        self.subscriptions: Final = Subscriptions(own, scot, epoch, wall)
        self._hosted = Hosted(own, scot.clusters, epoch, wall)
        self._announced = Announced(own, epoch, wall)
        self._unknown_s = unknown_s
        self._waits_for_unknown = scot.order > 1
        self._give_up_s: float | None = None
        self._questions = _Questions()
        self._claims = _Claims()
        self._claims_of_hosted = _Claims()
        self._complete = self.subscriptions.complete
        self._now = 0.0
        # The neighbour whose message is being handled.
        self.sender: BrokerId | None = None
        self._next_slice_s = 0.0
        # Whether the next slice is one of advertisements, if there is anything to test.
        self._announced_next = False
        self.events: Final[dict[type, Callable[[Any], None]]] = {
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Advertise: self._advertise,
            Unadvertise: self._unadvertise,
        }
        """Changes by users, by kind. ValueError for a senseless filter or one too many; then
        nothing has changed."""
        self.messages: Final[dict[type, Callable[[BrokerId, Any], None]]] = {
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
        """Changes by another broker, by kind. ValueError if it cannot have said that."""

    # --- state -----------------------------------------------------------------------------------

    @property
    def srt_entries(self) -> int:
        """Advertisements: its own, and those of its secondary neighbours."""
        return len(self._hosted) + len(self._announced)

    @property
    def unknown(self) -> int:
        """Number of homes and clusters not heard of yet."""
        return self.subscriptions.unknown + self._hosted.unheard

    @property
    def unusable(self) -> int:
        """Number of updates that could not be applied, and of filters that could not be used."""
        return self.subscriptions.unusable + self._announced.unusable

    def targets_of(self, advertisement: str) -> list[int]:
        """The clusters with a subscription that may match, without the own one. KeyError."""
        return self._hosted.targets_of(advertisement)

    def targets(self, attributes: Attributes) -> tuple[Civ, list[int]] | None:
        """The clusters that may want a notification from here, and those whose wishes are unknown
        because the link to them is down; None if no advertisement covers it."""
        targets = self._hosted.targets(attributes)
        if targets is None:
            return None
        beside = []
        for cluster in self._hosted.doubtful:
            if self._source_router.is_up(BrokerId(self._own.vertex, cluster)):
                targets.set(cluster)
            elif cluster not in targets:
                beside.append(cluster)
        return targets, beside

    # --- time ------------------------------------------------------------------------------------

    @property
    def next_tick(self) -> float | None:
        """When those that were not heard of are given up, or a claim is outbid, or more of a
        change is to be taken in."""
        behind = self.subscriptions.is_behind or self._announced.is_behind
        slice_s = self._next_slice_s if behind else None
        due = (
            self._give_up_s,
            self._claims.next_due,
            self._claims_of_hosted.next_due,
            slice_s,
            self._questions.next_due,
        )
        return min((each for each in due if each is not None), default=None)

    def begin_turn(self, now: float) -> None:
        """Set the time for everything that follows."""
        self._now = now
        if self._waits_for_unknown:
            self._waits_for_unknown = False
            self._give_up_s = now + self._unknown_s

    def end_turn(self) -> None:
        """Outbid what is claimed of this broker's own sets, give up the homes and clusters that
        have not been heard of in time, take in more of what was changed, and answer."""
        self._outbid()
        self._answer()
        self._end_waiting()
        self._catch_up()

    def _end_waiting(self) -> None:
        if self._complete and not self._hosted.unheard:
            self._give_up_s = None
        elif self._give_up_s is not None and self._now >= self._give_up_s:
            self._give_up_s = None
            self._hosted.give_up_unheard()
            if not self._complete:
                self._complete = True
                self.subscriptions.give_up_unknown()
                self._tell_states()

    # --- users of this broker --------------------------------------------------------------------

    def _subscribe(self, event: Subscribe) -> None:
        self._changed(self.subscriptions.subscribe(event.name, event.filter), self._own)

    def _unsubscribe(self, event: Unsubscribe) -> None:
        self._changed(self.subscriptions.unsubscribe(event.name), self._own)

    def _advertise(self, event: Advertise) -> None:
        self._tell_region(self._hosted.advertise(event.name, event.filter))

    def _unadvertise(self, event: Unadvertise) -> None:
        self._tell_region(self._hosted.unadvertise(event.name))

    # --- links -----------------------------------------------------------------------------------

    def link_up(self, neighbour: BrokerId) -> None:
        """Both ends exchange their versions, and a cluster states what it wants."""
        if neighbour.cluster == self._own.cluster:
            self._send(neighbour, self.subscriptions.versions())
        else:
            self._hosted.link_up(neighbour.cluster)
            self._send(neighbour, self._announced.version(neighbour))
            self._announced.state(neighbour, self.subscriptions)

    def link_down(self, neighbour: BrokerId) -> None:
        """New subscriptions of its cluster may not be reported to this broker from now on."""
        if neighbour.cluster != self._own.cluster:
            self._hosted.link_down(neighbour.cluster)
        else:
            self._questions.drop(neighbour)

    def returned(self, to: BrokerId, message: Direct) -> None:
        """A message did not find a path to that broker."""
        if isinstance(message, SubscriptionChange | SubscriptionPart):
            self._pass_on(to, message)
        else:
            self._send(to, message)

    def _send(self, to: BrokerId, message: Direct) -> bool:
        return self._source_router.send(to, message, self._now)

    # --- subscriptions ---------------------------------------------------------------------------

    def _subscription_update(self, source: BrokerId, message: SubscriptionUpdate) -> None:
        self._check_cluster(source)
        if message.home == self._own.vertex:
            claimed = HomeVersion(message.home, message.epoch, message.version)
            self._claims.add(self.subscriptions.later([claimed]))
            return
        toward = self.subscriptions.toward(message.home)
        # Other brokers may report it as well: as long as that link is up, they are not believed.
        if self._scot.next_vertex(self._own.vertex, source.vertex) != toward.vertex and (
            self._source_router.is_up(toward) and self.subscriptions.knows(message.home)
        ):
            return
        changed = self.subscriptions.take(message)
        if changed is None:
            self._send(source, self.subscriptions.versions(message.home))
        else:
            self._changed(changed, source)

    def _subscription_versions(self, source: BrokerId, message: SubscriptionVersions) -> None:
        self._check_cluster(source)
        self._claims.add(self.subscriptions.later(message.homes))
        self._questions.add(source, message, self._scot.tree)
        self._answer()

    def _answer(self) -> None:
        while (taken := self._questions.take(self._now)) is not None:
            source, asked = taken
            updates, size = self.subscriptions.newer(asked, source.vertex)
            self._questions.answered(size, self._now)
            for update in updates:
                self._send(source, update)

    def _outbid(self) -> None:
        """Another broker knows a later set of this broker than it ever had: raise the epoch, and
        tell all."""
        if self.subscriptions.outbid(self._claims.take(self._now)):
            self._tell_cluster(self.subscriptions.own_set(), self._own)
            self._begin(self.subscriptions.epoch)
        if self._hosted.outbid(self._claims_of_hosted.take(self._now)):
            for update in self._hosted.updates(NOTHING):
                self._tell_region(update)
            self._begin(self._hosted.epoch)

    def _check_cluster(self, source: BrokerId) -> None:
        if source.cluster != self._own.cluster:
            raise ValueError(f"{source} is in another cluster")

    def _changed(self, changed: Changed | None, source: BrokerId) -> None:
        if changed is None:
            return
        self._tell_cluster(changed.updates, source)
        self._announced.subscriptions_changed(changed.added, changed.removed)
        if not self._complete and self.subscriptions.complete:
            self._complete = True
            self._tell_states()

    def _catch_up(self) -> None:
        """What changes concern is found in slices, of which this is one: a neighbour's message may
        change a whole table."""
        if self._now < self._next_slice_s:
            return
        subscriptions, announced = self.subscriptions, self._announced
        # A neighbour that changes subscriptions without end must not keep others from being heard.
        turn = self._announced_next and announced.doubts
        if subscriptions.is_behind and not turn:
            self._changed(subscriptions.catch_up(), self._own)
        # What is not known yet of subscriptions would have to be looked for once more.
        if turn or not subscriptions.is_behind:
            self._tell(announced.catch_up(subscriptions))
        self._announced_next = not turn
        if subscriptions.is_behind or announced.is_behind:
            self._next_slice_s = self._now + SLICE_PAUSE_S

    def _tell_cluster(self, updates: Iterable[SubscriptionUpdate], source: BrokerId) -> None:
        """Send to all neighbours in the cluster except the one it came from."""
        at = self._own.vertex
        came_from = None if source == self._own else self._scot.next_vertex(at, source.vertex)
        for neighbour in self._scot.cluster_neighbours(self._own):
            if neighbour.vertex != came_from:
                for update in updates:
                    self._pass_on(neighbour, update)

    def _pass_on(self, to: BrokerId, update: SubscriptionUpdate) -> None:
        """If there is no path to that broker, send to the brokers behind it."""
        waiting = [to]
        while waiting:
            each = waiting.pop()
            if self._send(each, update) or self._scot.clusters == 1 or self._source_router.alone:
                continue
            back = self._scot.next_vertex(each.vertex, self._own.vertex)
            behind = self._scot.cluster_neighbours(each)
            waiting += (other for other in behind if other.vertex != back)

    # --- advertisements --------------------------------------------------------------------------

    def _tell_region(self, update: AdvertisementUpdate | None) -> None:
        if update is not None:
            for neighbour in self._scot.region_neighbours(self._own):
                self._send(neighbour, update)

    def _advertisement_update(self, source: BrokerId, message: AdvertisementUpdate) -> None:
        self._check_region(source)
        if not self._announced.take(source, message, self.subscriptions):
            self._send(source, self._announced.version(source))

    def _advertisement_version(self, source: BrokerId, message: AdvertisementVersion) -> None:
        self._check_region(source)
        self._claims_of_hosted.add(self._hosted.later(message))
        for update in self._hosted.updates(Version(message.epoch, message.version)):
            self._send(source, update)

    def _begin(self, epoch: int) -> None:
        """Begin an epoch above that of this start, because a neighbour knew a later one."""
        if self._announced.begin(epoch):
            self._tell_states()

    def _cib(self, source: BrokerId, message: CibSet | CibClear | CibState) -> None:
        self._check_region(source)
        up, direct = self._source_router.is_up(source), self.sender == source
        self._hosted.heard(source.cluster, message, up=up, direct=direct)

    def _check_region(self, source: BrokerId) -> None:
        if source.vertex != self._own.vertex or source.cluster == self._own.cluster:
            raise ValueError(f"{source} is no secondary neighbour of {self._own}")

    def _tell(self, told: Iterable[Told]) -> None:
        """Without a path, the whole state is sent again when the link comes up."""
        for to, message in told:
            self._send(to, message)

    def _tell_states(self) -> None:
        for neighbour in self._scot.region_neighbours(self._own):
            self._announced.state(neighbour, self.subscriptions)
