"""One day of a simulated node: a room's real minutes at 1 Hz, with sensor faults."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from bench.pipeline.arrays import Array
from sensors.quality.flags import FLATLINE, NO_RESPONSE, OUT_OF_RANGE, SPIKE

DAY_S: Final = 86_400
MINUTES: Final = 1440
STEP: Final = 0.1  # a DHT22's
NOISE: Final = ((0.05,), (0.2,))  # standard deviations, °C and % RH
JITTER_MS: Final = 2

MISSING_A_DAY: Final = 90.0
SPIKES_A_DAY: Final = 3.0
SPIKE_CELSIUS: Final = 15.0
GAPS: Final = 0.2  # share of days with a fault
GAP_S: Final = (600, 3600)
FLATLINES: Final = 0.05
FLATLINE_S: Final = (7 * 3600, 10 * 3600)
TOLD_AFTER_S: Final = 6 * 3600
# Of each 16 consecutive nodes, the one that …
OF: Final = 16
BROKEN: Final = 5  # … gives about 69 °C
DRIFTING: Final = 9  # … moves away by DRIFT_CELSIUS a day
UNCHECKED: Final = 13  # … flags nothing
BROKEN_CELSIUS: Final = 69.0
DRIFT_CELSIUS: Final = 0.5


class Day(NamedTuple):
    """`second` of the day in ms, (n,); temperature and humidity, (2, n); their flags, (2, n)."""

    ms: Array
    values: Array
    quality: Array


def day(minutes: Array, node: int, number: int, seed: int) -> Day:
    """Day `number` of `node` in the room of `minutes`. The same arguments, the same numbers."""
    dice = np.random.default_rng((seed, node, number))
    start = (number * MINUTES + node * 97) % (minutes.shape[1] - MINUTES - 1)
    seconds = np.arange(DAY_S)
    known = np.arange(MINUTES + 1) * 60
    values = np.stack(
        [np.interp(seconds, known, row[start : start + MINUTES + 1]) for row in minutes]
    )
    values += dice.standard_normal((2, DAY_S), np.float32) * np.array(NOISE)
    quality = np.zeros((2, DAY_S), np.int16)
    kind = node % OF
    if kind == BROKEN:
        values[0] = BROKEN_CELSIUS + 30 * (values[0] - values[0].mean())
        quality[0][values[0] > 60.0] = OUT_OF_RANGE
    if kind == DRIFTING:
        values[0] += min(DRIFT_CELSIUS * number, 20.0)
    if dice.random() < FLATLINES:
        length = dice.integers(*FLATLINE_S)
        first = dice.integers(DAY_S - length)
        values[1, first : first + length] = values[1, first]
        quality[1, first + TOLD_AFTER_S : first + length] = FLATLINE
    values = np.round(values / STEP) * STEP
    spikes = dice.integers(DAY_S, size=dice.poisson(SPIKES_A_DAY))
    values[0, spikes] += SPIKE_CELSIUS
    quality[0, spikes] = SPIKE
    missing = dice.integers(DAY_S, size=dice.poisson(MISSING_A_DAY))
    values[:, missing] = np.nan
    quality[:, missing] = NO_RESPONSE
    if kind == UNCHECKED:
        quality[:] = 0
    ms = seconds * 1000 + dice.integers(-JITTER_MS, JITTER_MS + 1, DAY_S)
    ms[0] = max(ms[0], 0)
    kept = np.ones(DAY_S, bool)
    if dice.random() < GAPS:
        first = dice.integers(DAY_S - GAP_S[1])
        kept[first : first + dice.integers(*GAP_S)] = False
    return Day(ms[kept], values[:, kept].astype(np.float32), quality[:, kept])
