"""Lines for the operator at a limited rate: during a flood one a second, and how many more came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from agent.runtime.token_bucket import TokenBucket

PAUSE_S: Final = 1.0
# Kinds that are counted by themselves: others may choose the words of a line.
MAX_KINDS: Final = 16
OTHERS: Final = "other lines"


class RateLimitedLines:
    """Lines of one source, "kind: details". `say` takes each with its line end; from one thread at
    a time. The first `burst` of them are said at once."""

    def __init__(
        self, say: Callable[[str], object], clock: Callable[[], float], burst: int = 1
    ) -> None:
        self._say = say
        self._clock = clock
        self._bucket = TokenBucket(1.0 / PAUSE_S, burst, clock())
        self._untold: Counter[str] = Counter()

    def tell(self, line: str) -> None:
        """Say the line, or count it if too many were said lately."""
        if self._may_tell():
            self._say(f"{line}\n")
            self._tell_untold()
        else:
            kind = line.partition(":")[0]
            known = kind in self._untold or len(self._untold) < MAX_KINDS
            self._untold[kind if known else OTHERS] += 1

    def tell_rest(self) -> None:
        """Say how many lines of each kind were counted, once a second has passed."""
        if self._untold and self._may_tell():
            self._tell_untold()

    def _may_tell(self) -> bool:
        if self._bucket.wait_s(self._clock()):
            return False
        self._bucket.take()
        return True

    def _tell_untold(self) -> None:
        for kind, count in self._untold.items():
            self._say(f"{kind}: {count} more of these\n")
        self._untold.clear()
