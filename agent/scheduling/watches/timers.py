"""When something of a watch is due: a round, its alerts, or its end for want of a client."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from agent.scheduling.timers import Timers
from agent.scheduling.watches.entry import WatchEntry

# A clock that goes back by more was set; by less, it costs no more than that.
SET_BACK_S: Final = 1.0


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
        """When the first is due; None: there is none."""
        return self._timers.next_due()

    def due(self, now: float) -> Iterator[WatchEntry]:
        """Those whose timers run out by `now`; they have none then."""
        for entry in self._timers.due(now):
            entry.timer = -1
            yield entry

    def look_at_clock(self, now: float, watches: Iterable[WatchEntry]) -> None:
        """If it was set back, all that has to wait for some seconds is looked at anew: it would
        wait for as long as that. O(watches · log watches) then."""
        if now < self._now_s - SET_BACK_S:
            for entry in watches:
                entry.set_back(now)
                self.set_at(now, entry)
        self._now_s = now

    def clock_set(self, by_s: float, now: float, watches: Iterable[WatchEntry]) -> None:
        """It was set by so much: how long nothing was heard of a client stays what it was, and all
        is looked at anew. O(watches · log watches)."""
        for entry in watches:
            entry.seen_s += by_s
            self.set_at(now, entry)

    def set(self, entry: WatchEntry) -> None:
        """Set its timer to what is next."""
        due_s = self.expires_s(entry)
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
        """It needs none any more."""
        if entry.timer >= 0:
            self._timers.cancel(entry.timer)
            entry.timer = -1

    def asks_s(self, entry: WatchEntry, number: int) -> float:
        """When a round is to be asked. Alerts do not wait for readings that come late."""
        if entry.alerts is not None:
            return entry.held_until_s
        return max(entry.end_ms(number) / 1e3 + self._lag_s, entry.held_until_s)

    def expires_s(self, entry: WatchEntry) -> float:
        """When it ends if nothing is heard of its client."""
        return entry.seen_s + self._expire_s + 2 * entry.watch.interval_s
