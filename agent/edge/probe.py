"""Entry point of `sanderling-probe`: reads a node's sensors as the agent would and prints them.

A tool for wiring sensors: the drivers, calibration and quality checks of the agent, without history
or master.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from select import select
from signal import SIGTERM
from typing import Final, TextIO

from agent.edge.clocks import Clocks
from agent.edge.history.memtable import Sample
from agent.edge.node_time import Moment, NodeTime
from agent.edge.rate_limited_log import WARNING, Reporter
from agent.edge.sampling.colocated import ColocatedChannels
from agent.edge.sampling.counters import SensorCounters
from agent.edge.sampling.sampling import Sampler, Threads
from agent.edge.sampling.sensor import Sensor, StoredChannel, close_sensors, open_sensors
from agent.edge.timebase import TimeBase
from agent.runtime import console
from agent.runtime.command_line import UNUSABLE, configuration, fail, options, say_ok
from agent.runtime.signals import StopSignal
from agent.wire.config import ConfigError
from agent.wire.edge_config import EdgeConfig
from sensors.base import Leave, SensorError
from sensors.quality.flags import GOOD, names

WAITING_S: Final = (
    3.0  # on top of an interval, for which a driver may block; also the pause between two lines
)
LOOK_S: Final = 1.0


class Printed:
    """Stands in for the history's stream and for the faults: prints one line per reading."""

    empty = False  # nothing is preloaded

    def __init__(self, sensor: Sensor, out: TextIO) -> None:
        self._sensor = sensor
        self._out = out

    def append(self, sample: Sample) -> None:
        """Does nothing: `follow` prints the reading, with the reason if it is missing."""

    def load(self, samples: Iterable[Sample]) -> None:
        """Never called, as `empty` is false."""

    def follow(self, _moment: Moment, sample: Sample, why: str) -> None:
        """Print a reading."""
        put(line(self._sensor, sample, why), self._out)

    def restarted(self, moment: Moment, text: str) -> None:
        """Does nothing: the reporter logs it."""


class EveryLine(Reporter):
    """Logs every line, except why a reading is missing: `follow` prints that."""

    def complain(
        self,
        kind: str,
        line: str,
        *,
        priority: int = WARNING,
        sensor: str = "",
        cause: str = "",  # noqa: ARG002 - the Reporter has it
    ) -> None:
        if kind != "sensor":
            self.tell(line, priority=priority, kind=kind, sensor=sensor)


class Waiting:
    """Reports sensors whose reads do not return."""

    def __init__(self, sensors: Iterable[SensorCounters]) -> None:
        self._sensors = tuple(sensors)
        self._said_s: dict[str, float] = {}

    def look(self, now: float) -> list[str]:
        """The lines to print at `now` (monotonic, s): one for each such sensor, every WAITING_S."""
        lines = []
        for sensor in self._sensors:
            silent_s = now - sensor.sign_s
            said_s = max(sensor.sign_s + sensor.interval_s, self._said_s.get(sensor.sensor, 0.0))
            if now - said_s >= WAITING_S:
                self._said_s[sensor.sensor] = now
                lines.append(
                    f"{sensor.sensor}: waiting: its read has not returned {silent_s:.0f} s"
                )
        return lines


def put(text: str, out: TextIO) -> None:
    """Print a line; ends the process cleanly if the reader of the output is gone."""
    try:
        out.write(text)
        out.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        os.kill(os.getpid(), SIGTERM)


def line(sensor: Sensor, sample: Sample, why: str) -> str:
    """``18:40:01Z dht: temperature 21.4 celsius, humidity 45.1 percent``, the time in UTC; a
    value's flags follow it, and the reason for missing values is at the end."""
    parts = []
    for i, channel in enumerate(sensor.channels):
        raw = None if sample.raw is None else sample.raw[i]
        parts.append(_value(channel, sample.values[i], raw, sample.quality[i : i + 1]))
    age = f" ({sample.age_ms / 1000:g} s old)" if sample.age_ms else ""
    reason = f": {' '.join(why.split())}" if why else ""
    return f"{clock(sample.time_ms / 1000)} {sensor.name}: {', '.join(parts)}{age}{reason}\n"


def clock(time_s: float) -> str:
    """The time of day in UTC."""
    return time.strftime("%H:%M:%SZ", time.gmtime(time_s))


def _value(
    channel: StoredChannel, value: float, raw: float | None, quality: tuple[int, ...]
) -> str:
    flags = quality[0] if quality else GOOD
    text = f"{channel.name} {value:.7g} {channel.unit}" if value == value else f"{channel.name} –"
    if raw is not None and raw == raw and raw != value:
        text += f" (raw {raw:.7g})"
    return f"{text} [{', '.join(names(flags))}]" if flags else text


def read_all(sensors: tuple[Sensor, ...], node: str, stop: StopSignal) -> None:
    """Read and print until stopped; closes the sensors."""
    reporter = EveryLine(console.write, node, time.monotonic, program="sanderling-probe")
    node_time = NodeTime(Clocks(), TimeBase(), lambda _: 0, lambda *_: None, lambda _: None)
    colocated = ColocatedChannels(sensors)
    samplers = []
    for sensor in sensors:
        printed = Printed(sensor, sys.stdout)
        samplers.append(Sampler(sensor, printed, node_time, reporter, colocated.check, printed))
    sampling = Threads(sensors, samplers)
    sampling.start()
    waiting = Waiting([sampler.counters for sampler in samplers])
    while not stop.requested:
        for fileno in select(stop.filenos, (), (), LOOK_S)[0]:
            stop.woken(fileno)
        for text in waiting.look(node_time.monotonic()):
            put(f"{clock(time.time())} {text}\n", sys.stdout)
    sampling.end()
    sampling.close(lambda name: reporter.tell(f"sensor {name} does not return; it is left open"))


def main() -> None:
    """Run the command."""
    given = options("sanderling-probe", sys.argv[1:])
    folder = os.path.dirname(given.config)  # noqa: PTH120 - as the agent itself
    settings = configuration(given.config, EdgeConfig)
    try:
        leave: Leave = "sensor" if given.leave_sensors else ""
        sensors = open_sensors(settings.sensor, folder, checking=given.check, leave=leave)
    except (ConfigError, SensorError) as error:
        fail(f"{given.config}: {error}", UNUSABLE)
    if given.check:
        close_sensors(sensors)
        say_ok(given.config)
        return
    with StopSignal(on_stdin_eof=given.exit_on_stdin_eof) as stop:
        read_all(sensors, settings.node.name, stop)


if __name__ == "__main__":
    main()
