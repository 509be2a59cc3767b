"""When the reader starts the sensor, and how old its answer is.

A start makes the sensor send what it measured at the start *before*, and measure anew (AM2302
manual, Aosong). So a value is dated by the start before it, and where that was long ago, or is
unknown, the sensor is started again.
"""

from __future__ import annotations

from math import floor
from typing import Final

from sensors.dht.models import TRIES

FRESH: Final = 4  # rules between two starts, at most: silence may swallow some in between
USUAL_S: Final = 0.5  # a start takes no longer, unless the processor was busy elsewhere


class Pace:
    """Starts on a beat of `interval_s` from `first`, further ones while no new value came, and
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
        """The start is over: the sensor `answered`, and what it sent is `valid`. When that was
        measured; None where it is no new value."""
        before = self._answered
        if answered:
            self._answered = self._started
        fresh = before is not None and self._started - before <= FRESH * self._rule_s
        new = valid and fresh
        self._plan(now, done=new)
        return before if new else None

    def _plan(self, now: float, *, done: bool) -> None:
        # Of a start that took long nobody knows when the sensor saw it: it counts from its end.
        earliest = max(self._started, now - USUAL_S) + self._rule_s
        beat = self._beat_after(self._started)
        if done or self._tries >= TRIES or earliest + self._rule_s > beat:
            self._tries = 0
            # Beats that have passed meanwhile are left out.
            earliest = max(earliest, beat)
        self.next_at = earliest

    def _beat_after(self, time: float) -> float:
        # A beat that rounding put a hair after `time` is the one that `time` was for.
        passed = floor((time - self._first) / self._interval_s + 1e-6)
        return self._first + (passed + 1) * self._interval_s
