"""Timers of watches: the next round, alerts, or expiry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

from agent.scheduling.timers import Timers
from agent.scheduling.watches.entry import WatchEntry

# A larger step back means that the clock was set; a smaller one delays timers by no more than that.
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
        """When the first timer is due; None: there is none."""
        return self._timers.next_due()

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
            self.set_at(now, entry)

    def set(self, entry: WatchEntry) -> None:
        """Set its timer to its next due time."""
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
        """Remove its timer."""
        if entry.timer >= 0:
            self._timers.cancel(entry.timer)
            entry.timer = -1

    def asks_s(self, entry: WatchEntry, number: int) -> float:
        """When a round is to be asked. Alerts do not wait for late readings."""
        if entry.alerts is not None:
            return entry.held_until_s
        return max(entry.end_ms(number) / 1e3 + self._lag_s, entry.held_until_s)

    def expires_s(self, entry: WatchEntry) -> float:
        """When it expires if its client stays silent."""
        return entry.seen_s + self._expire_s + 2 * entry.watch.interval_s
