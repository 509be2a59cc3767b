"""Lines for the operator at a limited rate: during a flood one a second, and how many more came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

PAUSE_S: Final = 1.0


class RateLimitedLines:
    """Lines of one source, "kind: details". `say` takes each with its line end; from one thread at
    a time."""

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._say = say
        self._clock = clock
        self._told_s = -1e9
        self._untold: Counter[str] = Counter()

    def tell(self, line: str) -> None:
        """Say the line, or count it if another one was said less than a second ago."""
        if self._is_quiet():
            self._untold[line.partition(":")[0]] += 1
        else:
            self._say(f"{line}\n")
            self._tell_untold()

    def tell_rest(self) -> None:
        """Say how many lines of each kind were counted, once a second has passed."""
        if self._untold and not self._is_quiet():
            self._tell_untold()

    def _tell_untold(self) -> None:
        self._told_s = self._clock()
        for kind, count in self._untold.items():
            self._say(f"{kind}: {count} more of these\n")
        self._untold.clear()

    def _is_quiet(self) -> bool:
        return self._clock() < self._told_s + PAUSE_S
