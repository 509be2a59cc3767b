"""`sanderling-probe`: read a node's sensors as its agent would, and print what they give.

For whoever wires a sensor: the same drivers, calibration and quality checks as in the agent, and
neither a history nor a master.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from select import select
from typing import TextIO

from agent.command_line import UNUSABLE, configuration, fail, options
from agent.edge.clocks import Clocks
from agent.edge.faults import Faults
from agent.edge.groups import Sample
from agent.edge.node_time import NodeTime
from agent.edge.report import Reporter
from agent.edge.sampling import Sampler
from agent.edge.sensor import Sensor, StoredChannel, close_sensors, open_sensors
from agent.edge.timebase import TimeBase
from agent.edge.together import Together
from agent.process import StopSignal
from agent.wire.config import ConfigError
from agent.wire.edge_config import EdgeConfig
from sensors.base import SensorError
from sensors.quality.flags import GOOD, names


class Printed:
    """Takes the place of a stream of the history: one line a reading."""

    empty = False  # nothing is preloaded

    def __init__(self, sensor: Sensor, out: TextIO) -> None:
        self._sensor = sensor
        self._out = out

    def append(self, sample: Sample) -> None:
        """Print a reading."""
        self._out.write(line(self._sensor, sample))
        self._out.flush()

    def load(self, samples: Iterable[Sample]) -> None:
        """Never called: it is not empty."""


def line(sensor: Sensor, sample: Sample) -> str:
    """``18:40:01 dht: temperature 21.4 celsius, humidity 45.1 percent``; what is wrong with a value
    stands behind it."""
    parts = []
    for i, channel in enumerate(sensor.channels):
        raw = None if sample.raw is None else sample.raw[i]
        parts.append(_value(channel, sample.values[i], raw, sample.quality[i : i + 1]))
    age = f" ({sample.age_ms / 1000:g} s old)" if sample.age_ms else ""
    at = time.strftime("%H:%M:%S", time.gmtime(sample.time_ms / 1000))
    return f"{at} {sensor.name}: {', '.join(parts)}{age}\n"


def _value(
    channel: StoredChannel, value: float, raw: float | None, quality: tuple[int, ...]
) -> str:
    flags = quality[0] if quality else GOOD
    text = f"{channel.name} {value:.7g} {channel.unit}" if value == value else f"{channel.name} –"
    if raw is not None and raw == raw and raw != value:
        text += f" (raw {raw:.7g})"
    return f"{text} [{', '.join(names(flags))}]" if flags else text


def main() -> None:
    """Run the command."""
    given = options("sanderling-probe", sys.argv[1:])
    folder = os.path.dirname(given.config)  # noqa: PTH120 - as the agent itself
    settings = configuration(given.config, EdgeConfig)
    try:
        sensors = open_sensors(settings.sensor, folder, checking=given.check)
    except (ConfigError, SensorError) as error:
        fail(f"{given.config}: {error}", UNUSABLE)
    reporter = Reporter(sys.stderr.write, settings.node.name, time.monotonic)
    clocks = NodeTime(Clocks(), TimeBase(), lambda _: 0, lambda *_: None, lambda _: None)
    together = Together(sensors)
    ends = threading.Event()
    for sensor in sensors:
        sampler = Sampler(
            sensor,
            Printed(sensor, sys.stdout),
            clocks,
            reporter,
            together.check,
            Faults(sensor.name, sensor.channels, lambda _: None),
        )
        threading.Thread(target=sampler.run, args=(ends,), daemon=True).start()
    with StopSignal(on_stdin_eof=given.exit_on_stdin_eof) as stop:
        while not stop.requested and not given.check:
            for fileno in select(stop.filenos, (), ())[0]:
                stop.woken(fileno)
    ends.set()
    close_sensors(sensors)


if __name__ == "__main__":
    main()
