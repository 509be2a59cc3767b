"""Cuts a long window into slices that are asked for one after the other; pure.

How many readings a second the areas give is only known from the answers, so the first slice is
short, and each further one as long as fits a bounded number of values.
"""

from __future__ import annotations

from typing import Final

from agent.wire.messages import Window

FIRST_MS: Final = 60_000
MAX_MS: Final = 86_400_000
SHORTEST_MS: Final = 1_000
# Values in an answer: a few megabytes here, and less than a frame at any node.
WANTED: Final = 100_000
GROWTH: Final = 8


class Slices:
    """The slices of [start_ms, end_ms): `window` is the one to ask for, until `is_done`."""

    def __init__(
        self,
        start_ms: int,
        end_ms: int,
        *,
        first_ms: int = FIRST_MS,
        wanted: int = WANTED,
        step_ms: int = SHORTEST_MS,
        longest_ms: int = MAX_MS,
    ) -> None:
        """Slices are as long as some number of `step_ms`, all but the last."""
        if start_ms >= end_ms:
            raise ValueError("a window ends after it begins")
        self._step_ms = step_ms
        self._longest_ms = longest_ms
        self.start_ms = start_ms
        self.end_ms = end_ms
        self._wanted = wanted
        self._begin_ms = start_ms
        self._length_ms = first_ms

    @property
    def is_done(self) -> bool:
        """Whether all of them were answered."""
        return self._begin_ms >= self.end_ms

    @property
    def window(self) -> Window:
        """The slice to ask for now."""
        return Window(start_ms=self._begin_ms, end_ms=self._ends_ms)

    @property
    def share(self) -> float:
        """How much of the whole was answered, 0 to 1."""
        return min(1.0, (self._begin_ms - self.start_ms) / (self.end_ms - self.start_ms))

    @property
    def _ends_ms(self) -> int:
        return min(self._begin_ms + self._length_ms, self.end_ms)

    def answered(self, values: int) -> None:
        """The slice was answered, with so many values."""
        asked_ms = self._ends_ms - self._begin_ms
        self._begin_ms = self._ends_ms
        fits_ms = asked_ms * self._wanted // values if values else self._longest_ms
        self._length_ms = self._steps(min(fits_ms, GROWTH * self._length_ms, self._longest_ms))

    def is_too_long(self, longest_s: float | None) -> bool:
        """The slice does not fit an answer, one of `longest_s` would: ask for a shorter one. False
        if there is none."""
        asked_ms = self._ends_ms - self._begin_ms
        if asked_ms <= self._step_ms:
            return False
        half_ms = asked_ms // 2
        fits_ms = half_ms if longest_s is None else min(int(longest_s * 1e3), half_ms)
        self._length_ms = self._steps(fits_ms)
        return True

    def _steps(self, length_ms: int) -> int:
        """That length in whole steps, one at least."""
        return max(1, length_ms // self._step_ms) * self._step_ms
