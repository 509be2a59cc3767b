"""The checks that need one channel alone: plausible range, spike, flatline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sensors.base import Channel
from sensors.quality.flags import FLATLINE, GOOD, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from sensors.quality.limits import Limits

LEVEL_READINGS: Final = 5  # whose median is the level that a jump starts from
# A jump that lasts so long, in so many readings, is the new level.
SETTLE_READINGS: Final = 4
SETTLE_S: Final = 60.0
# Where readings are farther apart than this share of flat_s, nobody saw the value stay the same.
FLAT_GAP: Final = 0.1


class ChannelCheck:
    """One channel's readings in the order of time; O(1) memory and time a reading.

    *Spike*: the level is the median of the last good values, and its time that of the middle one
    of them. A value farther from it than max_step + max_rate_per_s · (time since) is a spike,
    unless the values after the jump agree among themselves by the same rule, for SETTLE_READINGS
    readings and SETTLE_S seconds: then they are the level, and what follows is good.

    *Flatline*: exactly the same value for flat_s, with no gap longer than FLAT_GAP · flat_s. A
    value at an end of the plausible range does not count: dark is dark, and wet is wet.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._level: list[tuple[float, float]] = []  # (time, value) of good readings
        self._jump: list[tuple[float, float]] = []  # of the readings after a jump
        self._same: float | None = None
        self._same_since = self._same_at = 0.0

    def check(self, time_s: float, value: float) -> int:
        """The flags of `value`, read at `time_s` on a clock that never goes back; NaN has
        NO_RESPONSE."""
        limits = self._limits
        if value != value:  # NaN, without a call
            return NO_RESPONSE
        if not limits.low <= value <= limits.high:
            return OUT_OF_RANGE
        flags = FLATLINE if self._flat(time_s, value) else GOOD
        return flags | SPIKE if self._spike(time_s, value) else flags

    def _flat(self, time_s: float, value: float) -> bool:
        limits = self._limits
        gap = time_s - self._same_at
        self._same_at = time_s
        if value != self._same or gap > FLAT_GAP * limits.flat_s:
            self._same = value
            self._same_since = time_s
            return False
        long = time_s - self._same_since >= limits.flat_s
        return long and limits.low < value < limits.high

    def _spike(self, time_s: float, value: float) -> bool:
        level = self._level
        if level and self._far(level, time_s, value):
            jump = self._jump
            if jump and self._far(jump, time_s, value):
                jump.clear()
            jump.append((time_s, value))
            if len(jump) < SETTLE_READINGS or time_s - jump[0][0] < SETTLE_S:
                return True
            level.clear()
            level.append((time_s, value))
        else:
            level.append((time_s, value))
            if len(level) > LEVEL_READINGS:
                del level[0]
        self._jump.clear()
        return False

    def _far(self, readings: list[tuple[float, float]], time_s: float, value: float) -> bool:
        last = readings[-LEVEL_READINGS:]
        middle = len(last) // 2
        level = sorted([reading[1] for reading in last])[middle]
        limits = self._limits
        allowed = limits.max_step + limits.max_rate_per_s * (time_s - last[middle][0])
        return abs(value - level) > allowed


class SensorQuality:
    """The channels of one sensor."""

    def __init__(self, channels: Sequence[Channel], limits: Sequence[Limits]) -> None:
        """`channels` as the driver has them, whose range holds for raw values; `limits`, in the
        same order, hold for calibrated ones."""
        pairs = zip(channels, limits, strict=True)
        self._checks = [
            (channel.low, channel.high, ChannelCheck(limit)) for channel, limit in pairs
        ]

    def check(
        self, time_s: float, raw: Sequence[float], values: Sequence[float]
    ) -> tuple[int, ...]:
        """The flags of one reading, a channel each; `time_s` is of a clock that never goes back."""
        return tuple(
            [
                (check.check(time_s, value) if low <= r <= high else OUT_OF_RANGE)
                if r == r  # not NaN
                else NO_RESPONSE
                for (low, high, check), r, value in zip(self._checks, raw, values, strict=True)
            ]
        )
