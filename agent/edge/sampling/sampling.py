"""Sampler: a thread per sensor that reads it on schedule, checks the reading and stores it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Final, Protocol

from agent.edge.history.columns import NAN
from agent.edge.history.file import HistoryError
from agent.edge.history.memtable import Sample
from agent.edge.node_time import Moment, NodeTime
from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.counters import SensorCounters
from agent.edge.sampling.preload import PRELOAD_S, preloaded
from agent.edge.sampling.sensor import Sensor, close_sensors
from sensors.base import Reading, SensorError, flag_of, reason_of
from sensors.quality.channel import SensorQuality
from sensors.quality.episodes import READINGS

SAMPLERS_PATIENCE_S: Final = 3.0  # at shutdown, for readings in progress
OLDEST_MS: Final = (1 << 32) - 1


class Schedule:
    """Ticks at start, start + interval, start + 2·interval …: a late tick does not delay later
    ones, and missed ticks are skipped, not made up for."""

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
        if self._start + (tick + 1) * self._interval_s <= now:  # the quotient was rounded down
            tick += 1
        self.missed += tick - self._tick
        self._tick = tick + 1
        return True


class Sink(Protocol):
    """Receives readings: a stream of the history, or a substitute."""

    @property
    def empty(self) -> bool:
        """Whether it accepts the driver's preloaded readings."""

    def append(self, sample: Sample) -> None:
        """Add a reading; HistoryError if it may be lost."""

    def load(self, samples: Iterable[Sample]) -> None:
        """Add preloaded readings; HistoryError, or an exception of `samples`, adds none."""


class Follower(Protocol):
    """Receives each reading once it is stored: the faults and triggers, or a substitute."""

    def follow(self, moment: Moment, sample: Sample, why: str) -> None:
        """Process a reading; `why` is the driver's error text if it gave none, else ""."""

    def restarted(self, moment: Moment, text: str) -> None:
        """The driver's helper process was restarted."""


