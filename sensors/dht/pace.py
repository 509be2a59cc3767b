"""Pacing of measurements: when the reader starts the sensor, and the age of the result.

A start makes the sensor send the result of the *previous* start, and measure again (AM2302 manual,
Aosong). A value therefore has the time of the previous start; if that was long ago, or is unknown,
the sensor is started again.
"""

from __future__ import annotations

from math import floor
from typing import Final

from sensors.dht.models import TRIES

FRESH: Final = 4  # maximum age, in multiples of the rule: starts may have been missed
USUAL_S: Final = 0.5  # maximum duration of a start, unless the processor was busy


class Pace:
    """Starts on a beat of `interval_s` from `first`, plus further ones until a new value arrives,
    never two within `rule_s`. Times are seconds on one monotonic clock."""

    def __init__(self, rule_s: float, first: float, interval_s: float) -> None:
        self.next_at = first
        self._rule_s = rule_s
        self._first = first
        self._interval_s = interval_s
        self._tries = 0
        self._started = 0.0
        self._answered: float | None = None  # the latest start that the sensor answered

    def start(self, now: float) -> None:
        """The sensor is started at `now`, at or after `next_at`."""
        self._started = now
        self._tries += 1

    def end(self, now: float, *, answered: bool, valid: bool) -> float | None:
        """The start is over: whether the sensor `answered`, and its data is `valid`. Returns when
        the value was measured; None if it is not a new value."""
        before = self._answered
        if answered:
            self._answered = self._started
        fresh = before is not None and self._started - before <= FRESH * self._rule_s
        new = valid and fresh
        self._plan(now, done=new)
        return before if new else None

    def _plan(self, now: float, *, done: bool) -> None:
        # When the sensor saw a long start is unknown, so it counts from its end.
        earliest = max(self._started, now - USUAL_S) + self._rule_s
        beat = self._beat_after(self._started)
        if done or self._tries >= TRIES or earliest + self._rule_s > beat:
            self._tries = 0
            # Skip beats that have passed meanwhile.
            earliest = max(earliest, beat)
        self.next_at = earliest

    def _beat_after(self, time: float) -> float:
        # A beat just after `time` due to rounding is the one meant by `time`.
        passed = floor((time - self._first) / self._interval_s + 1e-6)
        return self._first + (passed + 1) * self._interval_s
