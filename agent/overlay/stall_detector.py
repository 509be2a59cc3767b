"""Stall detector: finds neighbours whose link is up but which do not answer.

A neighbour that is asked again for an unsettled notification answers at once that it is settled or
that it is kept. So a neighbour that makes progress, or waits for others behind it, is never silent
for long after a repeat. One that is silent loses its link for a while, and traffic goes round
it.
"""

from __future__ import annotations

from agent.overlay.scot import BrokerId
from agent.runtime.back_off import BackOff

# For a neighbour not heard of since the last pause, the pause doubles.
FIRST_PAUSE_S = 5.0
MAX_PAUSE_S = 60.0


class StallDetector:
    """Neighbours that were asked again and have been silent since. Memory: the neighbours."""

    def __init__(self, stuck_s: float) -> None:
        self._stuck_s = stuck_s
        # When each was first asked since it was last heard of; the longest ago first.
        self._asked: dict[BrokerId, float] = {}
        self._pauses: dict[BrokerId, BackOff] = {}

    def asked(self, neighbour: BrokerId, now: float) -> None:
        """The neighbour was asked again over its link. O(1)."""
        self._asked.setdefault(neighbour, now)

    def heard(self, neighbour: BrokerId) -> None:
        """The neighbour reported something settled or kept. O(1)."""
        self._asked.pop(neighbour, None)
        self._pauses.pop(neighbour, None)

    def forget(self, neighbour: BrokerId) -> None:
        """Its link is new, or gone, or the repeat was never sent. O(1)."""
        self._asked.pop(neighbour, None)

    def waits(self, neighbour: BrokerId, now: float) -> None:
        """The repeat may still be in the queue to the neighbour: its time starts over. O(1)."""
        if self._asked.pop(neighbour, None) is not None:
            self._asked[neighbour] = now

    @property
    def next_tick(self) -> float | None:
        """When some neighbour will have been silent for too long. O(1)."""
        for asked in self._asked.values():
            return asked + self._stuck_s
        return None

    def stuck(self, now: float) -> list[tuple[BrokerId, float]]:
        """The neighbours that have, and for how many seconds each link shall stay down.
        O(results)."""
        found = []
        while (due := self.next_tick) is not None and due <= now:
            neighbour = next(iter(self._asked))
            del self._asked[neighbour]
            if neighbour not in self._pauses:
                self._pauses[neighbour] = BackOff(FIRST_PAUSE_S, MAX_PAUSE_S)
            found.append((neighbour, self._pauses[neighbour].next()))
        return found
