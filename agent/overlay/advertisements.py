"""Advertisement tables: at the host, with the clusters that want each, and at its secondary
neighbours.

An advertisement is sent to the brokers of the host's region only, so that one broker of every other
cluster has it (OctopiA section V). That broker tells the host when its cluster gets the first
subscription that may match the advertisement, and when it loses the last (section VI; withdrawal is
left open there).
"""

from __future__ import annotations

from collections.abc import Callable
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
# By so many comparisons of conjunctions, some 20 ns each, the advertisements are found that changed
# subscriptions concern. Where it would take more, each advertisement is looked for.
MOST_COMPARED = 1 << 18
# Conjunctions of advertisements that are looked for in one turn.
CONJUNCTIONS_A_TURN = 512


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

    def __init__(self, own: BrokerId, clusters: int, epoch: int, wall: Callable[[], float]) -> None:
        self._cluster = own.cluster
        self._width = clusters
        self._replicas: AntiEntropy[int, int, Filter] = AntiEntropy(
            own.cluster, epoch, MAX_OF_A_HOST, wall=wall
        )
        self._matcher: Matcher[int] = Matcher()
        self._hosted: dict[int, _Hosted] = {}
        self._keys: dict[str, int] = {}
        self._given = 0
        self._unheard = Civ(clusters, (each for each in range(clusters) if each != own.cluster))
        self._doubtful = self._unheard.copy()
        # Those whose neighbour has not stated over its link what they want since that came up.
        self._unstated: set[int] = set()

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

    def link_up(self, cluster: int) -> None:
        """Its neighbour is about to state anew what it wants."""
        self._unstated.add(cluster)

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

    def heard(
        self, cluster: int, told: CibSet | CibClear | CibState, *, up: bool, direct: bool
    ) -> None:
        """Apply a statement of a secondary neighbour. `up` tells whether the link to it is up: what
        arrives by a detour while the link is down may be the last statement. `direct`: it came over
        that link. O(1), or O(advertisements) for a state. Statements of another epoch, or about a
        withdrawn advertisement, change nothing."""
        if told.epoch != self.epoch:
            return
        if isinstance(told, CibState):
            if direct and cluster in self._unstated:
                # It is later than all before, whatever these were stamped with.
                self._unstated.remove(cluster)
                for each in self._hosted.values():
                    each.stamps.pop(cluster, None)
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

    def __init__(self, own: BrokerId, epoch: int, wall: Callable[[], float]) -> None:
        self._own = own
        self._epoch = epoch
        self._given = 0
        self._replicas: AntiEntropy[int, int, Filter] = AntiEntropy(
            own.cluster, epoch, MAX_OF_A_HOST, wall=wall
        )
        self._matcher: Matcher[tuple[int, int]] = Matcher()
        self._wanted: dict[tuple[int, int], bool] = {}
        self._conjunctions = 0
        # The advertisements to be taken in and tested, and the hosts that get a statement then.
        self._doubted: dict[tuple[int, int], None] = {}
        self._to_state: dict[int, BrokerId] = {}
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
    ) -> bool:
        """Apply an update from the host; returns whether that was possible: else an earlier one is
        missing and must be requested. Each advertisement that is new or changed is to be tested
        against the subscriptions."""
        cluster = host.cluster
        told = replica(cluster, update)
        if not fits(told):
            self.unusable += 1
            return True
        effect = self._replicas.take(told)
        if effect.kind == "refused":
            self.unusable += 1
        if effect.kind != "news":
            return effect.kind != "gap"
        for key in (*effect.removed, *effect.added):
            self._doubted[cluster, key] = None
            if key in effect.added:
                self._wanted.setdefault((cluster, key), False)
            else:
                self._wanted.pop((cluster, key), None)
        if isinstance(update, AdvertisementPart):
            self.state(host, subscriptions)
        return True

    def subscriptions_changed(self, added: list[Filter], removed: list[Filter]) -> None:
        """The cluster has got and lost these subscriptions: the advertisements that intersect one
        of them are to be tested, or, where these are many, all that it may concern."""
        changed = sum(map(len, added)) + sum(map(len, removed))
        if changed * self._conjunctions > MOST_COMPARED:
            for key, wanted in self._wanted.items():
                if removed if wanted else added:
                    self._doubted[key] = None
            return
        for filters, before in ((added, False), (removed, True)):
            for each in filters:
                for key in self._matcher.intersecting(each):
                    if self._wanted.get(key) == before:
                        self._doubted[key] = None

    def state(self, host: BrokerId, subscriptions: Subscriptions) -> None:
        """All bits of that host's advertisements are to be told, as a new statement, when each has
        been tested; none to an unknown host, or before all subscriptions of the cluster are
        known."""
        cluster = host.cluster
        if self._replicas.version(cluster) > NOTHING and subscriptions.complete:
            keys = self._replicas.items(cluster)
            self._doubted.update(((cluster, key), None) for key in keys)
            self._to_state[cluster] = host

    @property
    def is_behind(self) -> bool:
        """Whether `catch_up` has more to do."""
        return bool(self._doubted or self._to_state)

    @property
    def doubts(self) -> bool:
        """Whether some advertisements are to be tested."""
        return bool(self._doubted)

    def catch_up(self, subscriptions: Subscriptions) -> list[Told]:
        """Take in and test some of the advertisements; what that tells their hosts. One
        intersection test each, against all subscriptions. As long as subscriptions are not taken in
        it is told what is wanted, not what is not."""
        told: list[Told] = []
        unsure: dict[tuple[int, int], None] = {}
        left = CONJUNCTIONS_A_TURN
        while self._doubted and left > 0:
            cluster, key = at = next(iter(self._doubted))
            del self._doubted[at]
            announced = self._replicas.items(cluster).get(key)
            left -= self._take_in(at, announced)
            if announced is None:
                continue
            wanted = at in self._matcher and subscriptions.wants(announced)
            # Before all subscriptions are known, it cannot be known that none matches.
            if wanted == self._wanted[at] or not (wanted or subscriptions.complete):
                continue
            if not wanted and subscriptions.is_behind:
                unsure[at] = None
                continue
            self._wanted[at] = wanted
            if cluster not in self._to_state:
                epoch = self._replicas.version(cluster).epoch
                kind = CibSet if wanted else CibClear
                told.append(Told(self._host(cluster), kind(epoch, key, self._stamp())))
        self._doubted.update(unsure)
        if self._to_state and not subscriptions.is_behind:
            doubtful = {cluster for cluster, _ in self._doubted}
            tested = sorted(self._to_state.keys() - doubtful)
            told += [self._statement(self._to_state.pop(cluster)) for cluster in tested]
        return told

    def _take_in(self, at: tuple[int, int], announced: Filter | None) -> int:
        """Have the matcher know the advertisement as it is now; the conjunctions that are
        concerned."""
        before = self._matcher.get(at)
        if announced == before:
            return len(announced or ())
        if before is not None:
            self._conjunctions -= len(self._matcher.remove(at))
        if announced is not None:
            try:
                self._matcher.put(at, announced)
            except ValueError:
                self.unusable += 1  # perhaps of a newer version than this one
            else:
                self._conjunctions += len(announced)
        return len(announced or ()) + len(before or ())

    def _statement(self, host: BrokerId) -> Told:
        cluster = host.cluster
        keys = list(self._replicas.items(cluster))
        wanted = tuple(key for key in keys if self._wanted[cluster, key])
        unwanted = tuple(key for key in keys if not self._wanted[cluster, key])
        epoch = self._replicas.version(cluster).epoch
        return Told(host, CibState(epoch, wanted, unwanted, self._stamp()))

    def _stamp(self) -> Stamp:
        self._given += 1
        return self._epoch, self._given

    def _host(self, cluster: int) -> BrokerId:
        return BrokerId(self._own.vertex, cluster)