class Sampler:
    """Reads one sensor on schedule and appends to its stream, until stopped.

    A failed or invalid reading is stored as missing values with flags that give the reason: a
    visible gap, not a repeat of the last value. No error ends the sampling. READINGS failures in a
    row are reported, rate-limited; fewer are normal. `colocated` adds the flags found by comparison
    with other channels of the node.
    """

    def __init__(
        self,
        sensor: Sensor,
        stream: Sink,
        time: NodeTime,
        reporter: Reporter,
        colocated: Callable[[str, float, float, int], int],
        follower: Follower,
    ) -> None:
        self._sensor = sensor
        self._driver = sensor.driver
        self._stream = stream
        self._time = time
        self._reporter = reporter
        self._colocated = colocated
        self._follower = follower
        self._calibrated = sensor.calibrated
        self._names = tuple([channel.name for channel in sensor.channels])
        limits = [channel.limits for channel in sensor.channels]
        self._quality = SensorQuality(sensor.driver.channels, limits)
        self._source_ms = 0  # when the latest reading of a replay was recorded
        self._missing = (NAN,) * len(self._names)
        self._why = ""  # reason of the latest missing reading
        self._failures = 0  # in a row
        self._restarts = 0  # of the driver's helper process
        self._restart_told = False  # whether a restart was reported since the last reading
        self.counters = SensorCounters(
            sensor.name, self._names, sensor.interval_s, time.monotonic()
        )

    def preload(self, patience_s: float = PRELOAD_S) -> None:
        """Fill an empty stream with the driver's preloaded readings, as if taken at the interval up
        to now. It stays empty if the driver fails or takes longer than `patience_s`, or the history
        cannot be written now.
        """
        if not self._stream.empty:
            return
        try:
            # The moment first: it may apply a clock correction, which takes the history's lock.
            self._stream.load(self._past(self._time.moment(), patience_s))
        except HistoryError as error:
            self._reporter.tell(f"{self._sensor.name}: no preloaded readings: {error}")
        except Exception as error:  # noqa: BLE001 - the agent starts without them
            self._reporter.tell(f"{self._sensor.name}: no preloaded readings: {reason_of(error)}")

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set; the first reading is taken at once."""
        schedule = Schedule(self._time.monotonic(), self._sensor.interval_s)
        while not stop.wait(max(0.0, schedule.next_at - self._time.monotonic())):
            if schedule.take(self._time.monotonic()):
                if schedule.missed > self.counters.missed:
                    missed = schedule.missed - self.counters.missed
                    self.counters.missed = schedule.missed
                    self._complain(
                        "late",
                        f"readings left out: {missed}, for the sensor or the processor was too "
                        f"slow; {schedule.missed} since the start",
                    )
                self.sample()

    def sample(self) -> None:
        """Take one reading and store it."""
        moment = self._time.moment()
        self.counters.begins(moment.monotonic_ms / 1000)
        reading, flag = self._read(moment)
        sample = self._sample(moment.time_ms, moment.monotonic_ms, moment.synchronised, reading)
        if flag:
            sample = sample._replace(quality=(flag,) * len(self._names))
        try:
            self._stream.append(sample)
        except HistoryError as error:
            self._reporter.complain("history", str(error))
        except Exception as error:  # noqa: BLE001 - this agent's mistake must not end it either
            self._reporter.complain("history", f"not stored: {type(error).__name__}: {error}")
        self._follower.follow(moment, sample, self._why if flag else "")
        self.counters.ends(sample.quality, sample.age_ms, self._time.monotonic())

    def _sample(
        self, time_ms: int, monotonic_ms: int, synchronised: bool, reading: Reading
    ) -> Sample:
        if (source_ms := reading.source_time_ms) is not None:
            if source_ms < self._source_ms:  # a recording begins again: its first row is no jump
                self._quality.begin_again()
            self._source_ms = source_ms
        raw = reading.values
        values = self._sensor.calibrate(raw) if self._calibrated else raw
        at_s = monotonic_ms / 1000
        found = self._quality.check(at_s, raw, values)
        flags = tuple(
            [
                flag | self._colocated(name, at_s, value, flag)
                for name, value, flag in zip(self._names, values, found, strict=True)
            ]
        )
        return Sample(
            time_ms,
            monotonic_ms,
            synchronised,
            values,
            source_ms,
            reading.age_ms,
            flags if any(flags) else (),
            raw if self._calibrated else None,
        )

    def _read(self, moment: Moment) -> tuple[Reading, int]:
        """A reading and 0, or missing values and the flag that gives the reason."""
        try:
            self._follow_helper(moment)
            reading = self._checked(self._driver.read())
        except BaseException as error:  # noqa: BLE001 - a driver's mistake must not end the sampling
            self._failed(reason_of(error))
            return Reading(self._missing), flag_of(error)
        self._restart_told = False
        self._failures = 0
        name = self._sensor.name
        self._reporter.recovered("sensor", f"{name}: reads again", sensor=name)
        return reading, 0

    def _follow_helper(self, moment: Moment) -> None:
        """Report that the driver's helper process was restarted since the last read.

        A helper that never delivers a reading causes one event, not one per attempt.
        """
        # Only drivers with a helper process count its restarts.
        restarts = getattr(self._driver, "restarts", 0)
        if restarts == self._restarts:
            return
        self._restarts = restarts
        text = f"its helper process was started again, restart {restarts} since the agent's start"
        if self._why:
            text += f": {self._why}"
        self._complain("restart", text)
        if not self._restart_told:
            self._restart_told = True
            self._follower.restarted(moment, text)

    def _failed(self, why: str) -> None:
        self._why = why
        self._failures += 1
        if self._failures >= READINGS:
            self._complain("sensor", f"no reading: {why}", why)

    def _complain(self, kind: str, line: str, cause: str = "") -> None:
        name = self._sensor.name
        self._reporter.complain(kind, f"{name}: {line}", sensor=name, cause=cause)

    def _checked(self, reading: object) -> Reading:
        """`reading` with numbers of the types that the history stores; raises if it has others."""
        if not isinstance(reading, Reading):
            raise SensorError(f"the driver gave {type(reading).__name__} in place of a reading")
        values = tuple([float(value) for value in reading.values])
        if len(values) != len(self._missing):
            raise SensorError(f"{len(values)} values for {len(self._missing)} channels")
        source_ms = reading.source_time_ms
        if source_ms is not None and not 0 <= (source_ms := index(source_ms)) < 2**53:
            raise SensorError(f"{source_ms} is no time at which a reading was recorded")
        if not 0 <= (age_ms := index(reading.age_ms)) <= OLDEST_MS:
            raise SensorError(f"{age_ms} is no age of a reading")
        return Reading(values, source_ms, age_ms)

    def _past(self, moment: Moment, patience_s: float) -> Iterator[Sample]:
        before = math.inf
        for intervals, reading in preloaded(self._driver, patience_s):
            # A driver that repeats one would fill the disk until its time is over.
            if not 0 < intervals < before:
                raise SensorError(f"the reading {intervals} intervals ago is not in order of time")
            before = intervals
            ago_ms = round(intervals * self._sensor.interval_s * 1000)
            yield self._sample(
                moment.time_ms - ago_ms,
                moment.monotonic_ms - ago_ms,
                moment.synchronised,
                self._checked(reading),
            )


class Threads:
    """The threads of a node's samplers, one each."""

    def __init__(self, sensors: Sequence[Sensor], samplers: Sequence[Sampler]) -> None:
        self._ends = threading.Event()
        self._threads = [
            (
                sensor,
                threading.Thread(target=self._run, args=(sensor, s), name="sampler", daemon=True),
            )
            for sensor, s in zip(sensors, samplers, strict=True)
        ]

    def start(self) -> None:
        """Start sampling."""
        for _, thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop taking readings."""
        self._ends.set()

    def close(self, stuck: Callable[[str], object]) -> None:
        """After `end`: wait until the threads have closed their sensors, up to SAMPLERS_PATIENCE_S.
        Calls `stuck` with the names of those that have not."""
        until_s = time.monotonic() + SAMPLERS_PATIENCE_S
        for _, thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
        for sensor, thread in self._threads:
            if thread.is_alive():
                stuck(sensor.name)

    def _run(self, sensor: Sensor, sampler: Sampler) -> None:
        sampler.run(self._ends)
        close_sensors([sensor])
