"""Trigger runner: evaluates a node's triggers, stores their changes as events, survives restarts.

A trigger's state and the event that reports its change are stored in one transaction. A change
that cannot be stored does not take effect and is retried.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from agent.edge.events.faults import Faults, Happening
from agent.edge.events.trigger_config import read_triggers
from agent.edge.history.file import HistoryError
from agent.triggers.state import SensorTriggers, TriggerTransition
from agent.wire.base import TRIGGER_CLEARED, TRIGGER_RAISED

if TYPE_CHECKING:
    from agent.edge.history.event_store import Raised
    from agent.edge.history.memtable import Sample
    from agent.edge.node_time import Moment
    from agent.edge.sampling.sensor import Sensor
    from agent.wire.edge_config import EdgeConfig, EdgeTrigger

RETRY_S: Final = 10.0  # after an event could not be stored

Raise = Callable[[Happening], bool]


class Stored(Protocol):
    """What is known from before the start; each raises HistoryError if the file cannot be used."""

    def raised(self) -> Iterable[Raised]:
        """The triggers that are raised."""

    @property
    def masters(self) -> frozenset[str]:
        """The masters for which triggers were followed last; none: it is not known."""

    def keep_masters(self, masters: Iterable[str]) -> None:
        """From now on triggers are followed for these."""


class SensorAlerts:
    """Follows one sensor's readings with its faults and triggers; any thread may call."""

    def __init__(
        self,
        faults: Faults,
        triggers: SensorTriggers,
        store: Callable[[Moment, TriggerTransition], bool],
    ) -> None:
        """`store` returns whether it stored the event."""
        self._faults = faults
        self._triggers = triggers
        self._store = store
        self._lock = threading.Lock()
        # Report nothing until the triggers raised before the start are known.
        self._told_from_s = float("inf")

    def restore(self, raised: Iterable[str]) -> None:
        """Take over the triggers that were raised before the start."""
        with self._lock:
            self._triggers.restore(raised)
            self._told_from_s = -float("inf")

    def follow(self, moment: Moment, sample: Sample, why: str) -> None:
        """Process the next reading, which is stored already."""
        self._faults.follow(moment, sample, why)
        with self._lock:
            now = moment.monotonic_ms / 1000
            if changes := self._triggers.take(now, sample.values, sample.quality):
                self._tell(moment, now, changes)

    def restarted(self, moment: Moment, text: str) -> None:
        """The driver's helper process was restarted."""
        self._faults.restarted(moment, text)

    def tick(self, moment: Moment) -> None:
        """Time has passed; the sensor may have gone silent."""
        # Do not wait for a slow disk: the lock is taken by a reading, so the sensor is not silent.
        if self._lock.acquire(blocking=False):
            try:
                now = moment.monotonic_ms / 1000
                if changes := self._triggers.tick(now):
                    self._tell(moment, now, changes)
            finally:
                self._lock.release()

    def _tell(self, moment: Moment, now: float, changes: list[TriggerTransition]) -> None:
        if now < self._told_from_s:
            return
        for change in changes:
            if not self._store(moment, change):
                self._told_from_s = now + RETRY_S
                return
            self._triggers.took(change, now)


