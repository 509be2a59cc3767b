"""Anti-entropy replication of sets of named items, each owned by one home broker.

A broker's subscriptions are replicated to its whole cluster, its advertisements to its region. Only
the home changes its set; every copy carries the home's `Version` (epoch, number), which identifies
the set's content exactly. Lost messages, failed links and restarts without memory are repaired by
comparing versions.

How a broker uses it:

- `put` and `withdraw` change the broker's own set and return the `Delta` for its neighbours.
- `take` applies a `Delta` or `SnapshotPart` from a neighbour. The `Effect` gives the outcome:
  ``news`` is passed on to the other neighbours (a change as it came, a set by `updates` since the
  version that was here), with `removed` and `added` to update dependent tables; ``gap`` means that
  an earlier change is missing, so the broker requests what the sender has since `version(home)`;
  ``known``, ``waiting`` and ``refused`` need no action.
- To a request, or for its own `ahead_of(versions)`, it answers with `updates(home, since)`: the
  changes in between if they are still kept, else the whole set in parts.
- When a link comes up, both ends send `versions()`, and each sends the other what it is `ahead_of`.

A home that restarts has a higher epoch, and puts back all its items before its first link is up:
the other brokers then replace the old set by the new one in one step. A higher epoch outranks any
number; no epoch may be used twice. A home that has lost its epoch sooner or later meets its own
earlier set, in the `versions` of another broker (see `outbid`) or in an update (``outbid``). It
then raises its epoch above that set's, and sends its set, `updates(own, NOTHING)`, to all its
neighbours.

No home is forgotten: the homes are those of the overlay, whose factors are fixed while it runs.
Memory, per home: its version, at most `most_items` items of `most_bytes` together, its last
`kept_changes` changes, and one set of at most as many that is still arriving.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

KEPT_CHANGES = 64
# Of one home; a master has 10,000 subscriptions.
MAX_ITEMS = 1 << 14
# Of the items of one home: four times what the filters of all users of a master may have.
MAX_BYTES = 1 << 25
ITEMS_OF_A_PART = 100
# What no epoch has reached by the wall clock, as all brokers read it: a set of a later one is no
# home's. So whatever is believed of a home, the home can exceed, at the latest when its clock shows
# what that of the other one did. Epochs grow by one a second at most, the bound faster.
MAX_OUTBID = 1 << 40
EPOCHS_PER_S = 1 << 10

Home = TypeVar("Home", bound=Hashable)
Name = TypeVar("Name", str, int)
Item = TypeVar("Item")


class Version(NamedTuple):
    """Version of a home's set: number 0 of every epoch is the empty set; a later version compares
    greater."""

    epoch: int
    number: int


NOTHING = Version(0, 0)


class Delta(NamedTuple, Generic[Home, Name, Item]):
    """The step to `version` from the one before: `name` has this item now, or is withdrawn."""

    home: Home
    version: Version
    name: Name
    item: Item | None


class SnapshotPart(NamedTuple, Generic[Home, Name, Item]):
    """Part of a whole set of `total` items, ordered by name: those from position `start` on."""

    home: Home
    version: Version
    start: int
    total: int
    items: tuple[tuple[Name, Item], ...]


class Effect(NamedTuple, Generic[Name, Item]):
    """Outcome of `take`: ``news``, the set has a new version; ``known``, this version or a later
    one was here already; ``waiting`` for more parts; ``gap``, an earlier change is missing;
    ``refused``, the set would be too large, the part lies outside it, or no home can be in that
    epoch; ``outbid``, the update
    carried a later version of this broker's own set than it ever had, so the own set has got a new
    version. A changed item is both in `removed` and in `added`."""

    kind: Literal["news", "known", "waiting", "gap", "refused", "outbid"]
    removed: Mapping[Name, Item]
    added: Mapping[Name, Item]


_NO_ITEMS: Mapping[Any, Any] = MappingProxyType({})
_KNOWN = Effect[Any, Any]("known", _NO_ITEMS, _NO_ITEMS)
_WAITING = Effect[Any, Any]("waiting", _NO_ITEMS, _NO_ITEMS)
_GAP = Effect[Any, Any]("gap", _NO_ITEMS, _NO_ITEMS)
_REFUSED = Effect[Any, Any]("refused", _NO_ITEMS, _NO_ITEMS)
_OUTBID = Effect[Any, Any]("outbid", _NO_ITEMS, _NO_ITEMS)


class _Set(Generic[Home, Name, Item]):
    """The state of one home: its items, the recent changes, and a later set that is arriving."""

    __slots__ = ("arrived", "arriving", "bytes", "bytes_arrived", "changes", "items", "version")

    def __init__(self, version: Version) -> None:
        self.version = version
        self.items: dict[Name, Item] = {}
        self.bytes = self.bytes_arrived = 0
        # A list, because an empty deque allocates room for 64 entries, and most homes have no
        # changes.
        self.changes: list[Delta[Home, Name, Item]] = []
        self.arriving = NOTHING
        self.arrived: list[tuple[Name, Item]] = []


class AntiEntropy(Generic[Home, Name, Item]):
    """The sets of all homes as one broker knows them; its own set is the original."""

    def __init__(
        self,
        own: Home,
        epoch: int,
        most_items: int = MAX_ITEMS,
        kept_changes: int = KEPT_CHANGES,
        *,
        size: Callable[[Item], int] = lambda _: 0,
        most_bytes: int = MAX_BYTES,
        wall: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`epoch` is at least 1 and higher than at any earlier start of this home; `size` gives the
        bytes of an item, of which a home of others may have `most_bytes`; `wall` reads the wall
        clock in seconds since 1970 UTC."""
        if epoch < 1:
            raise ValueError(f"epochs begin at 1, not {epoch}")
        self.own = own
        self._wall = wall
        self._most_items = most_items
        self._kept_changes = kept_changes
        self._size = size
        self._most_bytes = most_bytes
        self._sets: dict[Home, _Set[Home, Name, Item]] = {own: _Set(Version(epoch, 0))}
        self._count = 0

    def __len__(self) -> int:
        """Items of all homes. O(1)."""
        return self._count

    def version(self, home: Home) -> Version:
        """`NOTHING` of an unknown one. O(1)."""
        known = self._sets.get(home)
        return NOTHING if known is None else known.version

    def versions(self) -> dict[Home, Version]:
        """Of every home, also of empty sets. O(homes)."""
        return {home: s.version for home, s in self._sets.items() if s.version > NOTHING}

    def items(self, home: Home) -> Mapping[Name, Item]:
        """A read-only view of the set, by name; empty for an unknown home. O(1)."""
        known = self._sets.get(home)
        return _NO_ITEMS if known is None else MappingProxyType(known.items)

    def bytes(self, home: Home) -> int:
        """Bytes of the items of a home. O(1)."""
        known = self._sets.get(home)
        return 0 if known is None else known.bytes

    # --- the own set -----------------------------------------------------------------------------

    def put(self, name: Name, item: Item) -> Delta[Home, Name, Item] | None:
        """Add or change an item; None if it is unchanged. ValueError if the set is full. O(1)."""
        items = self._sets[self.own].items
        if items.get(name) == item:
            return None
        if name not in items and len(items) >= self._most_items:
            raise ValueError(
                f"there are {self._most_items:,} already, and no more is possible: withdraw one"
            )
        return self._step(name, item)

    def withdraw(self, name: Name) -> Delta[Home, Name, Item] | None:
        """Remove an item; None if there is none of that name. O(1)."""
        return self._step(name, None) if name in self._sets[self.own].items else None

    def _step(self, name: Name, item: Item | None) -> Delta[Home, Name, Item]:
        epoch, number = self._sets[self.own].version
        change = Delta(self.own, Version(epoch, number + 1), name, item)
        self._apply(self._sets[self.own], change)
        return change

    def is_outbid_by(self, theirs: Version) -> bool:
        """Whether another broker has a later version of the own set than this one ever had. An
        implausibly high epoch is none. O(1)."""
        return theirs > self._sets[self.own].version and self._is_possible(theirs)

    def _is_possible(self, version: Version) -> bool:
        return version.epoch <= MAX_OUTBID + EPOCHS_PER_S * max(0.0, self._wall())

    def outbid(self, versions: Mapping[Home, Version]) -> bool:
        """If another broker has a later version of the own set (`is_outbid_by`), raise the version
        above it, with the current items; returns whether that was so. O(1)."""
        mine = self._sets[self.own]
        theirs = versions.get(self.own, NOTHING)
        if not self.is_outbid_by(theirs):
            return False
        # As if every item had been put anew: number 0 is reserved for the empty set.
        mine.version = Version(theirs.epoch + 1, len(mine.items))
        mine.changes.clear()
        return True

    # --- the sets of others ----------------------------------------------------------------------

    def take(
        self, update: Delta[Home, Name, Item] | SnapshotPart[Home, Name, Item]
    ) -> Effect[Name, Item]:
        """Apply an update from a neighbour. O(1) for a change, O(the set) for the last part."""
        if update.version <= self.version(update.home):
            return _KNOWN
        if update.home == self.own:
            self.outbid({self.own: update.version})
            return _OUTBID
        if not self._is_possible(update.version):
            return _REFUSED
        known = self._sets.get(update.home) or _Set(NOTHING)
        effect = (
            self._take_change(known, update)
            if isinstance(update, Delta)
            else self._take_part(known, update)
        )
        if effect.kind in {"news", "waiting"}:
            self._sets[update.home] = known
        return effect

    def _take_change(
        self, known: _Set[Home, Name, Item], change: Delta[Home, Name, Item]
    ) -> Effect[Name, Item]:
        if change.version == (known.version.epoch, known.version.number + 1):
            if change.name not in known.items and len(known.items) >= self._most_items:
                return _REFUSED
            if known.bytes + self._more_bytes(known, change) > self._most_bytes:
                return _REFUSED
            return self._apply(known, change)
        # The first change of an epoch applies to the empty set.
        if change.version.number == 1:
            size = 0 if change.item is None else self._size(change.item)
            return self._replace(known, change.version, _items_of(change), (change,), size)
        return _GAP

    def _take_part(
        self, known: _Set[Home, Name, Item], part: SnapshotPart[Home, Name, Item]
    ) -> Effect[Name, Item]:
        if part.total > self._most_items or part.start + len(part.items) > part.total:
            return _REFUSED
        if part.version != known.arriving:
            # The sender of a set's first part has the whole set; the sender of another one may have
            # failed.
            if part.start > 0:
                return _GAP if part.version > known.arriving else _WAITING
            known.arriving, known.arrived, known.bytes_arrived = part.version, [], 0
        have = len(known.arrived)
        if part.start > have:
            return _GAP
        new = part.items[have - part.start :]
        known.bytes_arrived += sum(self._size(item) for _, item in new)
        if known.bytes_arrived > self._most_bytes:
            known.arriving, known.arrived, known.bytes_arrived = NOTHING, [], 0
            return _REFUSED
        known.arrived += new
        if len(known.arrived) < part.total:
            return _WAITING
        return self._replace(known, part.version, dict(known.arrived), (), known.bytes_arrived)

    def _apply(
        self, known: _Set[Home, Name, Item], change: Delta[Home, Name, Item]
    ) -> Effect[Name, Item]:
        items, name = known.items, change.name
        known.bytes += self._more_bytes(known, change)
        removed = {name: items.pop(name)} if name in items else {}
        added = _items_of(change)
        items.update(added)
        self._count += len(added) - len(removed)
        known.version = change.version
        known.changes.append(change)
        if len(known.changes) > self._kept_changes:
            del known.changes[0]
        if known.arriving <= known.version:
            known.arriving, known.arrived = NOTHING, []
        return Effect("news", removed, added)

    def _more_bytes(self, known: _Set[Home, Name, Item], change: Delta[Home, Name, Item]) -> int:
        more = 0 if change.item is None else self._size(change.item)
        return more - (self._size(known.items[change.name]) if change.name in known.items else 0)

    def _replace(
        self,
        known: _Set[Home, Name, Item],
        version: Version,
        items: dict[Name, Item],
        changes: tuple[Delta[Home, Name, Item], ...],
        size: int,
    ) -> Effect[Name, Item]:
        """Replace the set by one of so many bytes; items that are equal in both are neither removed
        nor added."""
        before = known.items
        removed = {n: item for n, item in before.items() if n not in items or items[n] != item}
        added = {n: item for n, item in items.items() if n not in before or n in removed}
        self._count += len(items) - len(before)
        known.items, known.version = items, version
        known.bytes = size
        known.changes = list(changes)
        known.arriving, known.arrived = NOTHING, []
        return Effect("news", removed, added)

    # --- comparing -------------------------------------------------------------------------------

    def ahead_of(self, versions: Mapping[Home, Version]) -> list[Home]:
        """Homes of which a broker with these versions lacks something. O(homes)."""
        return [
            home for home, each in self._sets.items() if each.version > versions.get(home, NOTHING)
        ]

    def updates(
        self, home: Home, since: Version, most: int = ITEMS_OF_A_PART
    ) -> list[Delta[Home, Name, Item]] | list[SnapshotPart[Home, Name, Item]]:
        """The updates from version `since` to the current one, in order: the changes if they are
        kept, else the whole set in parts of at most `most` items. O(n log n) for n items."""
        known = self._sets.get(home)
        if known is None or since >= known.version:
            return []
        missing = known.version.number - since.number
        if since.epoch == known.version.epoch and missing <= len(known.changes):
            return known.changes[-missing:]
        # Ordered by name, so that parts of the same set from different senders fit together.
        items = sorted(known.items.items(), key=lambda named: named[0])
        return [
            SnapshotPart(home, known.version, start, len(items), tuple(items[start : start + most]))
            for start in range(0, max(1, len(items)), most)
        ]


def _items_of(change: Delta[Home, Name, Item]) -> dict[Name, Item]:
    return {} if change.item is None else {change.name: change.item}
