"""Advertisements at their host, with the clusters that want them, and at its secondary neighbours.

An advertisement goes to the brokers of the host's region only, so that one broker of each other
cluster has it (OctopiA section V). That one tells the host when its cluster gets the first
subscription that may want what is announced, and when it loses the last (section VI; withdrawal is
left open there).
"""

from __future__ import annotations

from typing import NamedTuple

from _core.matching.civ import Civ
from agent.overlay.anti_entropy import NOTHING, Replicas, Version
from agent.overlay.anti_entropy_codec import (
    AdvertisementUpdate,
    advertisement_update,
    fits,
    replica,
)
from agent.overlay.matcher import Matcher
from agent.overlay.scot import Broker
from agent.overlay.subscriptions import Subscriptions
from agent.wire.overlay import (
    AdvertisementPart,
    AdvertisementVersion,
    CibClear,
    CibSet,
    CibState,
    Stamp,
)
from agent.wire.predicates import Attributes, Filter

# The neighbours test each against every subscription of their clusters.
MAX_OF_A_HOST = 1_024


class _Hosted:
    __slots__ = ("announced", "stamps", "targets")

    def __init__(self, announced: Filter, targets: Civ) -> None:
        self.announced = announced
        # CIV in the context of the advertisement: the clusters that want it, never the own one.
        self.targets = targets
        # By cluster, of what it said last: something said before may come later, by a detour.
        self.stamps: dict[int, Stamp] = {}


class Hosted:
    """The advertisements of the publishers of one broker.

    A cluster that was never heard of since this broker started may want everything. Of one whose
    iLink is down, only the neighbour at its end is known to want nothing new: what other brokers of
    that cluster began to want since, it could not tell. Memory: each advertisement with its CIV and
    one stamp for each other cluster.
    """

    def __init__(self, own: Broker, clusters: int, epoch: int) -> None:
        self._cluster = own.cluster
        self._width = clusters
        self._replicas: Replicas[int, int, Filter] = Replicas(own.cluster, epoch, MAX_OF_A_HOST)
        self._matcher: Matcher[int] = Matcher()
        self._hosted: dict[int, _Hosted] = {}
        self._keys: dict[str, int] = {}
        self._given = 0
        self._unheard = Civ(clusters, (each for each in range(clusters) if each != own.cluster))
        self._doubtful = self._unheard.copy()

    def __len__(self) -> int:
        return len(self._hosted)

    @property
    def epoch(self) -> int:
        """Of the set that the neighbours have, or will."""
        return self._replicas.version(self._cluster).epoch

    def targets_of(self, name: str) -> list[int]:
        """The clusters that want it. KeyError."""
        return list(self._hosted[self._keys[name]].targets)

    @property
    def unheard(self) -> int:
        """Clusters that were not heard of yet."""
        return len(self._unheard)

    def give_up_unheard(self) -> None:
        """Clusters that were not heard of until now want nothing."""
        self._unheard = Civ(self._width)

    def link_down(self, cluster: int) -> None:
        """What that cluster wants from now on may not be told here."""
        self._doubtful.set(cluster)

    @property
    def doubtful(self) -> Civ:
        """The clusters that did not say what they want since their iLink was down."""
        return self._doubtful

    def advertise(self, name: str, announced: Filter) -> AdvertisementUpdate | None:
        """New or changed; None if it is there. ValueError for a filter that makes no sense, or one
        too many; then nothing has changed.

        After a change the clusters that wanted it before count until they say otherwise.
        """
        key = self._keys.get(name, self._given + 1)
        known = self._hosted.get(key)
        if known is not None and known.announced == announced:
            return None
        self._matcher.put(key, announced)
        try:
            change = self._replicas.put(key, announced)
        except ValueError:
            self._matcher.remove(key)
            raise
        assert change is not None
        if known is None:
            self._given += 1
            self._keys[name] = key
            self._hosted[key] = _Hosted(announced, Civ.advertisement(self._width, self._cluster))
        else:
            known.announced = announced
        return advertisement_update(change)

    def unadvertise(self, name: str) -> AdvertisementUpdate | None:
        """Gone; None if it is not there."""
        key = self._keys.pop(name, None)
        change = self._replicas.withdraw(key) if key is not None else None
        if key is None or change is None:
            return None
        self._matcher.remove(key)
        del self._hosted[key]
        return advertisement_update(change)

    def updates(self, asked: AdvertisementVersion) -> tuple[list[AdvertisementUpdate], bool]:
        """What one that has this version misses, and whether it knows a later one than there ever
        was: then a new epoch has begun, and all have to hear of it."""
        version = Version(asked.epoch, asked.version)
        outbid = self._replicas.outbid({self._cluster: version})
        since = NOTHING if outbid else version
        missing = self._replicas.updates(self._cluster, since)
        return [advertisement_update(each) for each in missing], outbid

    def heard(self, cluster: int, told: CibSet | CibClear | CibState, *, up: bool) -> None:
        """What a secondary neighbour says, and whether the link to it is up: what comes round one
        that is down may be the last that comes. O(1), or O(advertisements) for a state. What
        belongs to another epoch, or to an advertisement that is gone, changes nothing."""
        if told.epoch != self.epoch:
            return
        if isinstance(told, CibState):
            self._unheard.clear(cluster)
            if up:
                self._doubtful.clear(cluster)
            for key in told.wanted:
                self._mark(cluster, key, told.stamp, True)
            for key in told.unwanted:
                self._mark(cluster, key, told.stamp, False)
        else:
            self._mark(cluster, told.key, told.stamp, isinstance(told, CibSet))

    def _mark(self, cluster: int, key: int, stamp: Stamp, wanted: bool) -> None:
        known = self._hosted.get(key)
        if known is None or stamp <= known.stamps.get(cluster, (0, 0)):
            return
        known.stamps[cluster] = stamp
        if wanted:
            known.targets.set(cluster)
        else:
            known.targets.clear(cluster)

    def targets(self, attributes: Attributes) -> Civ | None:
        """The clusters that may want it, a new vector; None if nobody has announced it. As
        `Matcher.match`."""
        keys = self._matcher.match(attributes)
        if not keys:
            return None
        targets = self._unheard.copy()
        for key in keys:
            targets |= self._hosted[key].targets
        return targets


