"""The register of watches: parsing and refusal of requests, quotas, timers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec.structs import fields, replace

from agent.scheduling.admission import unknown_service
from agent.scheduling.timers import Timers
from agent.scheduling.watches.alerts import WatchedAlerts
from agent.scheduling.watches.events import (
    ReadTrigger,
    SavedAlerts,
    SavedWatch,
    SendWatch,
    Trigger,
    WatchArrived,
    WatchInstruction,
    WatchKey,
)
from agent.scheduling.watches.rounds import MAX_AHEAD, WatchEntry
from agent.wire.base import MAX_CHANNELS, RAW
from agent.wire.messages import Answer
from agent.wire.predicate_language import read_filter
from agent.wire.principals import Sender
from agent.wire.watches import Watch, Watching

# --- requests -------------------------------------------------------------------------------------


class WatchReader:
    """Parses triggers and filters; the arguments are as for `WatchScheduler`."""

    def __init__(
        self,
        read_trigger: ReadTrigger,
        capability_of: Callable[[str], str | None],
        new_id: Callable[[], str],
        lag_s: float,
        services: Callable[[], Iterable[str]],
    ) -> None:
        self._services = services
        self._read_trigger = read_trigger
        self._capability_of = capability_of
        self._new_id = new_id
        self._lag_s = lag_s

    def entry(
        self, key: WatchKey, saved: SavedWatch, alerts: SavedAlerts | None, now: float
    ) -> WatchEntry:
        """ValueError if its trigger, or the filter of its alerts, cannot be read."""
        watch = saved.watch
        trigger = self._trigger(watch)
        if not watch.on:
            return WatchEntry(key, saved, trigger, None, now)
        ends_s = saved.start_ms / 1e3 + (math.inf if watch.lasting_s is None else watch.lasting_s)
        watched = WatchedAlerts(
            read_filter(watch.on),
            watch.interval_s,
            self._new_id,
            alerts,
            ends_s=ends_s,
            lag_s=self._lag_s,
            most_open=MAX_AHEAD,
        )
        return WatchEntry(key, saved, trigger, watched, now)

    def _trigger(self, watch: Watch) -> Trigger | None:
        if not watch.trigger:
            return None
        trigger = self._read_trigger(watch.trigger)
        if len({*watch.channels, *trigger.channels}) > MAX_CHANNELS:
            raise ValueError(f"with it the watch is about more than {MAX_CHANNELS} channels")
        return trigger

    def not_given(self, watch: Watch, trigger: Trigger | None, sender: Sender) -> str:
        """The channels that the watch uses and its service does not give, or that there is no such
        service, in words; empty: all is there."""
        capability = self._capability_of(watch.service)
        if capability is None:
            return unknown_service(watch.service, self._services(), sender)
        channels = (*watch.channels, *(() if trigger is None else trigger.channels))
        others = sorted({name for name in channels if name not in (capability, capability + RAW)})
        if not capability or not others:
            return ""
        absent = " or ".join(others)
        return f"service {watch.service} has only the channel {capability}: no {absent}"


# --- refusals -------------------------------------------------------------------------------------


def key_of(sender: Sender, watch_id: str) -> WatchKey:
    """The key of a watch. A client without a key is a new one after each reconnection; it is
    identified by an unguessable id. No other role has watches, whatever its name."""
    if sender.role == "client":
        return sender.name, watch_id
    return "" if sender.role == "anyone" else f"{sender.role} {sender.name}", watch_id


def refuse(event: WatchArrived, message: str) -> list[WatchInstruction]:
    """Refuse a watch, with the reason."""
    return [SendWatch(event.peer, Watching(event.watch.id, "refused", message=message[:500]))]


def differing(known: Watch, again: Watch) -> str:
    """Names of the fields in which they differ, in words; empty: none."""
    again = replace(again, after=known.after)
    if known == again:
        return ""
    names = [f.name for f in fields(Watch) if getattr(known, f.name) != getattr(again, f.name)]
    return " and ".join(names)


def trouble_of(number: int, answer: Answer) -> str:
    """A round's problem, in words; empty: none."""
    if answer.status == "refused":
        return f"round {number} was refused: {answer.message or answer.reason}"[:500]
    if answer.status == "partial":
        coverage = answer.coverage
        return f"round {number}: {coverage.answered} of {coverage.asked} areas answered"
    return ""


