"""Sampling: when to read the sensor, and the thread that does it."""

# ruff: noqa: PTH110, PTH123 - pathlib takes 0.6 MiB; see history_file

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from operator import index

from agent.edge.groups import NAN, Sample
from agent.edge.history import History
from agent.edge.history_file import HistoryError
from agent.edge.report import Reporter
from sensors.base import Driver, Reading, SensorError

BOOT_ID = "/proc/sys/kernel/random/boot_id"
# systemd-timesyncd makes this file with the first synchronisation of a boot.
SYNCHRONISED = "/run/systemd/timesync/synchronized"


class Schedule:
    """Ticks at start, start + interval, start + 2·interval …: late ticks do not move later ones,
    and ticks that were missed are left out instead of made up for."""

    def __init__(self, start: float, interval_s: float) -> None:
        self._start = start
        self._interval_s = interval_s
        self._tick = 0
        self.missed = 0

    @property
    def next_at(self) -> float:
        """When the next tick is due, on the clock of `start`, in seconds."""
        return self._start + self._tick * self._interval_s

    def take(self, now: float) -> bool:
        """Whether a tick is due at `now`; if so, it counts as done."""
        if now < self.next_at:
            return False
        tick = max(self._tick, math.floor((now - self._start) / self._interval_s))
        self.missed += tick - self._tick
        self._tick = tick + 1
        return True


class Clocks:
    """The node's clocks; a test gives others."""

    def monotonic(self) -> float:
        """Seconds since some moment of this boot."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970 UTC, as far as this node knows."""
        return time.time()

    def synchronised(self) -> bool | None:
        """Whether the wall clock was set from the network in this boot; None where that cannot be
        seen."""
        return True if os.path.exists(SYNCHRONISED) else None


def boot_id() -> str:
    """The kernel's name for this boot."""
    with open(BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


class Sampler:
    """Reads the driver on schedule and appends to the history, until it is stopped.

    A reading that fails, or is none, is stored as missing values: a hole that can be seen, not a
    repeat of the last value. No error ends the sampling; each is reported, rate-limited.
    """

    def __init__(
        self,
        driver: Driver,
        history: History,
        interval_s: float,
        reporter: Reporter,
        clocks: Clocks,
    ) -> None:
        self._driver = driver
        self._history = history
        self._interval_s = interval_s
        self._reporter = reporter
        self._clocks = clocks
        self._missing = Reading((NAN,) * len(driver.channels))

    def preload(self) -> None:
        """Give an empty history the readings that the driver has for it, as if they had been taken
        at the interval up to now; HistoryError if they cannot be stored.

        A driver that fails leaves the history empty.
        """
        if not self._history.empty:
            return
        try:
            self._history.load(self._past())
        except HistoryError:
            raise
        except SensorError as error:
            self._reporter.tell(f"no preloaded readings: {error}")
        except Exception as error:  # noqa: BLE001 - a driver's mistake must not keep the agent down
            self._reporter.tell(f"no preloaded readings: {type(error).__name__}: {error}")

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set; the first reading is taken at once."""
        schedule = Schedule(self._clocks.monotonic(), self._interval_s)
        while not stop.wait(max(0.0, schedule.next_at - self._clocks.monotonic())):
            missed = schedule.missed
            if schedule.take(self._clocks.monotonic()):
                if schedule.missed > missed:
                    self._reporter.complain(
                        "late",
                        f"readings left out: {schedule.missed - missed}, for the sensor or the "
                        f"processor was too slow; {schedule.missed} since the start",
                    )
                self.sample()

    def sample(self) -> None:
        """Take one reading and store it."""
        monotonic, wall = self._clocks.monotonic(), self._clocks.wall()
        reading = self._read()
        try:
            self._history.append(
                Sample(
                    round(wall * 1000),
                    round(monotonic * 1000),
                    self._clocks.synchronised(),
                    *reading,
                )
            )
        except HistoryError as error:
            self._reporter.complain("history", str(error))
        except Exception as error:  # noqa: BLE001 - this agent's mistake must not end it either
            self._reporter.complain("history", f"not stored: {type(error).__name__}: {error}")

    def _read(self) -> Reading:
        try:
            return self._checked(self._driver.read())
        except SensorError as error:
            self._reporter.complain("sensor", f"no reading: {error}")
        except Exception as error:  # noqa: BLE001 - a driver's mistake must not end the sampling
            self._reporter.complain("sensor", f"no reading: {type(error).__name__}: {error}")
        return self._missing

    def _checked(self, reading: object) -> Reading:
        """`reading` with numbers of the kinds that the history stores; an error if it has none."""
        if not isinstance(reading, Reading):
            raise SensorError(f"the driver gave {type(reading).__name__} in place of a reading")
        values = tuple([float(value) for value in reading.values])
        if len(values) != len(self._missing.values):
            raise SensorError(f"{len(values)} values for {len(self._missing.values)} channels")
        source_ms = reading.source_time_ms
        if source_ms is not None and not 0 <= (source_ms := index(source_ms)) < 2**53:
            raise SensorError(f"{source_ms} is no time at which a reading was recorded")
        return Reading(values, source_ms)

    def _past(self) -> Iterator[Sample]:
        wall_ms = round(self._clocks.wall() * 1000)
        monotonic_ms = round(self._clocks.monotonic() * 1000)
        synchronised = self._clocks.synchronised()
        for intervals, reading in self._driver.preload():
            age_ms = round(intervals * self._interval_s * 1000)
            checked = self._checked(reading)
            yield Sample(wall_ms - age_ms, monotonic_ms - age_ms, synchronised, *checked)
