"""Token bucket: limits a rate."""

from __future__ import annotations

import math
from typing import Final

# Tolerance for rounding: who waits as long as it was told is served.
NEARLY: Final = 1e-9


class TokenBucket:
    """Token bucket: lets `burst` through at once and `rate_per_s` in the long run. All O(1)."""

    __slots__ = ("_at_s", "_tokens", "burst", "rate_per_s")

    def __init__(self, rate_per_s: float, burst: float, now: float) -> None:
        self.rate_per_s = rate_per_s
        self.burst = burst
        self._tokens = burst
        self._at_s = now

    def wait_s(self, now: float, tokens: float = 1.0) -> float:
        """Seconds until this many tokens are available; 0 if they are."""
        if now > self._at_s:
            since_s = now - self._at_s
            self._tokens = min(self.burst, self._tokens + since_s * self.rate_per_s)
            self._at_s = now
        lacking = tokens - self._tokens
        if lacking <= NEARLY:
            return 0.0
        return lacking / self.rate_per_s if self.rate_per_s > 0 else math.inf

    def take(self, tokens: float = 1.0) -> None:
        """Take the tokens that `wait_s` found."""
        self._tokens -= tokens