# --- quotas ---------------------------------------------------------------------------------------

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


# --- timers ---------------------------------------------------------------------------------------

# A larger step back means that the clock was set; a smaller one delays timers by no more than that.
SET_BACK_S: Final = 1.0
# A client of which nothing was heard for this long and two intervals is sent a message, which finds
# out whether its connection is closed. One whose trigger does not hold gets no other.
LOOK_S: Final = 60.0


class WatchTimers:
    """One timer for each watch; `lag_s` and `expire_s` are as for `WatchScheduler`. Everything
    is O(log watches)."""

    def __init__(self, lag_s: float, expire_s: float) -> None:
        self._lag_s = lag_s
        self._expire_s = expire_s
        self._timers: Timers[WatchEntry] = Timers()
        self._now_s = -math.inf

    def __len__(self) -> int:
        return len(self._timers)

    @property
    def next_due(self) -> float | None:
        """When the first timer is due; None: there is none."""
        due_s = self._timers.first_s
        return None if due_s == math.inf else due_s

    def due(self, now: float) -> Iterator[WatchEntry]:
        """The watches whose timers expire by `now`; their timers are removed."""
        for entry in self._timers.due(now):
            entry.timer = -1
            yield entry

    def look_at_clock(self, now: float, watches: Iterable[WatchEntry]) -> None:
        """If the clock was set back, every watch with a delay of some seconds is examined anew,
        because it would wait for as long as the step. O(watches · log watches) then."""
        if now < self._now_s - SET_BACK_S:
            for entry in watches:
                entry.set_back(now)
                self.set_at(now, entry)
        self._now_s = now

    def clock_set(self, by_s: float, now: float, watches: Iterable[WatchEntry]) -> None:
        """The clock was set by this much: the silence of each client keeps its length, and all
        watches are examined anew. O(watches · log watches)."""
        for entry in watches:
            entry.seen_s += by_s
            entry.looked_s += by_s
            self.set_at(now, entry)

    def set(self, entry: WatchEntry) -> None:
        """Set its timer to its next due time."""
        due_s = min(self.expires_s(entry), self.looks_s(entry))
        if (number := entry.next_to_ask()) is not None:
            due_s = min(due_s, self.asks_s(entry, number))
        if (alerts := entry.alerts) is not None:
            attached = entry.state == "attached"
            due_s = min(due_s, alerts.next_tick(entry.held_until_s, attached=attached))
        self.set_at(due_s, entry)

    def set_at(self, due_s: float, entry: WatchEntry) -> None:
        """Set its timer to this time."""
        self.cancel(entry)
        entry.timer = self._timers.set(due_s, entry)

    def cancel(self, entry: WatchEntry) -> None:
        """Remove its timer."""
        if entry.timer >= 0:
            self._timers.cancel(entry.timer)
            entry.timer = -1

    def asks_s(self, entry: WatchEntry, number: int) -> float:
        """When a round is to be asked. Alerts do not wait for late readings."""
        if entry.alerts is not None:
            return entry.held_until_s
        return max(entry.end_ms(number) / 1e3 + self._lag_s, entry.held_until_s)

    def looks_s(self, entry: WatchEntry) -> float:
        """When it is looked whether its client, of which nothing was heard, is there."""
        if entry.state != "attached" or (entry.alerts is not None and entry.alerts.is_new):
            return math.inf
        return max(entry.seen_s, entry.looked_s) + LOOK_S + 2 * entry.watch.interval_s

    def expires_s(self, entry: WatchEntry) -> float:
        """When it expires if its client stays silent."""
        return entry.seen_s + self._expire_s + 2 * entry.watch.interval_s
