"""Delivery of derived values to one device: a bounded queue, and what of it is under way; pure.

A value is on stable storage before it is put in. Batches go one at a time, and again when the node
has joined anew or has been silent for long. The node recognises what it has by the position.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from agent.wire.base import MAX_DERIVED_TOGETHER

# Values that wait for a device that sleeps; beyond it the oldest are dropped, and counted.
MAX_WAITING: Final = 2_000
# For all devices of a master together: some 50 MB of memory.
MAX_IN_ALL: Final = 100_000
# Without an acknowledgement. A node stores readings every ten seconds, unless configured otherwise.
RESEND_S: Final = 30.0


class Waiting(NamedTuple):
    """Values that the clone computed, at that wall time in ms."""

    position: int
    time_ms: int
    values: dict[str, float]


class Delivery:
    """The values of one device's clone, `source`, that its node does not have yet."""

    def __init__(self, device: str, source: str, most: int = MAX_WAITING) -> None:
        self.device = device
        self.source = source
        self.dropped = 0
        self._most = most
        self._waiting: deque[Waiting] = deque()
        self._last = 0  # position that came last
        self._link: object = None
        self._sent = 0  # position up to which this link was sent values
        self._again_s = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, value: Waiting) -> tuple[Waiting, ...] | None:
        """Take a value in; returns those dropped for it. None: it was here before."""
        if value.position <= self._last:
            return None
        self._last = value.position
        self._waiting.append(value)
        return self.drop(max(0, len(self._waiting) - self._most))

    def drop(self, count: int) -> tuple[Waiting, ...]:
        """Drop so many of those that wait, the oldest first; returns them."""
        self.dropped += count
        return tuple([self._waiting.popleft() for _ in range(count)])

    def due(self, link: object, now: float) -> tuple[Waiting, ...]:
        """The values to send now on this link, None if the node is away. O(values)."""
        if link != self._link:
            self._link, self._sent = link, 0
        if link is None or not self._waiting:
            return ()
        first = self._waiting[0].position
        if first <= self._sent and now < self._again_s:
            return ()
        size = min(len(self._waiting), MAX_DERIVED_TOGETHER)
        batch = tuple([self._waiting[n] for n in range(size)])
        self._sent, self._again_s = batch[-1].position, now + RESEND_S
        return batch

    def clear(self) -> tuple[Waiting, ...]:
        """Nobody wants them any more: returns what need not be kept."""
        gone = tuple(self._waiting)
        self._waiting.clear()
        return gone

    def taken(self, position: int) -> tuple[Waiting, ...]:
        """The node has everything up to that position: returns what need not be kept any more."""
        gone: list[Waiting] = []
        while self._waiting and self._waiting[0].position <= position:
            gone.append(self._waiting.popleft())
        return tuple(gone)
