"""Advertisement tables: at the host, with the clusters that want each, and at its secondary
neighbours.

An advertisement is sent to the brokers of the host's region only, so that one broker of every other
cluster has it (OctopiA section V). That broker tells the host when its cluster gets the first
subscription that may match the advertisement, and when it loses the last (section VI; withdrawal is
left open there).
"""

from __future__ import annotations

from typing import NamedTuple

from _core.matching.civ import Civ
from agent.overlay.anti_entropy import NOTHING, AntiEntropy, Version
from agent.overlay.anti_entropy_codec import (
    AdvertisementUpdate,
    advertisement_update,
    fits,
    replica,
)
from agent.overlay.matcher import Matcher
from agent.overlay.scot import BrokerId
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

# The neighbours test each advertisement against every subscription of their clusters.
MAX_OF_A_HOST = 1_024
# Of so many subscriptions that change together the advertisements are looked for one by one.
FEW = 64


class _Hosted:
    __slots__ = ("announced", "stamps", "targets")

    def __init__(self, announced: Filter, targets: Civ) -> None:
        self.announced = announced
        # CIV in the context of the advertisement: the clusters that want it, never the host's own.
        self.targets = targets
        # Stamp of each cluster's last statement: an earlier one may arrive later, by a detour.
        self.stamps: dict[int, Stamp] = {}


class Hosted:
    """The advertisements of the publishers at one broker.

    A cluster that has not been heard of since this broker started is taken to want everything. If
    the iLink to a cluster is down, only the neighbour at its end is known to have no new
    subscriptions; new subscriptions at the other brokers of that cluster cannot be reported.
    Memory: each advertisement with its CIV and one stamp for each other cluster.
    """

    def __init__(self, own: BrokerId, clusters: int, epoch: int) -> None:
        self._cluster = own.cluster
        self._width = clusters
        self._replicas: AntiEntropy[int, int, Filter] = AntiEntropy(
            own.cluster, epoch, MAX_OF_A_HOST
        )
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
        """The epoch of the set that the neighbours have or are about to get."""
        return self._replicas.version(self._cluster).epoch

    def targets_of(self, name: str) -> list[int]:
        """The clusters that want the advertisement. KeyError."""
        return list(self._hosted[self._keys[name]].targets)

    @property
    def unheard(self) -> int:
        """Number of clusters not heard of yet."""
        return len(self._unheard)

    def give_up_unheard(self) -> None:
        """Treat the clusters not heard of so far as wanting nothing."""
        self._unheard = Civ(self._width)

    def link_down(self, cluster: int) -> None:
        """New subscriptions of that cluster may not be reported to this broker from now on."""
        self._doubtful.set(cluster)

    @property
    def doubtful(self) -> Civ:
        """The clusters that have not stated what they want since their iLink went down."""
        return self._doubtful

    def advertise(self, name: str, announced: Filter) -> AdvertisementUpdate | None:
        """Add or change an advertisement; None if it is unchanged. ValueError for an invalid
        filter, or for one too many; then nothing has changed.

        After a change, the clusters that wanted the earlier version count until they state
        otherwise.
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
        """Remove the advertisement; None if there is none of that name."""
        key = self._keys.pop(name, None)
        change = self._replicas.withdraw(key) if key is not None else None
        if key is None or change is None:
            return None
        self._matcher.remove(key)
        del self._hosted[key]
        return advertisement_update(change)

    def later(self, asked: AdvertisementVersion) -> Version:
        """The neighbour's version if it is later than this broker ever had, else `NOTHING`."""
        version = Version(asked.epoch, asked.version)
        return version if self._replicas.is_outbid_by(version) else NOTHING

    def outbid(self, theirs: Version) -> bool:
        """Whether a new epoch has begun above that version, which all neighbours must be told."""
        return self._replicas.outbid({self._cluster: theirs})

    def updates(self, since: Version) -> list[AdvertisementUpdate]:
        """The updates that a neighbour with this version lacks."""
        return [advertisement_update(e) for e in self._replicas.updates(self._cluster, since)]

    def heard(self, cluster: int, told: CibSet | CibClear | CibState, *, up: bool) -> None:
        """Apply a statement of a secondary neighbour. `up` tells whether the link to it is up: what
        arrives by a detour while the link is down may be the last statement. O(1), or
        O(advertisements) for a state. Statements of another epoch, or about a withdrawn
        advertisement, change nothing."""
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
        """The clusters that may want the notification, as a new vector; None if no advertisement
        covers it. As `Matcher.match`."""
        keys = self._matcher.match(attributes)
        if not keys:
            return None
        targets = self._unheard.copy()
        for key in keys:
            targets |= self._hosted[key].targets
        return targets


