"""Watch register and quotas: watches by key, per-client limits, limits on readings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from agent.scheduling.watches.entry import WatchEntry
from agent.scheduling.watches.events import WatchKey
from agent.wire.principals import Sender
from agent.wire.watches import Watch

MAX_WATCHES = 10_000
# Limit on all watches together; they are kept in memory and on disk.
MAX_WATCHED_AREAS = 500_000
# Limit on all clients together, as a multiple of one client's.
CLIENTS_AT_MOST = 4
# Overhead of a round per room beside its readings, counted in readings.
ROUND_COST = 10.0

HINT = "ask for a longer interval, a shorter window, or aggregates"

# Number of rooms (edge nodes) in areas of a service, as far as this master knows.
Rooms = Callable[[tuple[str, ...]], int]


class WatchRegister:
    """Bounds the cost of watches; `most_owned` limits those of one client, `most_readings_per_s`
    the readings of all its watches. Clients of a host without keys count as one, because
    connections are free. Everything but `rooms` is O(1)."""

    def __init__(
        self,
        most_owned: int,
        most_readings_per_s: float = math.inf,
        rooms: Rooms = len,
    ) -> None:
        self._most_owned = most_owned
        self._most_readings_per_s = most_readings_per_s
        self._rooms = rooms
        # Whole readings per second, so that repeated addition and subtraction stay exact.
        self._loads: dict[WatchKey, int] = {}
        self._load_of: Counter[str] = Counter()
        self._load = 0
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
        """Whether the watch is still kept."""
        return self._watches.get(entry.key) is entry

    def why_no_more(self, sender: Sender, watch: Watch) -> str:
        """Why there is no room for one more, in words; empty: there is."""
        if self._owned[sender.name] >= self._most_owned:
            return f"{self._most_owned} watches are open for you; cancel one"
        if len(self._watches) >= MAX_WATCHES:
            return f"{MAX_WATCHES} watches are open here; try another master"
        if self._areas + len(watch.areas) > MAX_WATCHED_AREAS:
            return f"{self._areas} areas are watched here; watch a parent of some"
        load, most = self.load(watch), self._most_readings_per_s
        wanted = load + self._load_of[payer_of(sender)]
        if wanted > most:
            whose = "watches from your host" if sender.role == "anyone" else "your watches"
            return f"{whose} would read {wanted:,} readings/s of {most:,.0f}: {HINT}"
        return self._too_much(load)

    def why_not_again(self, entry: WatchEntry) -> str:
        """The same for a restored watch when its client returns: nodes have joined by then, so that
        it may read more than it was counted for."""
        more = self.load(entry.watch) - self._loads[entry.key]
        return self._too_much(more) if more > 0 else ""

    def _too_much(self, load: int) -> str:
        if load + self._load <= CLIENTS_AT_MOST * self._most_readings_per_s:
            return ""
        return f"all watches here read {self._load:,} readings/s: {HINT}, or try again later"

    def load(self, watch: Watch) -> int:
        """Readings per second of a watch, for sensors with one reading per second; repeated queries
        of the same window count each time."""
        rooms = max(1, len(watch.areas), self._rooms(watch.areas))
        window_s = watch.window_s or watch.interval_s
        if watch.style == "streaming":
            window_s = watch.interval_s
        per_round = ROUND_COST + (window_s if watch.form == "series" else 0.0)
        return math.ceil(rooms * per_round / watch.interval_s)

    def add(self, entry: WatchEntry, load: int = 0) -> None:
        """Add the watch for its owner. Its readings count once it is given to a connected client,
        those of a restored one from the beginning, as far as this `load` is known."""
        self._watches[entry.key] = entry
        self._areas += len(entry.watch.areas)
        self._owned[entry.owner] += 1
        self._charge(entry, load)

    def remove(self, entry: WatchEntry) -> None:
        """Remove a finished watch."""
        del self._watches[entry.key]
        self._areas -= len(entry.watch.areas)
        self._disown(entry)

    def give(self, entry: WatchEntry, sender: Sender) -> None:
        """From now on it counts towards this client's limits."""
        # After a restart the nodes that it reads may still be away.
        load = max(self._loads[entry.key], self.load(entry.watch))
        self._disown(entry)
        entry.owner, entry.payer = sender.name, payer_of(sender)
        self._owned[entry.owner] += 1
        self._charge(entry, load)

    def _charge(self, entry: WatchEntry, load: int) -> None:
        self._loads[entry.key] = load
        self._load_of[entry.payer] += load
        self._load += load

    def _disown(self, entry: WatchEntry) -> None:
        owner, payer, load = entry.owner, entry.payer, self._loads.pop(entry.key)
        self._load -= load
        self._load_of[payer] -= load
        if not self._load_of[payer]:
            del self._load_of[payer]
        self._owned[owner] -= 1
        if not self._owned[owner]:
            del self._owned[owner]

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        assert sum(self._owned.values()) == len(self._watches)
        assert all(self._owned.values())
        assert self._loads.keys() == self._watches.keys()
        assert self._load == sum(self._loads.values()) == sum(self._load_of.values())
        assert self._areas == sum(len(entry.watch.areas) for entry in self)


def payer_of(sender: Sender) -> str:
    """The client or host whose readings limit the watch counts towards."""
    return f"host {sender.host}" if sender.role == "anyone" else sender.name
