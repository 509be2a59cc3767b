"""What subscribers got of numbered outputs: what is missing, double, out of order. Pure."""

from __future__ import annotations

from msgspec import Struct


class Check(Struct):
    """Counts over all subscribers and topics. `unanswered`: readings or messages that became no
    output, such as those of a round that came too late."""

    outputs: int = 0
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    unanswered: int = 0


class Sequence:
    """The outputs of one topic at one subscriber, by number; each was made of a reading or message,
    which have numbers of their own. What came before the first one is not missed."""

    def __init__(self) -> None:
        self._readings: dict[int, int] = {}
        self._last = 0
        self._first = 0
        self._doubled = self._reordered = 0

    def take(self, number: int, reading: int) -> None:
        """An output came."""
        if number in self._readings:
            self._doubled += 1
            return
        self._reordered += number < self._last
        self._first = min(self._first or number, number)
        self._last = max(self._last, number)
        self._readings[number] = reading

    def add_to(self, check: Check) -> None:
        """Count what came so far. O(outputs)."""
        readings = set(self._readings.values())
        check.outputs += len(self._readings)
        check.doubled += self._doubled + len(self._readings) - len(readings)
        check.reordered += self._reordered
        if self._readings:
            check.lost += self._last - self._first + 1 - len(self._readings)
            check.unanswered += max(readings) - min(readings) + 1 - len(readings)
