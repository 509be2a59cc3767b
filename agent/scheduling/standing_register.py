"""The watches that are kept: by key, how many each client has, and how much all are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agent.scheduling.standing_entry import WatchEntry
from agent.scheduling.standing_events import WatchKey
from agent.wire.standing import Watch

MOST_WATCHES = 10_000
# Of all watches together; they are kept in memory and on disk.
MOST_WATCHED_AREAS = 500_000


class WatchRegister:
    """Bounds what watches cost; `most_owned` are those of one client. Everything is O(1)."""

    def __init__(self, most_owned: int) -> None:
        self._most_owned = most_owned
        self._watches: dict[WatchKey, WatchEntry] = {}
        self._owned: Counter[str] = Counter()
        self._areas = 0

    def __len__(self) -> int:
        return len(self._watches)

    def __iter__(self) -> Iterator[WatchEntry]:
        return iter(self._watches.values())

    def find(self, key: WatchKey) -> WatchEntry | None:
        """The watch of this key; None: there is none."""
        return self._watches.get(key)

    def has(self, entry: WatchEntry) -> bool:
        """Whether it is kept still."""
        return self._watches.get(entry.key) is entry

    def why_no_more(self, owner: str, watch: Watch) -> str:
        """Why there is no room for one more, in words; empty: there is."""
        if self._owned[owner] >= self._most_owned:
            return f"{self._most_owned} watches are open for you; cancel one"
        if len(self._watches) >= MOST_WATCHES:
            return f"{MOST_WATCHES} watches are open here; try another master"
        if self._areas + len(watch.areas) > MOST_WATCHED_AREAS:
            return f"{self._areas} areas are watched here; watch a parent of some"
        return ""

    def add(self, entry: WatchEntry) -> None:
        """Keep it, for its owner."""
        self._watches[entry.key] = entry
        self._areas += len(entry.watch.areas)
        self._owned[entry.owner] += 1

    def remove(self, entry: WatchEntry) -> None:
        """It is over."""
        del self._watches[entry.key]
        self._areas -= len(entry.watch.areas)
        self._disown(entry.owner)

    def give(self, entry: WatchEntry, owner: str) -> None:
        """It counts among this client's from now on."""
        self._disown(entry.owner)
        entry.owner = owner
        self._owned[owner] += 1

    def _disown(self, owner: str) -> None:
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert sum(self._owned.values()) == len(self._watches)
        assert all(self._owned.values())
        assert self._areas == sum(len(entry.watch.areas) for entry in self)
