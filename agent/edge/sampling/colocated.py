"""Co-located channels: compares the channels of a node that measure the same quantity."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from agent.edge.sampling.sensor import Sensor, StoredChannel
from sensors.quality.colocated import Colocated
from sensors.quality.flags import GOOD
from sensors.quality.limits import quantity_of

FRESH_INTERVALS: Final = (
    5.0  # maximum age of a value that counts, in intervals of the slowest sensor
)
FRESH_S: Final = 300.0  # minimum of that age


class ColocatedChannels:
    """The co-located channels of all sensors: same quantity, unit and place. Any thread may
    call."""

    def __init__(self, sensors: Sequence[Sensor]) -> None:
        fresh_s = max(FRESH_S, FRESH_INTERVALS * max([sensor.interval_s for sensor in sensors]))
        self._groups: dict[str, Colocated] = {}
        for members in _kinds(sensors):
            names = [channel.name for channel in members]
            group = Colocated(names, [channel.limits for channel in members], fresh_s)
            self._groups.update(dict.fromkeys(names, group))
        self._lock = threading.Lock()

    def check(self, name: str, time_s: float, value: float, flags: int) -> int:
        """The flags that the other channels add to `flags`, those of `value` alone."""
        group = self._groups.get(name)
        if group is None:
            return GOOD
        with self._lock:
            return group.check(name, time_s, value, flags)


def _kinds(sensors: Sequence[Sensor]) -> list[list[StoredChannel]]:
    kinds: dict[tuple[str, str, str], list[StoredChannel]] = {}
    for sensor in sensors:
        for channel in sensor.channels if sensor.place else ():
            kind = (sensor.place, quantity_of(channel.quantity), channel.unit)
            kinds.setdefault(kind, []).append(channel)
    return [members for members in kinds.values() if len(members) > 1]
