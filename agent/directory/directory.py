"""What the registration service knows: parties of the market, and what IADs offer where.

The primary and its mirrors hold one each. It changes by edits alone, which the shell has put on
disk before: see `agent.directory.leader` and `agent.directory.replica`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from agent.directory.index import AreaIndex
from agent.wire.directory import (
    Account,
    Candidate,
    DirectoryEntry,
    DirectoryReply,
    Offerings,
)

# Parties that are gone, remembered for mirrors that have not heard it; beyond, they get a whole
# copy.
MAX_GONE: Final = 1_000


class Edit(NamedTuple):
    """A change that has to be on disk before it counts: entries in the order of their versions.

    `whole`: they are all that is left. `version` is the directory's afterwards.
    """

    epoch: str
    version: int
    entries: tuple[DirectoryEntry, ...]
    whole: bool = False


class Outcome(NamedTuple):
    """What to do about a request: write and apply `edit`, if there is one, then reply."""

    reply: DirectoryReply
    edit: Edit | None = None


class Directory:
    """Entries by name, their versions, and the index of areas.

    `epoch` names this sequence of versions; an entry holds the version that made it what it is. An
    entry without an address is an account only: a CSP's, or that of an IAD whose lease has ended.
    """

    def __init__(self, epoch: str, version: int, entries: Iterable[DirectoryEntry]) -> None:
        self.apply(Edit(epoch, version, tuple(entries), whole=True))

    def apply(self, edit: Edit) -> None:
        """Make the change. O(r · d) for the areas r, of depth d, of each entry."""
        if edit.whole:
            self._clear()
        for entry in sorted(edit.entries, key=lambda one: one.version):
            self._put(entry)
        self.epoch, self.version = edit.epoch, edit.version
        if edit.whole:
            # Whoever is behind has to hear of parties that are gone, which nobody knows here.
            self._forgotten = edit.version

    def _clear(self) -> None:
        self._entries: dict[str, DirectoryEntry] = {}  # oldest version first
        self._gone: dict[str, DirectoryEntry] = {}
        self._gone_in_order: deque[DirectoryEntry] = deque()
        self._forgotten = 0
        self._owners: dict[str, str] = {}  # key → name
        self.areas = 0  # that are offered, by all together
        self._index = AreaIndex()

    def _put(self, entry: DirectoryEntry) -> None:
        name = entry.account.name
        before = self._entries.pop(name, None)
        if before is not None:
            self._index.remove(before)
            self.areas -= offered_areas(before.offerings)
            for key in before.account.keys:
                self._owners.pop(key, None)
        self._gone.pop(name, None)
        if entry.gone:
            self._remember_gone(entry)
            return
        self._entries[name] = entry
        self._index.add(entry)
        self.areas += offered_areas(entry.offerings)
        for key in entry.account.keys:
            self._owners[key] = name

    def _remember_gone(self, entry: DirectoryEntry) -> None:
        self._gone[entry.account.name] = entry
        self._gone_in_order.append(entry)
        if len(self._gone_in_order) > MAX_GONE:
            oldest = self._gone_in_order.popleft()
            if self._gone.get(oldest.account.name) is oldest:
                del self._gone[oldest.account.name]
                self._forgotten = oldest.version

    # --- what it knows -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[DirectoryEntry]:
        return iter(self._entries.values())

    def get(self, name: str) -> DirectoryEntry | None:
        """The entry of a party. O(1)."""
        return self._entries.get(name)

    def owner(self, key: str) -> str | None:
        """Whose public key that is. O(1)."""
        return self._owners.get(key)

    @property
    def accounts(self) -> tuple[Account, ...]:
        """All parties by name. O(n log n)."""
        return tuple(self._entries[name].account for name in sorted(self._entries))

    def discover(
        self, capability: str, areas: Sequence[str]
    ) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
        """All IADs by name that offer `capability` in some asked area, with the areas of theirs
        that overlap an asked one; and the asked areas that nobody overlaps.

        A parent that is covered in part counts as covered: what there is of it beyond the
        registered areas, nobody knows. Complexity: see `AreaIndex.find`.
        """
        return self._index.find(capability, areas)

    def look_up(self, names: Iterable[str]) -> tuple[Candidate, ...]:
        """The registered ones of those IADs, by name, with all areas they offer. O(1) for each
        name, besides sorting."""
        found = []
        for name in sorted(set(names)):
            entry = self._entries.get(name)
            if entry is not None and entry.address:
                areas = sorted({area for offering in entry.offerings for area in offering.areas})
                found.append(Candidate(name, entry.address, entry.account.keys, tuple(areas)))
        return tuple(found)

    def since(self, epoch: str, version: int) -> Edit:
        """What a copy of that epoch and version lacks. O(1) for each change since."""
        if epoch != self.epoch or not self._forgotten <= version <= self.version:
            return Edit(self.epoch, self.version, tuple(self), whole=True)
        entries = []
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                break
            entries.append(entry)
        entries += [entry for entry in self._gone.values() if entry.version > version]
        entries.sort(key=lambda one: one.version)
        return Edit(self.epoch, self.version, tuple(entries))


def offered_areas(offerings: Offerings) -> int:
    """How many areas a record offers, those of each capability counted."""
    return sum(len(offering.areas) for offering in offerings)
