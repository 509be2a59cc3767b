"""Fault injection into healthy series, with a seed, and the resulting labels."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct

HOUR_S: Final = 3_600.0
DAY_S: Final = 86_400.0
APART_S: Final = 3 * HOUR_S  # between faults in one series, so that each is reported separately
BURST_S: Final = 600.0

# Sizes by channel, in its unit; for a drift, per day.
SPIKES: Final = {
    "temperature": (1.0, 2.0, 3.0, 5.0, 10.0, 20.0),
    "humidity": (5.0, 10.0, 15.0, 20.0, 30.0),
    "co2": (200.0, 500.0, 1_000.0, 2_000.0),
    "light": (500.0, 1_500.0, 3_000.0, 10_000.0),
}
BURSTS: Final = {
    "temperature": (1.0, 5.0, 20.0),
    "humidity": (4.0, 15.0, 40.0),
    "co2": (100.0, 500.0, 2_000.0),
    "light": (300.0, 2_000.0),
}
DRIFTS: Final = {
    "temperature": (0.25, 0.5, 1.0, 2.0),
    "humidity": (1.0, 2.0, 4.0, 8.0),
    "co2": (25.0, 50.0, 100.0, 200.0),
    "light": (50.0, 100.0, 200.0),
}
# Known values of broken sensors and drivers: all bits set, the DS18B20's 85 and -127, 0.
SENTINELS: Final = {
    "temperature": (-127.0, 85.0, 3276.7),
    "humidity": (0.0, 3276.7),
    "co2": (0.0, 65_535.0),
    "light": (-1.0, 1e6),
}
QUANTUM: Final = {"temperature": 0.1, "humidity": 0.1, "co2": 1.0, "light": 1.0}
BITS: Final = {"bits 0–3": range(4), "bits 4–7": range(4, 8), "bits 8–15": range(8, 16)}
GAPS_MIN: Final = (2.0, 5.0, 30.0, 120.0)
STUCK_H: Final = (1.0, 3.0, 12.0, 48.0)


class Fault(Struct, frozen=True):
    """An injected fault: the indices of its first value, and of the first one after it."""

    kind: str
    size: str
    start: int
    end: int


class Faults:
    """Injects faults into the series of one channel with a value each `step_s`."""

    def __init__(self, channel: str, step_s: float, random_: random.Random) -> None:
        self._channel = channel
        self._step_s = step_s
        self._random = random_
        self._kinds: tuple[Callable[[list[float], int], Fault], ...] = (
            self._spike,
            self._spike,  # it has the most sizes
            self._sentinel,
            self._bit_flip,
            self._burst,
            self._gap,
        )

    def short(self, series: Sequence[float]) -> tuple[list[float], list[Fault]]:
        """A copy with a short fault every APART_S or so, of random kind and size; none where it
        would touch missing values."""
        values, faults = list(series), []
        apart, free = self._values(APART_S), self._values(HOUR_S)
        start = apart + self._random.randrange(apart)
        while start + 2 * apart < len(values):
            if not any(map(math.isnan, values[start - free : start + apart])):
                faults.append(self._random.choice(self._kinds)(values, start))
            start += apart + self._random.randrange(apart)
        return values, faults

    def stuck(self, series: Sequence[float]) -> tuple[list[float], list[Fault]]:
        """A copy that is stuck at one value for one of STUCK_H hours, beginning in the first two
        days; missing values stay missing."""
        hours = self._random.choice(STUCK_H)
        start = self._present(series, 0.0, 2 * DAY_S)
        end = min(start + self._values(hours * HOUR_S), len(series))
        values = list(series)
        values[start:end] = [v if math.isnan(v) else series[start] for v in series[start:end]]
        return values, [Fault("stuck", f"{hours:g} h", start, end)]

    def drift(self, series: Sequence[float]) -> tuple[list[float], list[Fault]]:
        """A copy that drifts up or down from some time of the second or third day on."""
        slope = self._random.choice(DRIFTS[self._channel])
        start = self._present(series, DAY_S, 3 * DAY_S)
        each = slope * self._step_s / DAY_S * self._random.choice((-1, 1))
        values = list(series)
        values[start:] = [v + each * n for n, v in enumerate(series[start:])]
        return values, [Fault("drift", f"{slope:g} a day", start, len(series))]

    def _spike(self, values: list[float], start: int) -> Fault:
        size = self._random.choice(SPIKES[self._channel])
        values[start] += size * self._random.choice((-1, 1))
        return Fault("spike", f"{size:g}", start, start + 1)

    def _sentinel(self, values: list[float], start: int) -> Fault:
        values[start] = self._random.choice(SENTINELS[self._channel])
        return Fault("sentinel", f"{values[start]:g}", start, start + 1)

    def _bit_flip(self, values: list[float], start: int) -> Fault:
        size, bits = self._random.choice(list(BITS.items()))
        quantum = QUANTUM[self._channel]
        raw = round(values[start] / quantum) ^ 1 << self._random.choice(bits)
        values[start] = raw * quantum
        return Fault("bit flip", size, start, start + 1)

    def _burst(self, values: list[float], start: int) -> Fault:
        sigma = self._random.choice(BURSTS[self._channel])
        end = start + self._values(BURST_S)
        for index in range(start, end):
            values[index] += self._random.gauss(0.0, sigma)
        return Fault("noise, 10 min", f"σ {sigma:g}", start, end)

    def _gap(self, values: list[float], start: int) -> Fault:
        minutes = self._random.choice(GAPS_MIN)
        end = start + self._values(60 * minutes)
        values[start:end] = [math.nan] * (end - start)
        return Fault("gap", f"{minutes:g} min", start, end)

    def _present(self, series: Sequence[float], low_s: float, high_s: float) -> int:
        """A random index in a span of time, or the next one with a value."""
        start = self._random.randrange(self._values(low_s), self._values(high_s))
        while math.isnan(series[start]):
            start += 1
        return start

    def _values(self, seconds: float) -> int:
        return round(seconds / self._step_s)


def sizes(channel: str) -> Mapping[str, tuple[str, ...]]:
    """Every kind of fault with its sizes, in the order of the tables."""
    return {
        "spike": tuple([f"{size:g}" for size in SPIKES[channel]]),
        "sentinel": tuple([f"{value:g}" for value in SENTINELS[channel]]),
        "bit flip": tuple(BITS),
        "noise, 10 min": tuple([f"σ {sigma:g}" for sigma in BURSTS[channel]]),
        "gap": tuple([f"{minutes:g} min" for minutes in GAPS_MIN]),
        "stuck": tuple([f"{hours:g} h" for hours in STUCK_H]),
        "drift": tuple([f"{slope:g} a day" for slope in DRIFTS[channel]]),
    }
