"""Token bucket: limits a rate."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Final

# Tolerance for rounding: who waits as long as it was told is served.
NEARLY: Final = 1e-9
MAX_REMEMBERED: Final = 1_024  # keys, before those with nothing to wait for are forgotten


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


class TokenBuckets:
    """A token bucket for each key; full ones are forgotten. Amortised O(1)."""

    def __init__(self, burst: float, rate_per_s: float) -> None:
        self._burst = burst
        self._rate_per_s = rate_per_s
        self._buckets: dict[Hashable, TokenBucket] = {}
        self._forget_at = MAX_REMEMBERED

    def __len__(self) -> int:
        return len(self._buckets)

    def admits(self, key: Hashable, now: float) -> bool:
        """Whether the key may do one thing more now, which it then has done."""
        bucket = self.of(key, now)
        if bucket.wait_s(now):
            return False
        bucket.take()
        return True

    def of(self, key: Hashable, now: float) -> TokenBucket:
        """The bucket of a key, as long as it is used at once."""
        if (bucket := self._buckets.get(key)) is None:
            if len(self._buckets) >= self._forget_at:
                self._forget_full(now)
            bucket = self._buckets[key] = TokenBucket(self._rate_per_s, self._burst, now)
        return bucket

    def _forget_full(self, now: float) -> None:
        rest = {key: each for key, each in self._buckets.items() if each.wait_s(now, each.burst)}
        self._buckets = rest
        self._forget_at = max(MAX_REMEMBERED, 2 * len(rest))
