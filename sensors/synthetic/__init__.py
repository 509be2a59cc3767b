"""Synthetic driver: a seeded daily sine with noise, for tests and machines without a sensor."""

from __future__ import annotations

from collections.abc import Iterable
from math import pi, sin
from random import Random
from typing import Final

from sensors.base import Channel, Options, Reading

CHANNELS: Final = (
    Channel("temperature", "celsius", -40.0, 80.0),
    Channel("humidity", "percent", 0.0, 100.0),
)


class Synthetic:
    """Reading n depends only on the seed and n; one reading represents one second of the day."""

    channels = CHANNELS

    def __init__(self, seed: int, period_s: float, noise: float, preload_rows: int) -> None:
        self._random = Random(seed)
        self._period_s = period_s
        self._noise = noise
        self._preload_rows = preload_rows
        self._step = 0

    def read(self) -> Reading:
        phase = sin(2 * pi * self._step / self._period_s)
        self._step += 1
        temperature = 21.0 + 3.0 * phase + self._random.gauss(0.0, self._noise)
        humidity = 50.0 - 8.0 * phase + self._random.gauss(0.0, self._noise)
        return Reading((temperature, humidity))

    def preload(self) -> Iterable[tuple[int, Reading]]:
        for back in range(self._preload_rows, 0, -1):
            yield back, self.read()

    def close(self) -> None:
        pass


def open_driver(options: Options) -> Synthetic:
    seed = options.count("seed", 0)
    period_s = options.number("period_s", 86_400.0)
    noise = options.number("noise", 0.1)
    preload_rows = options.count("preload_rows", 0)
    options.finish()
    if period_s <= 0:
        raise options.error("period_s must be over 0")
    return Synthetic(seed, period_s, noise, preload_rows)
