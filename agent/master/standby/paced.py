"""Large sends to several receivers, of which each gets a few at a time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Paced(Generic[Key]):
    """At most `most` are under way to one receiver, each until it `ended` or for `patience_s`; the
    others wait in the order in which they came. All is O(1), but for those that ran out of time."""

    def __init__(self, most: int, patience_s: float) -> None:
        self._most = most
        self._patience_s = patience_s
        # By receiver: until when each is waited for, the earliest first; those that wait.
        self._under_way: dict[str, dict[Key, float]] = {}
        self._waiting: dict[str, dict[Key, None]] = {}

    def begins(self, to: str, key: Key, now: float) -> bool:
        """Whether it may be sent now. If not, it is under way already, or `next` tells when."""
        under_way = self._under_way.setdefault(to, {})
        self._expire(under_way, now)
        if key in under_way:
            return False
        if len(under_way) >= self._most:
            self._waiting.setdefault(to, {})[key] = None
            return False
        self._waiting.get(to, {}).pop(key, None)
        under_way[key] = now + self._patience_s
        return True

    def ended(self, to: str, key: Key) -> None:
        """It has come, or is not awaited any more. `next` follows."""
        self._under_way.get(to, {}).pop(key, None)

    def next(self, now: float) -> Iterator[Key]:
        """Those whose turn has come: `begins` is to be asked of each before the next one is taken,
        or it is given up. O(receivers), and those that come."""
        for to, waiting in self._waiting.items():
            under_way = self._under_way[to]
            self._expire(under_way, now)
            while waiting and len(under_way) < self._most:
                key = next(iter(waiting))
                del waiting[key]
                yield key

    @staticmethod
    def _expire(under_way: dict[Key, float], now: float) -> None:
        while under_way and next(iter(under_way.values()), math.inf) <= now:
            del under_way[next(iter(under_way))]
