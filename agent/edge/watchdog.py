"""Watchdog: decides from its threads' progress whether the agent works; reads no clock.

A node without a master, or with a sensor that fails at once, is healthy: a restart would not help.
A node whose sensor thread does not return is not: the driver or the disk hangs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agent.edge.sampling.counters import SensorCounters

# On top of an interval, for which a driver may block. A worn card may take half a minute to sync.
PATIENCE_S: Final = 60.0
LOOK_S: Final = 10.0  # maximum pause between two checks
LATE_INTERVALS: Final = 3  # then it is reported, long before the process is restarted
LEAST_LATE_S: Final = 10.0


def late_after_s(interval_s: float) -> float:
    """Seconds without a sign of life after which a sensor's thread is late."""
    return min(max(LATE_INTERVALS * interval_s, LEAST_LATE_S), interval_s + PATIENCE_S)


class Watchdog:
    """Decides when to ping systemd. `watchdog_s` is the time after which systemd kills the agent;
    None: it expects no pings. Times are monotonic, in seconds."""

    def __init__(
        self, sensors: Iterable[SensorCounters], watchdog_s: float | None, now: float
    ) -> None:
        self._sensors = tuple(sensors)
        self._pause_s = LOOK_S if watchdog_s is None else min(watchdog_s / 2, LOOK_S)
        self._pings = watchdog_s is not None
        self.wake_at = now + self._pause_s

    def late(self, now: float) -> dict[str, float]:
        """The sensors whose threads do not return, and for how long, in seconds."""
        return {
            sensor.sensor: now - sensor.sign_s
            for sensor in self._sensors
            if now - sensor.sign_s > late_after_s(sensor.interval_s)
        }

    def look(self, now: float) -> tuple[bool, dict[str, float]]:
        """Whether to ping, and which sensors are late. Call it at `wake_at` from the event loop, so
        that a hanging loop sends no pings."""
        self.wake_at = now + self._pause_s
        well = all(now - s.sign_s <= s.interval_s + PATIENCE_S for s in self._sensors)
        return self._pings and well, self.late(now)


def watchdog_s(environment: dict[str, str], pid: int) -> float | None:
    """The time after which systemd kills process `pid` if it does not ping, from WATCHDOG_USEC and
    WATCHDOG_PID; None if it expects no pings."""
    wanted = environment.get("WATCHDOG_USEC", "")
    if not wanted.isascii() or not wanted.isdigit() or int(wanted) == 0:
        return None
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    return int(wanted) / 1e6
