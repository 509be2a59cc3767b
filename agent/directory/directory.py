"""The registration service's data: parties of the market, and the areas that IADs offer.

The leader and its read replicas hold one each. It changes only by edits that the shell has written
to disk before: see `agent.directory.leader` and `agent.directory.replica`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from agent.directory.index import AreaIndex
from agent.wire.directory import (
    Account,
    Candidate,
    DirectoryEntry,
    DirectoryReply,
    Offerings,
)

# Removed parties that are remembered for replicas that have not been told; beyond it, those get a
# full copy.
MAX_GONE: Final = 1_000
# Changes that are sent one by one; the full copy is encoded once for all who lack more.
MAX_CHANGES: Final = 1_000
# Versions count changes one by one: beyond it they were not counted, and soon no message or file
# takes the next one.
MAX_VERSION: Final = 2**52


class Edit(NamedTuple):
    """A change that must be on disk before it is applied: entries in the order of their versions.

    `whole`: they replace all others. `version` is the directory's afterwards.
    """

    epoch: str
    version: int
    entries: tuple[DirectoryEntry, ...]
    whole: bool = False


class Outcome(NamedTuple):
    """The outcome of a request: write and apply `edit`, if there is one, then send the reply."""

    reply: DirectoryReply
    edit: Edit | None = None


class Directory:
    """Entries by name, their versions, and the index of areas.

    `epoch` names this sequence of versions; an entry holds the version of its last change. An entry
    without an address is an account only: that of a CSP, or of an IAD whose lease has ended.
    """

    def __init__(self, epoch: str, version: int, entries: Iterable[DirectoryEntry]) -> None:
        self.apply(Edit(epoch, version, tuple(entries), whole=True))

    def apply(self, edit: Edit) -> None:
        """Apply the edit. O(r) for the areas r of each entry whose offerings change, and what the
        index takes for those; O(1) for another."""
        if edit.whole:
            self._clear()
        for entry in sorted(edit.entries, key=lambda one: one.version):
            self._put(entry)
        self.epoch, self.version = edit.epoch, edit.version
        if edit.whole:
            # Replicas that are behind must get removals that are not known here.
            self._forgotten = edit.version

    def _clear(self) -> None:
        self._entries: dict[str, DirectoryEntry] = {}  # oldest version first
        self._gone: dict[str, DirectoryEntry] = {}
        self._gone_in_order: deque[DirectoryEntry] = deque()
        self._forgotten = 0
        self._owners: dict[str, str] = {}  # public key → name
        self._accounts: tuple[Account, ...] | None = None  # sorted; None: a party has changed
        self.areas = 0  # areas offered by all parties together
        self._index = AreaIndex()

    def _put(self, entry: DirectoryEntry) -> None:
        name = entry.account.name
        before = self._entries.pop(name, None)
        self._gone.pop(name, None)
        if entry.gone:
            self._remember_gone(entry)
        else:
            self._entries[name] = entry
        self._offer(name, before, self._entries.get(name))
        self._open(name, before, self._entries.get(name))

    def _offer(
        self, name: str, before: DirectoryEntry | None, after: DirectoryEntry | None
    ) -> None:
        old = before.offerings if before is not None else ()
        new = after.offerings if after is not None else ()
        if old != new:
            self._index.replace(name, old, new)
            self.areas += offered_areas(new) - offered_areas(old)

    def _open(self, name: str, before: DirectoryEntry | None, after: DirectoryEntry | None) -> None:
        old = before.account if before is not None else None
        new = after.account if after is not None else None
        if old == new:
            return
        self._accounts = None
        for key in old.keys if old is not None else ():
            # A copy may hear of its next owner first.
            if self._owners.get(key) == name:
                del self._owners[key]
        if new is not None:
            self._owners.update(dict.fromkeys(new.keys, name))

    def _remember_gone(self, entry: DirectoryEntry) -> None:
        self._gone[entry.account.name] = entry
        self._gone_in_order.append(entry)
        if len(self._gone_in_order) > MAX_GONE:
            oldest = self._gone_in_order.popleft()
            if self._gone.get(oldest.account.name) is oldest:
                del self._gone[oldest.account.name]
                self._forgotten = oldest.version

    # --- queries -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[DirectoryEntry]:
        return iter(self._entries.values())

    def get(self, name: str) -> DirectoryEntry | None:
        """The entry of a party. O(1)."""
        return self._entries.get(name)

    def owner(self, key: str) -> str | None:
        """The party that has this public key. O(1)."""
        return self._owners.get(key)

    @property
    def accounts(self) -> tuple[Account, ...]:
        """All parties by name. O(n log n) after a change, else O(1)."""
        if self._accounts is None:
            self._accounts = tuple(self._entries[name].account for name in sorted(self._entries))
        return self._accounts

    @property
    def places(self) -> int:
        """Entries of the index of areas: what its memory grows with."""
        return self._index.places

    def discover(
        self, capability: str, areas: Sequence[str]
    ) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
        """All IADs by name that offer `capability` in some asked area, with those of their areas
        that overlap an asked one; and the asked areas that no IAD overlaps.

        A partly covered parent counts as covered: what it contains beyond the registered areas is
        unknown. Complexity: see `AreaIndex.find`.
        """
        found, uncovered = self._index.find(capability, areas)
        return self._candidates(found), uncovered

    def look_up(self, names: Iterable[str]) -> tuple[Candidate, ...]:
        """The registered ones of those IADs, by name, with all areas they offer. O(1) per name of
        one capability, plus sorting the names."""
        found = {}
        for name in set(names):
            entry = self._entries.get(name)
            if entry is not None and entry.address:
                found[name] = self._index.areas(name, entry.offerings)
        return self._candidates(found)

    def _candidates(self, found: Mapping[str, tuple[str, ...]]) -> tuple[Candidate, ...]:
        made = []
        for name in sorted(found):
            entry = self._entries[name]
            made.append(Candidate(name, entry.address, entry.account.keys, found[name]))
        return tuple(made)

    def since(self, epoch: str, version: int) -> Edit:
        """The changes that a copy of that epoch and version lacks, or all there is. O(1) per
        entry."""
        if epoch != self.epoch or not self._forgotten <= version <= self.version:
            return self._whole()
        entries = []
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                break
            entries.append(entry)
            if len(entries) > MAX_CHANGES:
                return self._whole()
        entries += [entry for entry in self._gone.values() if entry.version > version]
        entries.sort(key=lambda one: one.version)
        return Edit(self.epoch, self.version, tuple(entries))

    def _whole(self) -> Edit:
        return Edit(self.epoch, self.version, tuple(self), whole=True)


def contradiction(edit: Edit) -> str:
    """Why no leader has made this edit, in a file or a leader's reply; empty: it may have."""
    if not 0 <= edit.version <= MAX_VERSION:
        return "its version cannot be"
    if any(not 0 < entry.version <= edit.version for entry in edit.entries):
        return "an entry contradicts the rest"
    if any(entry.offerings and not entry.address for entry in edit.entries):
        return "an offer has no address"
    return ""


def offered_areas(offerings: Offerings) -> int:
    """Number of areas that a record offers, summed over capabilities."""
    return sum(len(offering.areas) for offering in offerings)
