"""The watches that are kept: by key, how many each client has, and how much all are about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from agent.scheduling.watches.entry import WatchEntry
from agent.scheduling.watches.events import WatchKey
from agent.wire.principals import Sender
from agent.wire.watches import Watch

MAX_WATCHES = 10_000
# Of all watches together; they are kept in memory and on disk.
MAX_WATCHED_AREAS = 500_000
# Of all clients together, so many times what one may have.
CLIENTS_AT_MOST = 4
# What a round of one room costs beside its readings, counted in readings.
ROUND_COST = 10.0

HINT = "ask for a longer interval, a shorter window, or aggregates"

# Rooms (edge nodes) that areas of a service are about, as far as this master knows.
Rooms = Callable[[tuple[str, ...]], int]


class WatchRegister:
    """Bounds what watches cost; `most_owned` are those of one client, `most_readings_per_s` what
    they may read in all, or those of all clients of a host that have no keys: a connection costs
    nothing. Everything but `rooms` is O(1)."""

    def __init__(
        self,
        most_owned: int,
        most_readings_per_s: float = math.inf,
        rooms: Rooms = len,
    ) -> None:
        self._most_owned = most_owned
        self._most_readings_per_s = most_readings_per_s
        self._rooms = rooms
        # Readings a second, whole: sums of what comes and goes stay exact.
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
        """Whether it is kept still."""
        return self._watches.get(entry.key) is entry

    def why_no_more(self, sender: Sender, watch: Watch) -> str:
        """Why there is no room for one more, in words; empty: there is."""
        if self._owned[sender.name] >= self._most_owned:
            return f"{self._most_owned} watches are open for you; cancel one"
        if len(self._watches) >= MAX_WATCHES:
            return f"{MAX_WATCHES} watches are open here; try another master"
        if self._areas + len(watch.areas) > MAX_WATCHED_AREAS:
            return f"{self._areas} areas are watched here; watch a parent of some"
        load, most = self._load_of_one(watch), self._most_readings_per_s
        wanted = load + self._load_of[_payer(sender)]
        if wanted > most:
            whose = "watches from your host" if sender.role == "anyone" else "your watches"
            return f"{whose} would read {wanted:,} readings/s of {most:,.0f}: {HINT}"
        return self._too_much(load)

    def why_not_again(self, entry: WatchEntry) -> str:
        """The same for one that was on disk, once its client is there: what it reads is known by
        then, since nodes have joined."""
        return self._too_much(self._load_of_one(entry.watch))

    def _too_much(self, load: int) -> str:
        if load + self._load <= CLIENTS_AT_MOST * self._most_readings_per_s:
            return ""
        return f"all watches here read {self._load:,} readings/s: {HINT}, or try again later"

    def _load_of_one(self, watch: Watch) -> int:
        """Readings that a watch reads in a second, of sensors that give one a second; what it asks
        again and again counts each time."""
        rooms = max(1, len(watch.areas), self._rooms(watch.areas))
        window_s = watch.window_s or watch.interval_s
        if watch.style == "streaming":
            window_s = watch.interval_s
        per_round = ROUND_COST + (window_s if watch.form == "series" else 0.0)
        return math.ceil(rooms * per_round / watch.interval_s)

    def add(self, entry: WatchEntry) -> None:
        """Keep it, for its owner. It reads nothing until it is given to a client who is there."""
        self._watches[entry.key] = entry
        self._areas += len(entry.watch.areas)
        self._owned[entry.owner] += 1
        self._loads[entry.key] = 0

    def remove(self, entry: WatchEntry) -> None:
        """It is over."""
        del self._watches[entry.key]
        self._areas -= len(entry.watch.areas)
        self._disown(entry)

    def give(self, entry: WatchEntry, sender: Sender) -> None:
        """It counts among this client's from now on."""
        self._disown(entry)
        entry.owner, entry.payer = sender.name, _payer(sender)
        self._owned[entry.owner] += 1
        load = self._loads[entry.key] = self._load_of_one(entry.watch)
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


def _payer(sender: Sender) -> str:
    """Who answers for what a watch reads."""
    return f"host {sender.host}" if sender.role == "anyone" else sender.name
