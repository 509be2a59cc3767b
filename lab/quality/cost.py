"""Cost of the checks on this machine: time per reading, memory per channel."""

from __future__ import annotations

import random
import time
import tracemalloc
from typing import Final, NamedTuple

from msgspec import Struct

from sensors.quality.channel import SensorQuality
from sensors.quality.colocated import Colocated
from sensors.quality.episodes import Episodes
from sensors.quality.limits import limits_for


class Channel(NamedTuple):
    """One channel of a driver."""

    name: str
    unit: str
    low: float
    high: float


READINGS: Final = 100_000
SENSORS: Final = 4
CHANNELS: Final = (
    Channel("temperature", "celsius", -40.0, 80.0),
    Channel("humidity", "percent", 0.0, 100.0),
)


class Cost(Struct, frozen=True):
    """Microseconds per value: of the checks of a sensor with two channels; of those, drift among
    four co-located sensors and the episodes together. Bytes per channel of the latter."""

    alone_us: float
    all_us: float
    channel_bytes: float


def measure(count: int = READINGS) -> Cost:
    """Take the best of five rounds of so many readings each; memory is counted by Python's
    allocator."""
    draw = random.Random(1)
    readings = [(20.0 + draw.gauss(0.0, 0.1), 50.0 + draw.gauss(0.0, 0.5)) for _ in range(count)]
    values = count * len(CHANNELS)
    alone_s = min(_alone(readings) for _ in range(5))
    all_s = min(_everything(readings) for _ in range(5))
    tracemalloc.start()
    kept = [_node() for _ in range(100)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    channels = len(kept) * SENSORS * len(CHANNELS)
    return Cost(1e6 * alone_s / values, 1e6 * all_s / values, size / channels)


Node = tuple[list[SensorQuality], list[Colocated], list[list[Episodes]]]


def _sensor() -> SensorQuality:
    return SensorQuality(CHANNELS, [limits_for(c.name, c.unit, {}) for c in CHANNELS])


def _node() -> Node:
    names = [str(sensor) for sensor in range(SENSORS)]
    groups = [Colocated(names, [limits_for(c.name, c.unit, {})] * SENSORS) for c in CHANNELS]
    episodes = [[Episodes() for _ in CHANNELS] for _ in names]
    return [_sensor() for _ in names], groups, episodes


def _alone(readings: list[tuple[float, float]]) -> float:
    sensor = _sensor()
    start = time.perf_counter()
    for second, values in enumerate(readings):
        sensor.check(second, values, values)
    return time.perf_counter() - start


def _everything(readings: list[tuple[float, float]]) -> float:
    """One round of all sensors per reading of one of them, so a reading is a sensor's turn."""
    sensors, groups, episodes = _node()
    start = time.perf_counter()
    for turn, values in enumerate(readings):
        number, time_s = turn % SENSORS, float(turn // SENSORS)
        flags = sensors[number].check(time_s, values, values)
        for group, episode, value, flag in zip(
            groups, episodes[number], values, flags, strict=True
        ):
            episode.update(time_s, flag | group.check(str(number), time_s, value, flag))
    return time.perf_counter() - start