class Told(NamedTuple):
    """Updates to send to a host."""

    to: BrokerId
    message: CibSet | CibClear | CibState


class Announced:
    """The advertisements of the other brokers of the region.

    Memory: each advertisement and one bit (the paper's SCB): whether its host knows that this
    cluster wants it.
    """

    def __init__(self, own: BrokerId, epoch: int) -> None:
        self._own = own
        self._epoch = epoch
        self._given = 0
        self._replicas: AntiEntropy[int, int, Filter] = AntiEntropy(
            own.cluster, epoch, MAX_OF_A_HOST
        )
        self._matcher: Matcher[tuple[int, int]] = Matcher()
        self._wanted: dict[tuple[int, int], bool] = {}
        self.unusable = 0

    def __len__(self) -> int:
        return len(self._replicas)

    def begin(self, epoch: int) -> bool:
        """Whether the epoch of this start was too low. Statements from now on count as later than
        those made in it."""
        if epoch <= self._epoch:
            return False
        self._epoch = epoch
        return True

    def version(self, host: BrokerId) -> AdvertisementVersion:
        """The version of that host's set at this broker."""
        return AdvertisementVersion(*self._replicas.version(host.cluster))

    def take(
        self, host: BrokerId, update: AdvertisementUpdate, subscriptions: Subscriptions
    ) -> list[Told] | None:
        """Apply an update from the host; returns the answer, or None if an earlier update is
        missing and must be requested. One intersection test against the subscriptions for each
        advertisement that is new or changed."""
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
                self.unusable += 1  # perhaps of a newer version than this one
        if isinstance(update, AdvertisementPart):
            return self.state(host, subscriptions)
        return self._renew([(cluster, key) for key in effect.added], subscriptions)

    def subscriptions_changed(
        self, added: list[Filter], removed: list[Filter], subscriptions: Subscriptions
    ) -> list[Told]:
        """The cluster has got and lost these subscriptions. One test for each advertisement that
        intersects one of them, of which many are not looked for one by one."""
        if len(added) + len(removed) > max(FEW, len(self._wanted)):
            keys = [key for key, wanted in self._wanted.items() if (removed if wanted else added)]
            return self._renew(keys, subscriptions)
        found: dict[tuple[int, int], None] = {}
        for filters, before in ((added, False), (removed, True)):
            for each in filters:
                keys = self._matcher.intersecting(each)
                found.update((key, None) for key in keys if self._wanted[key] == before)
        return self._renew(list(found), subscriptions)

    def _renew(self, keys: list[tuple[int, int]], subscriptions: Subscriptions) -> list[Told]:
        told: list[Told] = []
        for cluster, key in keys:
            wanted = self._is_wanted(cluster, key, subscriptions)
            # Before all subscriptions are known, it cannot be known that none matches.
            if wanted == self._wanted[cluster, key] or not (wanted or subscriptions.complete):
                continue
            self._wanted[cluster, key] = wanted
            epoch = self._replicas.version(cluster).epoch
            kind = CibSet if wanted else CibClear
            told.append(Told(self._host(cluster), kind(epoch, key, self._stamp())))
        return told

    def state(self, host: BrokerId, subscriptions: Subscriptions) -> list[Told]:
        """All bits of that host's advertisements, as a new statement; empty for an unknown host, or
        before all subscriptions of the cluster are known. One test for each advertisement."""
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

    def _host(self, cluster: int) -> BrokerId:
        return BrokerId(self._own.vertex, cluster)
