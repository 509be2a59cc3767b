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
        self._held: dict[Unit, tuple[float, frozenset[Unit]]] = {}  # by mover

    def admit(self, move: Move, now: float) -> bool:
        """Grant a move from or to this master. The same move is granted again; another has to wait,
        unless the one granted is of less weight and was not begun (`begin`). O(holds)."""
        self._forget(now)
        if self._stays(move.unit):
            return False
        if self.move is not None:
            begun = self._until == inf
            if _same(self.move, move):
                if begun:
                    return True  # Asked twice: the grant is not to end by itself again.
            elif begun or PRECEDENCE[self.move.reason] >= PRECEDENCE[move.reason]:
                return False
        self.move, self._until = move, now + self.lasts_s
        return True

    def begin(self, move: Move, now: float) -> bool:
        """The move is checked and begins; from now on only `release` ends its grant. Whether it is
        still granted. O(1)."""
        self._forget(now)
        if self.move is None or not _same(self.move, move):
            return False
        self._until = inf
        return True

    def hold(self, mover: Unit, peers: Iterable[Unit], now: float) -> bool:
        """Keep these units, which live here, where they are while their peer moves. False if one of
        them is moving itself. O(peers)."""
        self._forget(now)
        units = frozenset(peers)
        if self.move is not None and self.move.unit in units:
            return False
        until, held = self._held.get(mover, (now, frozenset[Unit]()))
        if until == inf:  # It has begun: what it holds stays held.
            units |= held
        self._held[mover] = (max(until, now + self.lasts_s), units)
        return True

    def keep(self, mover: Unit, now: float) -> bool:
        """The move begins: from now on only `release` ends the hold of its peers. Whether they are
        still held. O(1)."""
        self._forget(now)
        if mover not in self._held:
            return False
        self._held[mover] = (inf, self._held[mover][1])
        return True

    def release(self, mover: Unit) -> None:
        """The move is over, or will not be: its grant and what it holds end. O(1)."""
        if self.move is not None and self.move.unit == mover:
            self.move = None
        self._held.pop(mover, None)

    def _stays(self, unit: Unit) -> bool:
        return any(unit in units for mover, (_, units) in self._held.items() if mover != unit)

    def _forget(self, now: float) -> None:
        if self.move is not None and now >= self._until:
            self.move = None
        for mover in [mover for mover, (until, _) in self._held.items() if now >= until]:
            del self._held[mover]


def _same(one: Move, other: Move) -> bool:
    """Whether both are one move; its gain and reason may be seen differently since."""
    return (one.unit, one.source, one.target) == (other.unit, other.source, other.target)
