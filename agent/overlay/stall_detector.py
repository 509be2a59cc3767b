"""Neighbours that are there and do nothing: a link is up, and no word comes of what was sent.

Whoever is asked again for what it has not settled answers at once, that it is settled or that it is
kept. So a neighbour that is at work, or waits for others behind it, is never silent for long after
it was asked again; one that is has no link for a while, and is gone round.
"""

from __future__ import annotations

from agent.overlay.scot import Broker
from agent.runtime.back_off import BackOff

# Of a neighbour that was not heard of between two such times, twice the pause before.
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0


class Progress:
    """Who was asked again, and said nothing since. Memory: the neighbours."""

    def __init__(self, stuck_s: float) -> None:
        self._stuck_s = stuck_s
        # The first time since it was heard of; the one asked longest ago stands first.
        self._asked: dict[Broker, float] = {}
        self._pauses: dict[Broker, BackOff] = {}

    def asked(self, neighbour: Broker, now: float) -> None:
        """Over its link, for what it was asked for before. O(1)."""
        self._asked.setdefault(neighbour, now)

    def heard(self, neighbour: Broker) -> None:
        """It said that something is settled, or kept. O(1)."""
        self._asked.pop(neighbour, None)
        self._pauses.pop(neighbour, None)

    def forget(self, neighbour: Broker) -> None:
        """Its link is another one, or gone, or what it was asked never left. O(1)."""
        self._asked.pop(neighbour, None)

    def waits(self, neighbour: Broker, now: float) -> None:
        """What it was asked for may still wait in the queue to it: it has all the time from now on.
        O(1)."""
        if self._asked.pop(neighbour, None) is not None:
            self._asked[neighbour] = now

    @property
    def next_tick(self) -> float | None:
        """When somebody has been silent for too long. O(1)."""
        for asked in self._asked.values():
            return asked + self._stuck_s
        return None

    def stuck(self, now: float) -> list[tuple[Broker, float]]:
        """Who has been, and how many seconds its link shall stay down. O(results)."""
        found = []
        while (due := self.next_tick) is not None and due <= now:
            neighbour = next(iter(self._asked))
            del self._asked[neighbour]
            if neighbour not in self._pauses:
                self._pauses[neighbour] = BackOff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
            found.append((neighbour, self._pauses[neighbour].next()))
        return found
