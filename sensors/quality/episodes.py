"""Fault episodes: groups the flags of single readings into faults with a start and an end."""

from __future__ import annotations

from typing import Final, NamedTuple

from sensors.quality.flags import CHECKSUM, GOOD, NO_RESPONSE

LASTING: Final = NO_RESPONSE | CHECKSUM  # kinds for which a single reading is not a fault
READINGS: Final = 3


class Began(NamedTuple):
    """A fault has existed since `began_s`; `flags` are those seen so far."""

    began_s: float
    flags: int


class Ended(NamedTuple):
    """A fault is over: the first good reading was at `ended_s`; `flags` are all those seen."""

    began_s: float
    ended_s: float
    flags: int


def worst(flags: int) -> int:
    """The most serious of `flags`: the lowest bit, as they are ordered by severity."""
    return flags & -flags


class Episodes:
    """Follows one channel's flags in time order.

    A fault begins with its first flagged reading; missing values (no response, checksum) must first
    last for `lasts_s` and READINGS consecutive readings. It ends after `clear_s` and READINGS
    consecutive good readings.
    """

    def __init__(self, lasts_s: float = 60.0, clear_s: float = 300.0) -> None:
        self._lasts_s = lasts_s
        self._clear_s = clear_s
        self._flags = GOOD  # of the current fault, or of one that may begin
        self._began_s = 0.0
        self._open = False
        self._flagged = 0
        self._good = 0
        self._good_since_s = 0.0

    @property
    def fault(self) -> Began | None:
        """The current fault."""
        return Began(self._began_s, self._flags) if self._open else None

    def update(self, time_s: float, flags: int) -> Began | Ended | None:
        """The change caused by the next reading's flags; times are the caller's, in seconds."""
        return self._bad(time_s, flags) if flags else self._recovering(time_s)

    def _bad(self, time_s: float, flags: int) -> Began | None:
        self._good = 0
        if not self._flagged:
            self._began_s = time_s
        self._flagged += 1
        self._flags |= flags
        if self._open:
            return None
        lasts = self._flagged >= READINGS and time_s - self._began_s >= self._lasts_s
        if not (lasts or flags & ~LASTING):
            return None
        self._open = True
        return Began(self._began_s, self._flags)

    def _recovering(self, time_s: float) -> Ended | None:
        if not self._open:
            self._flagged, self._flags = 0, GOOD
            return None
        if not self._good:
            self._good_since_s = time_s
        self._good += 1
        if self._good < READINGS or time_s - self._good_since_s < self._clear_s:
            return None
        ended = Ended(self._began_s, self._good_since_s, self._flags)
        self._open, self._flagged, self._flags = False, 0, GOOD
        return ended
