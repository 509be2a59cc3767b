"""The subscriptions of a cluster as one of its brokers knows them (OctopiA's PRT).

A subscription is stored by its home, not by the last hop: every broker knows the tree, so the path
to a home is computed when needed, and the failure of a broker changes no table. A home that has not
been heard of since this broker started counts as wanting everything, until it is heard of or given
up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from agent.overlay.anti_entropy import NOTHING, AntiEntropy, SnapshotPart, Version
from agent.overlay.anti_entropy_codec import (
    SubscriptionUpdate,
    fits,
    replica,
    size_of,
    subscription_update,
)
from agent.overlay.matcher import Matcher
from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay import HomeVersion, SubscriptionPart, SubscriptionVersions
from agent.wire.predicates import Attributes, Filter

# Conjunctions that enter and leave the matcher in one turn, of 10 to 20 µs each: a set of another
# home has up to half a million.
CONJUNCTIONS_A_TURN = 1_024


# Of an update, whatever is in it.
UPDATE_BYTES = 256


class Changed(NamedTuple):
    """The effect on the table: messages for the neighbours, and the filters removed and added."""

    updates: list[SubscriptionUpdate]
    added: list[Filter]
    removed: list[Filter]


_NOTHING_CHANGED = Changed([], [], [])


class Subscriptions:
    """The table of one broker. Memory: that of all subscriptions of the cluster."""

    def __init__(self, own: BrokerId, scot: Scot, epoch: int, wall: Callable[[], float]) -> None:
        self._own = own.vertex
        self._cluster = own.cluster
        self._scot = scot
        self._replicas: AntiEntropy[str, int, Filter] = AntiEntropy(
            own.vertex, epoch, size=size_of, wall=wall
        )
        self._matcher: Matcher[tuple[str, int]] = Matcher()
        # Names of the subscriptions here, and back.
        self._keys: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._given = 0
        # What the matcher does not have as it is now, and of how many keys of each home.
        self._behind: dict[tuple[str, int], None] = {}
        self._lagging: Counter[str] = Counter()
        self._unknown = dict.fromkeys(scot.vertices)
        del self._unknown[own.vertex]
        self.unusable = 0

    def __len__(self) -> int:
        return len(self._replicas)

    @property
    def complete(self) -> bool:
        """Whether every home was heard of, or given up."""
        return not self._unknown

    @property
    def unknown(self) -> int:
        """Number of homes not heard of yet."""
        return len(self._unknown)

    def give_up_unknown(self) -> None:
        """Treat the homes not heard of so far as having no subscriptions."""
        self._unknown.clear()

    # --- changes ---------------------------------------------------------------------------------

    def subscribe(self, name: str, wanted: Filter) -> Changed | None:
        """Add or change a subscription of this broker; None if it is unchanged. ValueError for an
        invalid filter, or for one too many; then nothing has changed."""
        key = self._keys.get(name, self._given + 1)
        if self._replicas.items(self._own).get(key) == wanted:
            return None
        before = self._matcher.put((self._own, key), wanted)
        try:
            change = self._replicas.put(key, wanted)
        except ValueError:
            self._matcher.remove((self._own, key))
            raise
        assert change is not None
        if name not in self._keys:
            self._given += 1
            self._keys[name] = key
            self._names[key] = name
        return Changed([subscription_update(change)], [wanted], [] if before is None else [before])

    def unsubscribe(self, name: str) -> Changed | None:
        """Remove a subscription of this broker; None if there is none of that name."""
        key = self._keys.pop(name, None)
        change = self._replicas.withdraw(key) if key is not None else None
        if key is None or change is None:
            return None
        del self._names[key]
        return Changed([subscription_update(change)], [], [self._matcher.remove((self._own, key))])

    def take(self, update: SubscriptionUpdate) -> Changed | None:
        """Apply a neighbour's update of another home's set; None if an earlier update is missing
        and must be requested. O(1), or O(the set) for its last part. What it adds and removes is
        told by `catch_up`."""
        home = update.home
        told = replica(home, update)
        if not fits(told):
            self.unusable += 1
            return _NOTHING_CHANGED
        before = self._replicas.version(home)
        effect = self._replicas.take(told)
        if effect.kind == "gap":
            return None
        if effect.kind == "refused":
            self.unusable += 1
        if effect.kind != "news":
            return _NOTHING_CHANGED
        for key in (*effect.removed, *effect.added):
            if (home, key) not in self._behind:
                self._behind[home, key] = None
                self._lagging[home] += 1
        if home not in self._lagging:
            self._unknown.pop(home, None)
        updates: list[SubscriptionUpdate] = [update]
        if isinstance(update, SubscriptionPart):
            updates = [subscription_update(each) for each in self._replicas.updates(home, before)]
        return Changed(updates, [], [])

    @property
    def is_behind(self) -> bool:
        """Whether `catch_up` has more to do."""
        return bool(self._behind)

    def catch_up(self) -> Changed:
        """Have the matcher take in some of what other homes changed; which filters that added and
        removed. A home not heard of before is known when all of its set is taken in."""
        added: list[Filter] = []
        removed: list[Filter] = []
        left = CONJUNCTIONS_A_TURN
        while self._behind and left > 0:
            home, key = at = next(iter(self._behind))
            del self._behind[at]
            wanted, before = self._replicas.items(home).get(key), self._matcher.get(at)
            if wanted != before:
                left -= len(wanted or ()) + len(before or ())
                if before is not None:
                    removed.append(self._matcher.remove(at))
                if wanted is not None and self._put(at, wanted):
                    added.append(wanted)
            self._lagging[home] -= 1
            if not self._lagging[home]:
                del self._lagging[home]
                self._unknown.pop(home, None)
        return Changed([], added, removed)

    def _put(self, at: tuple[str, int], wanted: Filter) -> bool:
        try:
            self._matcher.put(at, wanted)
        except ValueError:
            self.unusable += 1  # perhaps of a newer version than this one
            return False
        return True

    # --- comparing -------------------------------------------------------------------------------

    def versions(self, home: str | None = None) -> SubscriptionVersions:
        """The versions known here, of all homes or of one. O(homes)."""
        if home is not None:
            return SubscriptionVersions((HomeVersion(home, *self._replicas.version(home)),), False)
        known = self._replicas.versions().items()
        return SubscriptionVersions(
            tuple(HomeVersion(each, *version) for each, version in known), True
        )

    def newer(
        self, asked: SubscriptionVersions, asker: str
    ) -> tuple[list[SubscriptionUpdate], int]:
        """The updates that the broker at that vertex lacks, which has these versions, and about how
        many bytes they take. Of its own set it needs no more than the version, which it is told
        when the link comes up. O(homes + results)."""
        theirs = {each.home: Version(each.epoch, each.version) for each in asked.homes}
        updates: list[SubscriptionUpdate] = []
        size = 0
        for home in self._replicas.ahead_of(theirs):
            if home != asker and (asked.all_homes or home in theirs):
                found = self._replicas.updates(home, theirs.get(home, NOTHING))
                updates += map(subscription_update, found)
                whole = isinstance(found[0], SnapshotPart)
                size += self._replicas.bytes(home) if whole else 0
        return updates, size + UPDATE_BYTES * len(updates)

    @property
    def epoch(self) -> int:
        """The epoch of this broker's set."""
        return self._replicas.version(self._own).epoch

    def toward(self, home: str) -> BrokerId:
        """The neighbour on the path to another home: updates from it are taken for the home's own.
        ValueError for a home that the overlay does not have."""
        if home not in self._scot.tree:
            raise ValueError(f"the overlay has no vertex {home!r}")
        return BrokerId(self._scot.next_vertex(self._own, home), self._cluster)

    def knows(self, home: str) -> bool:
        """Whether that home's set is known."""
        return self._replicas.version(home) > NOTHING

    def later(self, told: Iterable[HomeVersion]) -> Version:
        """The latest version of this broker's set that another one claims and this one never had;
        `NOTHING` if there is none. O(those told)."""
        own = [Version(each.epoch, each.version) for each in told if each.home == self._own]
        return max(filter(self._replicas.is_outbid_by, own), default=NOTHING)

    def outbid(self, theirs: Version) -> bool:
        """Whether a new epoch has begun above that version, which all must be told."""
        return self._replicas.outbid({self._own: theirs})

    def own_set(self) -> list[SubscriptionUpdate]:
        """The whole set of this broker."""
        return [subscription_update(each) for each in self._replicas.updates(self._own, NOTHING)]

    # --- matching --------------------------------------------------------------------------------

    def interested(self, attributes: Attributes) -> tuple[list[str], list[str]]:
        """The homes that may want the notification, without this one, each once, and the names of
        the matching subscriptions here. As `Matcher.match`, and O(homes that are not known as they
        are now)."""
        # Of those that are not taken in yet, too much goes there rather than too little.
        homes = dict.fromkeys((*self._unknown, *self._lagging))
        names = []
        for home, key in self._matcher.match(attributes):
            if home == self._own:
                names.append(self._names[key])
            else:
                homes[home] = None
        return list(homes), names

    def wants(self, announced: Filter) -> bool:
        """Whether some subscription of the cluster may match what is announced."""
        return self._matcher.intersects(announced)