class Alerts:
    """All triggers of a node. `raised` stores an event and returns whether it succeeded; `stored`
    has the triggers raised before the start."""

    def __init__(
        self,
        settings: EdgeConfig,
        sensors: Sequence[Sensor],
        faults: Sequence[Faults],
        raised: Raise,
        stored: Stored,
        now: float,
    ) -> None:
        """ConfigError as by `read_triggers`."""
        self._settings = {trigger.name: trigger for trigger in settings.trigger}
        self._areas = settings.node.areas
        self._units = {c.name: c.unit for sensor in sensors for c in sensor.channels}
        self._raise = raised
        self._stored = stored
        own = settings.master
        masters = [own.iad, own.address, *[n for m in own.other for n in (m.iad, m.address)]]
        self._masters = frozenset(masters) - {""}
        self._restored = False
        self.counts = dict.fromkeys(self._settings, 0)  # raised since the start
        self._names: list[tuple[SensorAlerts, set[str]]] = []
        # One follower for each sensor's readings.
        self.followers: list[SensorAlerts | Faults] = []
        of_sensors = read_triggers(settings.trigger, sensors)
        for sensor, its_faults, triggers in zip(sensors, faults, of_sensors, strict=True):
            if not triggers:
                self.followers.append(its_faults)
                continue
            channels = [channel.name for channel in sensor.channels]
            alerts = SensorAlerts(
                its_faults,
                SensorTriggers(triggers, channels, sensor.interval_s, now),
                partial(self._store, sensor.name),
            )
            self.followers.append(alerts)
            self._names.append((alerts, {trigger.name for trigger in triggers}))

    def turn(self, moment: Moment) -> None:
        """Take over the triggers raised before the start and clear those no longer configured; call
        it before the first reading and periodically."""
        if not self._restored:
            self._restore(moment)
        for alerts, _ in self._names:
            alerts.tick(moment)

    def _restore(self, moment: Moment) -> None:
        try:
            found = self._stored.raised()
            before = self._stored.masters
        except HistoryError:
            return  # then no event can be stored either
        moved = bool(before) and before.isdisjoint(self._masters)
        known = set()
        for each in found:
            # The other master knows nothing of it: it is raised anew if it holds.
            why = "the node has another master now" if moved else self._outdated(each)
            if why is None:
                known.add(each.trigger)
            elif not self._raise(_ended(each, moment, why)):
                return
        try:
            if before != self._masters:
                self._stored.keep_masters(self._masters)
        except HistoryError:
            return
        for alerts, names in self._names:
            alerts.restore(names & known)
        self._restored = True

    def _outdated(self, raised: Raised) -> str | None:
        """Why a raised trigger no longer matches the configuration; None if it does."""
        setting = self._settings.get(raised.trigger)
        if setting is None:
            return "it is not in the configuration any more"
        same = (_definition(setting), self._areas_of(setting)) == (raised.definition, raised.areas)
        return None if same else "it was changed in the configuration"

    def _areas_of(self, setting: EdgeTrigger) -> tuple[str, ...]:
        return setting.areas or self._areas

    def _store(self, sensor: str, moment: Moment, change: TriggerTransition) -> bool:
        setting = self._settings[change.trigger]
        happening = Happening(
            TRIGGER_RAISED if change.raised else TRIGGER_CLEARED,
            moment,
            moment.time_ms,
            sensor,
            change.channel,
            trigger_text(setting, change, self._units[change.channel]),
            change.trigger,
            change.value,
            self._areas_of(setting),
            _definition(setting),
        )
        stored = self._raise(happening)
        if stored and change.raised:
            self.counts[change.trigger] += 1
        return stored


def trigger_text(setting: EdgeTrigger, change: TriggerTransition, unit: str) -> str:
    """``temperature > 30: temperature 31.2 celsius, for 10 s``. The console reads it, too
    (`words.js`)."""
    if change.verdict == "unknown":
        return f"not known what {change.channel} is for {setting.unknown_s:g} s"
    text = setting.condition
    if not change.raised:
        text = setting.clear or f"no longer {setting.condition}"
    text += f": {change.channel} {change.value:g} {unit}"
    if change.rate is not None:
        text += f", {60 * change.rate:.3g} a minute"
    if change.after_s is not None and (setting.for_s or not change.raised):
        text += f", {'for' if change.raised else 'after'} {change.after_s:.0f} s"
    return text


def _definition(setting: EdgeTrigger) -> str:
    """The trigger's identity across restarts: while it is equal, a raised trigger stays raised."""
    clear = f", clear {setting.clear}" if setting.clear else ""
    return f"{setting.condition}{clear}"


def _ended(raised: Raised, moment: Moment, why: str) -> Happening:
    return Happening(
        TRIGGER_CLEARED,
        moment,
        moment.time_ms,
        raised.sensor,
        raised.channel,
        why,
        raised.trigger,
        None,
        raised.areas,
    )
