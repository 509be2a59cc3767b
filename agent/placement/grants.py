"""A master's grants: one move at a time, as source or target, and a mover's peers stay meanwhile.

So whatever moves elsewhere, the price of the mover at both masters stays as it was when it was
checked, and the cost falls by exactly its gain.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from agent.placement.moves import PRECEDENCE, Move
from agent.placement.world import Unit


class Grants:
    """The grants of one master. A grant whose holder says nothing more ends by itself."""

    def __init__(self, lasts_s: float) -> None:
        """`lasts_s`: from the grant on. Longer than a handover takes, its lease included."""
        self.lasts_s = lasts_s
        self.move: Move | None = None
        self._until = 0.0
        self._held: dict[Unit, dict[Unit, float]] = {}  # unit → movers, and until when

    def admit(self, move: Move, now: float) -> bool:
        """Grant a move from or to this master. The same move is granted again; another has to wait,
        unless the one granted is of less weight and was not begun (`begin`). O(1)."""
        self._forget(now)
        if self._stays(move.unit, now):
            return False
        if self.move is not None and self.move != move:
            begun = self._until == inf
            if begun or PRECEDENCE[self.move.reason] >= PRECEDENCE[move.reason]:
                return False
        self.move, self._until = move, now + self.lasts_s
        return True

    def begin(self, move: Move, now: float) -> bool:
        """The move is checked and begins; from now on only `release` ends its grant. Whether it is
        still granted. O(1)."""
        self._forget(now)
        if self.move != move:
            return False
        self._until = inf
        return True

    def hold(self, mover: Unit, peers: Iterable[Unit], now: float) -> bool:
        """Keep these units, which live here, where they are while their peer moves. False if one of
        them is moving itself. O(peers)."""
        self._forget(now)
        units = list(peers)
        if self.move is not None and self.move.unit in units:
            return False
        for unit in units:
            self._held.setdefault(unit, {})[mover] = now + self.lasts_s
        return True

    def release(self, mover: Unit) -> None:
        """The move is over, or will not be: its grant and what it holds end. O(units held)."""
        if self.move is not None and self.move.unit == mover:
            self.move = None
        for movers in self._held.values():
            movers.pop(mover, None)

    def _stays(self, unit: Unit, now: float) -> bool:
        movers = self._held.get(unit, {})
        return any(until > now for mover, until in movers.items() if mover != unit)

    def _forget(self, now: float) -> None:
        if self.move is not None and now >= self._until:
            self.move = None
        for unit in [unit for unit, movers in self._held.items() if not movers]:
            del self._held[unit]
