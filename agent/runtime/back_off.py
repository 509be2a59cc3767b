"""Back-off: growing pauses between attempts that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_DOUBLINGS: Final = 64  # larger powers would in the end exceed a float


def pause_after(failures: int, first_s: float, longest_s: float, factor: float = 2.0) -> float:
    """The pause in seconds after `failures` earlier pauses: `first_s`, multiplied by `factor` each
    time, at most `longest_s`. For callers that keep only a count per party."""
    return min(longest_s, first_s * factor ** min(failures, MAX_DOUBLINGS))


class BackOff:
    """The pauses of one party. `failures` counts since the last success; the caller may read it.

    `jitter` returns random numbers in [0, 1) and shortens each pause by up to a half, so that
    parties that fail at the same time do not retry at the same time.
    """

    __slots__ = ("_factor", "_first_s", "_jitter", "_longest_s", "failures")

    def __init__(
        self,
        first_s: float,
        longest_s: float,
        *,
        factor: float = 2.0,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._factor = factor
        self._jitter = jitter
        self.failures = 0

    def next(self) -> float:
        """Record a failure; returns the seconds to wait now."""
        pause_s = pause_after(self.failures, self._first_s, self._longest_s, self._factor)
        self.failures += 1
        return pause_s if self._jitter is None else pause_s * (0.5 + 0.5 * self._jitter())

    def reset(self) -> None:
        """Record a success: the next pause is the first one again."""
        self.failures = 0
