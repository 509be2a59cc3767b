"""Counters of one sensor since the start: written by its thread, read by metrics and watchdog."""

from __future__ import annotations

from typing import Final

from sensors.quality.flags import BAD, NAMES

OUTCOMES: Final = ("good", *NAMES)


class SensorCounters:
    """Counts of one sensor; times are monotonic, in seconds.

    `values[channel]` has one count per name in `OUTCOMES`: a value counts once, under its worst
    flag, which is the lowest bit.
    """

    __slots__ = (
        "age_ms",
        "channels",
        "interval_s",
        "missed",
        "reads",
        "sensor",
        "sign_s",
        "start_s",
        "success_s",
        "values",
    )

    def __init__(
        self, sensor: str, channels: tuple[str, ...], interval_s: float, now: float
    ) -> None:
        self.sensor = sensor
        self.channels = channels
        self.interval_s = interval_s
        self.reads = 0  # readings taken, including failed ones
        self.missed = 0  # ticks skipped because the sensor or the processor was too slow
        self.age_ms = 0  # age of the latest value that is not bad, when it was read
        self.success_s: float | None = None  # when the latest value that is not bad was read
        self.start_s = now
        self.sign_s = now  # the latest sign of life of the sensor's thread
        self.values = tuple([[0] * len(OUTCOMES) for _ in channels])

    def begins(self, now: float) -> None:
        """A tick begins; the driver is read next."""
        self.sign_s = now

    def ends(self, quality: tuple[int, ...], age_ms: int, now: float) -> None:
        """A tick ended and its reading is stored; `quality` as in a Sample, () if all are good."""
        self.reads += 1
        self.sign_s = now
        flags = quality or (0,) * len(self.channels)
        for counts, flag in zip(self.values, flags, strict=True):
            counts[(flag & -flag).bit_length()] += 1
        if not all(flag & BAD for flag in flags):
            self.success_s = now
            self.age_ms = age_ms

    def silence_s(self, now: float) -> float:
        """Seconds since the latest value that is not bad, or since the start."""
        return now - (self.start_s if self.success_s is None else self.success_s)
