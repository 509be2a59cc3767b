"""Checks of a single channel: plausible range, spike, flatline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from sensors.quality.flags import FLATLINE, GOOD, NO_RESPONSE, OUT_OF_RANGE, SPIKE
from sensors.quality.limits import Limits

# A jump that lasts for this time and this many readings is the new level.
SETTLE_READINGS: Final = 4
SETTLE_S: Final = 60.0
# Readings farther apart than this share of flat_s do not show that the value stayed the same.
FLAT_GAP: Final = 0.1


class ChannelCheck:
    """Checks one channel's readings in time order; O(1) memory and time per reading.

    *Spike*: farther than max_step + max_rate_per_s · (time since the last good value) both from
    that value and from the median of the last three; the median, as the last value may itself be an
    undetected small spike. If the values after the jump agree, each with its predecessor by the
    same rule, for SETTLE_READINGS readings and SETTLE_S seconds, the last of them is good and
    becomes the new level.

    *Flatline*: exactly the same value for flat_s, with no gap longer than FLAT_GAP · flat_s. A
    value at either end of the plausible range does not count: darkness is a constant 0 lux.
    """

    __slots__ = (
        "_at",
        "_earlier",
        "_jump_at",
        "_jump_began",
        "_jumped",
        "_jumps",
        "_level",
        "_limits",
        "_same",
        "_same_at",
        "_same_since",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._level: float | None = None  # the last good value, and when it was read
        self._at = 0.0
        self._earlier: tuple[float, ...] = ()  # up to two good values before it
        self._jumps = 0  # readings since a jump; the last one, its time, and the first one's time
        self._jumped = 0.0
        self._jump_at = 0.0
        self._jump_began = 0.0
        self._same: float | None = None  # the last plausible value, and since when it is the same
        self._same_at = 0.0
        self._same_since = 0.0

    def check(self, time_s: float, value: float) -> int:
        """The flags of `value`, read at `time_s` on a clock that never goes back; NaN has
        NO_RESPONSE. A value out of range does not affect the other checks."""
        limits = self._limits
        if value != value:  # NaN, without a call
            return NO_RESPONSE
        if not limits.low <= value <= limits.high:
            return OUT_OF_RANGE
        flags = FLATLINE if self._flat(time_s, value) else GOOD
        return flags | SPIKE if self._spike(time_s, value) else flags

    def _flat(self, time_s: float, value: float) -> bool:
        limits = self._limits
        gap_s = time_s - self._same_at
        self._same_at = time_s
        if value != self._same or gap_s > FLAT_GAP * limits.flat_s:
            self._same = value
            self._same_since = time_s
            return False
        long = time_s - self._same_since >= limits.flat_s
        return long and limits.low < value < limits.high

    def _spike(self, time_s: float, value: float) -> bool:
        level = self._level
        if level is None:
            pass
        elif not self._leaves(time_s, value, level):
            self._earlier = (*self._earlier[-1:], level)
        elif self._settles(time_s, value):
            self._earlier = ()
        else:
            return True
        self._jumps = 0
        self._level = value
        self._at = time_s
        return False

    def _leaves(self, time_s: float, value: float, level: float) -> bool:
        dt_s = time_s - self._at
        if not self._far(dt_s, value - level):
            return False
        if len(self._earlier) < 2:
            return True
        median = sorted((*self._earlier, level))[1]
        return self._far(dt_s, value - median)

    def _settles(self, time_s: float, value: float) -> bool:
        """Add a reading after a jump; whether the readings since then are the new level."""
        if not self._jumps or self._far(time_s - self._jump_at, value - self._jumped):
            self._jumps = 0
            self._jump_began = time_s
        self._jumps += 1
        self._jumped = value
        self._jump_at = time_s
        return self._jumps >= SETTLE_READINGS and time_s - self._jump_began >= SETTLE_S

    def _far(self, dt_s: float, difference: float) -> bool:
        limits = self._limits
        return abs(difference) > limits.max_step + limits.max_rate_per_s * dt_s


class Ranged(Protocol):
    """The part of a driver's channel that the checks use: the sensor's range."""

    @property
    def low(self) -> float: ...

    @property
    def high(self) -> float: ...


class SensorQuality:
    """The channels of one sensor."""

    def __init__(self, channels: Sequence[Ranged], limits: Sequence[Limits]) -> None:
        """The range of `channels`, as given by the driver, applies to raw values; `limits`, in the
        same order, apply to calibrated ones."""
        self._ranges = [(channel.low, channel.high) for channel in channels]
        self._limits = tuple(limits)
        self.begin_again()

    def begin_again(self) -> None:
        """Forget the readings so far: the next one does not follow from them."""
        pairs = zip(self._ranges, self._limits, strict=True)
        self._checks = [(low, high, ChannelCheck(limits)) for (low, high), limits in pairs]

    def check(
        self, time_s: float, raw: Sequence[float], values: Sequence[float]
    ) -> tuple[int, ...]:
        """The flags of one reading, per channel; `time_s` is from a clock that never goes back."""
        return tuple(
            [
                (check.check(time_s, value) if low <= r <= high else OUT_OF_RANGE)
                if r == r  # not NaN
                else NO_RESPONSE
                for (low, high, check), r, value in zip(self._checks, raw, values, strict=True)
            ]
        )
