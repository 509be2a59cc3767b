"""Back-off: how long to wait before the next attempt at what keeps failing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MAX_DOUBLINGS: Final = 64  # or a power of two has no float in the end


def pause_after(failures: int, first_s: float, longest_s: float, factor: float = 2.0) -> float:
    """The pause in seconds after `failures` others: `first_s`, then each time `factor` times as
    long, `longest_s` at most. For a caller that keeps many such counts, and nothing else."""
    return min(longest_s, first_s * factor ** min(failures, MAX_DOUBLINGS))


class BackOff:
    """The pauses of one party. `failures` counts since the last success; the caller may read it.

    `jitter` gives random numbers in [0, 1): each pause is then between half as long and as long as
    it would be, so that parties that fail together do not try again together.
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
        """One more failure: how many seconds to wait now."""
        pause_s = pause_after(self.failures, self._first_s, self._longest_s, self._factor)
        self.failures += 1
        return pause_s if self._jitter is None else pause_s * (0.5 + 0.5 * self._jitter())

    def reset(self) -> None:
        """It went well: the next failure is a first one again."""
        self.failures = 0