class Told(NamedTuple):
    """What a host has to be told."""

    to: Broker
    message: CibSet | CibClear | CibState


class Announced:
    """The advertisements of the other brokers of the region.

    Memory: each of them, and one bit (the paper's SCB): whether its host knows that it is wanted.
    """

    def __init__(self, own: Broker, epoch: int) -> None:
        self._own = own
        self._epoch = epoch
        self._given = 0
        self._replicas: Replicas[int, int, Filter] = Replicas(own.cluster, epoch, MAX_OF_A_HOST)
        self._matcher: Matcher[tuple[int, int]] = Matcher()
        self._wanted: dict[tuple[int, int], bool] = {}
        self.unusable = 0

    def __len__(self) -> int:
        return len(self._replicas)

    def begin(self, epoch: int) -> bool:
        """Whether the epoch of this start was too low: what is said from now on counts as later
        than what was said in it."""
        if epoch <= self._epoch:
            return False
        self._epoch = epoch
        return True

    def version(self, host: Broker) -> AdvertisementVersion:
        """Which set of that host is here."""
        return AdvertisementVersion(*self._replicas.version(host.cluster))

    def take(
        self, host: Broker, update: AdvertisementUpdate, subscriptions: Subscriptions
    ) -> list[Told] | None:
        """The host told this: what to answer; None if something before it is missing, which has to
        be asked for. One intersection test against the subscriptions for each advertisement that
        came or changed."""
        cluster = host.cluster
        told = replica(cluster, update)
        if not fits(told):
            self.unusable += 1
            return []
        effect = self._replicas.take(told)
        if effect.kind == "gap":
            return None
        if effect.kind == "refused":
            self.unusable += 1
        if effect.kind != "news":
            return []
        for key in effect.removed:
            if (cluster, key) in self._matcher:
                self._matcher.remove((cluster, key))
            if key not in effect.added:
                self._wanted.pop((cluster, key), None)
        for key, announced in effect.added.items():
            self._wanted.setdefault((cluster, key), False)
            try:
                self._matcher.put((cluster, key), announced)
            except ValueError:
                self.unusable += 1  # of a newer version than this one, perhaps
        if isinstance(update, AdvertisementPart):
            return self.state(host, subscriptions)
        return self._renew([(cluster, key) for key in effect.added], subscriptions)

    def subscribed(self, wanted: Filter, subscriptions: Subscriptions) -> list[Told]:
        """The cluster has one more subscription. As `Matcher.intersecting`."""
        new = [key for key in self._matcher.intersecting(wanted) if not self._wanted[key]]
        return self._renew(new, subscriptions)

    def unsubscribed(self, wanted: Filter, subscriptions: Subscriptions) -> list[Told]:
        """It has one less. As `Matcher.intersecting`, and again for each advertisement found."""
        old = [key for key in self._matcher.intersecting(wanted) if self._wanted[key]]
        return self._renew(old, subscriptions)

    def _renew(self, keys: list[tuple[int, int]], subscriptions: Subscriptions) -> list[Told]:
        told: list[Told] = []
        for cluster, key in keys:
            wanted = self._is_wanted(cluster, key, subscriptions)
            # Who does not know all subscriptions cannot know that nobody wants it.
            if wanted == self._wanted[cluster, key] or not (wanted or subscriptions.complete):
                continue
            self._wanted[cluster, key] = wanted
            epoch = self._replicas.version(cluster).epoch
            kind = CibSet if wanted else CibClear
            told.append(Told(self._host(cluster), kind(epoch, key, self._stamp())))
        return told

    def state(self, host: Broker, subscriptions: Subscriptions) -> list[Told]:
        """All bits of that host's advertisements, said anew; nothing before all subscriptions of
        the cluster are known, or of a host that is not. One test for each advertisement."""
        cluster = host.cluster
        epoch = self._replicas.version(cluster).epoch
        if epoch == NOTHING.epoch or not subscriptions.complete:
            return []
        keys = list(self._replicas.items(cluster))
        for key in keys:
            self._wanted[cluster, key] = self._is_wanted(cluster, key, subscriptions)
        wanted = tuple(key for key in keys if self._wanted[cluster, key])
        unwanted = tuple(key for key in keys if not self._wanted[cluster, key])
        return [Told(host, CibState(epoch, wanted, unwanted, self._stamp()))]

    def _is_wanted(self, cluster: int, key: int, subscriptions: Subscriptions) -> bool:
        usable = (cluster, key) in self._matcher
        return usable and subscriptions.wants(self._replicas.items(cluster)[key])

    def _stamp(self) -> Stamp:
        self._given += 1
        return self._epoch, self._given

    def _host(self, cluster: int) -> Broker:
        return Broker(self._own.vertex, cluster)
