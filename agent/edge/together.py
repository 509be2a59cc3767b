"""The channels of a node's sensors that measure the same quantity, held against each other."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from agent.edge.sensor import Sensor
from sensors.quality.colocated import Colocated, groups
from sensors.quality.flags import GOOD

FRESH_INTERVALS: Final = 5.0  # of the slowest sensor: how old a value may be to count
FRESH_S: Final = 300.0  # and at least so long


class Together:
    """The co-located channels of all sensors; any thread."""

    def __init__(self, sensors: Sequence[Sensor]) -> None:
        channels = [channel for sensor in sensors for channel in sensor.channels]
        slowest_s = max([sensor.interval_s for sensor in sensors])
        self._groups: dict[str, Colocated] = groups(
            [(channel.name, channel.unit) for channel in channels],
            [channel.limits for channel in channels],
            max(FRESH_S, FRESH_INTERVALS * slowest_s),
        )
        self._lock = threading.Lock()

    def check(self, name: str, time_s: float, value: float, flags: int) -> int:
        """What the others add to `flags`, which were found of `value` alone."""
        group = self._groups.get(name)
        if group is None:
            return GOOD
        with self._lock:
            return group.check(name, time_s, value, flags)
