"""Latest good values of a sensor's channels, and their rates of change.

A bad value (`agent.wire.quality`), or one that no message can carry, does not count: the previous
one stays the latest until it is stale. Times are monotonic, in seconds.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from agent.wire.quality import BAD

NEVER: Final = -math.inf
LARGEST: Final = 1e300  # as `agent.wire.base.Finite`; neither infinite nor NaN


class Window:
    """The good readings of one channel within `window_s`; 16 bytes each.

    `rate` is the difference of the first and last value divided by that of their times, in units
    per second; NaN unless the times are at least half a window apart.
    """

    __slots__ = ("_times", "_values", "rate", "window_s")

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.rate = math.nan
        self._times = array("d")
        self._values = array("d")

    def take(self, now: float, value: float) -> None:
        """Add a good reading and drop those before `now` - window_s. O(log readings), and a move in
        memory."""
        times, values = self._times, self._values
        if old := bisect_left(times, now - self.window_s):
            del times[:old], values[:old]
        times.append(now)
        values.append(value)
        elapsed_s = now - times[0]
        enough = elapsed_s >= self.window_s / 2
        self.rate = (value - values[0]) / elapsed_s if enough else math.nan


class Latest:
    """The latest good value of one channel and its time; NEVER if there was none."""

    __slots__ = ("at_s", "value", "windows")

    def __init__(self) -> None:
        self.at_s = NEVER
        self.value = math.nan
        self.windows: dict[float, Window] = {}

    def window(self, window_s: float) -> Window:
        """A window over the channel's readings, filled from now on."""
        return self.windows.setdefault(window_s, Window(window_s))

    def take(self, now: float, value: float) -> None:
        """Add a good reading."""
        self.at_s = now
        self.value = value
        for window in self.windows.values():
            window.take(now, value)


class Readings:
    """One sensor's channels. A value counts for `stale_s` after it was read."""

    def __init__(self, channels: Sequence[str], stale_s: float) -> None:
        self.stale_s = stale_s
        self.channels = {name: Latest() for name in channels}
        self._in_order = tuple(self.channels.values())

    def take(self, now: float, values: Sequence[float], quality: Sequence[int]) -> None:
        """Add a reading with a value for each channel; `quality` has the flags of each, () if all
        are good. O(channels)."""
        for i, channel in enumerate(self._in_order):
            value = values[i]
            if not (quality and quality[i] & BAD) and -LARGEST <= value <= LARGEST:
                channel.take(now, value)
