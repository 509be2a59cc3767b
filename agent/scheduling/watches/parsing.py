"""Parsing of watch requests into entries; errors are reported in words."""

from __future__ import annotations

import math
from collections.abc import Callable

from agent.scheduling.watches.alerts import WatchedAlerts
from agent.scheduling.watches.entry import MAX_AHEAD, WatchEntry
from agent.scheduling.watches.events import SavedAlerts, SavedWatch, WatchKey
from agent.scheduling.watches.trigger import ReadTrigger, Trigger
from agent.wire.base import MAX_CHANNELS, RAW
from agent.wire.predicate_language import read_filter
from agent.wire.watches import Watch


class WatchReader:
    """Parses triggers and filters; the arguments are as for `WatchScheduler`."""

    def __init__(
        self,
        read_trigger: ReadTrigger,
        capability_of: Callable[[str], str | None],
        new_id: Callable[[], str],
        lag_s: float,
    ) -> None:
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

    def not_given(self, watch: Watch, trigger: Trigger | None) -> str:
        """The channels that the watch uses and its service does not give, in words; empty: none."""
        capability = self._capability_of(watch.service)
        if capability is None:
            return f"no service {watch.service} here: see `fleet service list`"
        channels = (*watch.channels, *(() if trigger is None else trigger.channels))
        others = sorted({name for name in channels if name not in (capability, capability + RAW)})
        if not capability or not others:
            return ""
        return f"service {watch.service} gives {capability} and no more: no {' or '.join(others)}"
