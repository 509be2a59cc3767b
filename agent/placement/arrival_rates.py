"""Rates of events that are counted: by how much the counts rose over the last minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Final

WINDOW_S: Final = 60.0


class Rates:
    """Takes all counts now and then; each look is O(keys)."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._looks: deque[tuple[float, dict[Hashable, int]]] = deque()

    def count(self, counts: Mapping[Hashable, int], now: float) -> None:
        """The counts are these now."""
        looks = self._looks
        looks.append((now, dict(counts)))
        # The oldest that is kept is as old as the window, or the first of all.
        while len(looks) > 2 and looks[1][0] <= now - self._window_s:
            looks.popleft()

    def per_s(self, key: Hashable) -> float | None:
        """Events a second; None if that is not known. A count that fell began anew at 0."""
        if not self._looks or key not in self._looks[-1][1]:
            return None
        until_s, last = self._looks[-1]
        for at_s, counts in self._looks:
            if key in counts and until_s > at_s:
                before = counts[key] if counts[key] <= last[key] else 0
                return (last[key] - before) / (until_s - at_s)
        return None
