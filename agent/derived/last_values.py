"""Last known values of devices that have a clone, with their times; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct, field

from agent.wire.areas import AreaSet
from agent.wire.base import MAX_COUNTED, Channel, Form
from agent.wire.messages import Aggregate, AreaResult, ChannelAggregate, Series
from agent.wire.packed import Float32Column, Int64Column

MAX_AREAS: Final = 64  # of a device
MAX_CHANNELS: Final = 64  # of an area, and of what the clone computes

# Time in ms since 1970 UTC, and value.
Known = tuple[int, float]
Channels = dict[Channel, Known]


class Device(Struct):
    """Last known values of a device: the readings by area, and the values that its clone made."""

    areas: tuple[str, ...]
    readings: dict[str, Channels] = field(default_factory=dict)
    computed: Channels = field(default_factory=dict)


class LastValues:
    """By device. What is here is bounded for each device; who keeps clones bounds their number."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._areas: AreaSet | None = None
        self._owners: list[str] = []

    def __contains__(self, device: object) -> bool:
        return device in self._devices

    def __iter__(self) -> Iterator[str]:
        return iter(self._devices)

    def known(self, device: str) -> Device | None:
        """Last known values of a device, to be kept on disk."""
        return self._devices.get(device)

    def keep(self, device: str, areas: Iterable[str], before: Device | None = None) -> None:
        """The device has a clone from now on, and these areas. `before` was known of it in an
        earlier run."""
        known = self._devices.get(device) or before or Device(())
        known.areas = tuple(areas)[:MAX_AREAS]
        self._devices[device] = known
        self._areas = None

    def forget(self, device: str) -> None:
        """The device has no clone any more."""
        self._devices.pop(device, None)
        self._areas = None

    def read(self, device: str, area: str, time_ms: int, values: Mapping[str, float]) -> None:
        """An area of the device had these values."""
        known = self._devices.get(device)
        if known is None:
            return
        if area not in known.readings:
            if len(known.readings) >= MAX_AREAS:
                return
            self._areas = None
        _update(known.readings.setdefault(area, {}), time_ms, values)

    def computed(self, device: str, time_ms: int, values: Mapping[str, float]) -> None:
        """The device's clone computed these values."""
        if (known := self._devices.get(device)) is not None:
            _update(known.computed, time_ms, values)

    def within(
        self, area: str, channels: tuple[str, ...], form: Form, now_ms: int
    ) -> list[AreaResult] | None:
        """The last known values of an area and those below, `channels` only unless that is empty,
        in the form of an answer; None if no device of these areas has a clone. O(areas found)."""
        table = self._table()
        if not (places := table.places_within((area,))):
            return None
        found = []
        for place in places:
            device = self._devices[self._owners[place]]
            known = device.readings.get(table[place], {}) | device.computed
            wanted = {name: known[name] for name in channels or known if name in known}
            if wanted:
                found.append(_result(table[place], wanted, form, now_ms))
        return found

    def _table(self) -> AreaSet:
        if self._areas is None:
            self._areas, self._owners = AreaSet(), []
            for name, device in self._devices.items():
                for area in dict.fromkeys((*device.areas, *device.readings)):
                    self._areas.add(area)
                    self._owners.append(name)
        return self._areas


def _update(channels: Channels, time_ms: int, values: Mapping[str, float]) -> None:
    for name, value in values.items():
        if math.isfinite(value) and (name in channels or len(channels) < MAX_CHANNELS):
            channels[name] = (time_ms, value)


def _result(area: str, known: Channels, form: Form, now_ms: int) -> AreaResult:
    times = sorted({time_ms for time_ms, _ in known.values()})
    stale_ms = min(max(0, now_ms - times[-1]), MAX_COUNTED)
    if form == "aggregate":
        single = {
            name: ChannelAggregate(1, value, value, value, last=value, last_ms=time_ms)
            for name, (time_ms, value) in known.items()
        }
        return AreaResult(area, aggregate=Aggregate(times[0], times[-1], single), stale_ms=stale_ms)
    columns = {
        name: Float32Column.of([value if time_ms == at else math.nan for at in times])
        for name, (time_ms, value) in known.items()
    }
    return AreaResult(area, series=Series(Int64Column.of(times), columns), stale_ms=stale_ms)
