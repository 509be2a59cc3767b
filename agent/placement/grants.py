"""A master's grants: one move at a time, as source or target, and a mover's peers stay meanwhile.

So whatever moves elsewhere, the price of the mover at both masters stays as it was when it was
checked, and the cost falls by exactly its gain.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from msgspec import Struct

from agent.placement.moves import PRECEDENCE, Move
from agent.placement.world import Unit


class _Hold(Struct, frozen=True):
    until: float
    units: frozenset[Unit]
    begun: bool


class Grants:
    """The grants of one master. A grant whose holder says nothing more ends by itself."""

    def __init__(self, lasts_s: float) -> None:
        """`lasts_s`: from the grant on. Longer than a handover takes, its lease included."""
        self.lasts_s = lasts_s
        self.move: Move | None = None
        self._begun = False
        self._until = 0.0
        self._held: dict[Unit, _Hold] = {}  # by mover

    def admit(self, move: Move, now: float) -> bool:
        """Grant a move from or to this master. The same move is granted again; another has to wait,
        unless the one granted is of less weight and was not begun (`begin`). O(holds)."""
        self._forget(now)
        if self._stays(move.unit):
            return False
        if self.move is not None:
            if _same(self.move, move):
                if self._begun:
                    return True  # Asked twice: the grant is not to end sooner.
            elif self._begun or PRECEDENCE[self.move.reason] >= PRECEDENCE[move.reason]:
                return False
        self.move, self._begun, self._until = move, False, now + self.lasts_s
        return True

    def begin(self, move: Move, now: float, lasts_s: float = inf) -> bool:
        """The move is checked and begins: from now on no other takes its grant, and only `release`
        ends it, or that nobody said so again for `lasts_s`. Whether it is still granted. O(1)."""
        self._forget(now)
        if self.move is None or not _same(self.move, move):
            return False
        self._until = max(now + lasts_s, self._until if self._begun else 0.0)
        self._begun = True
        return True

    def busy(self, now: float) -> bool:
        """Whether any move is granted. O(holds)."""
        self._forget(now)
        return self.move is not None

    def granted(self, move: Move, now: float) -> bool:
        """Whether this move is. O(1)."""
        self._forget(now)
        return self.move is not None and _same(self.move, move)

    def holds(self, mover: Unit, now: float) -> bool:
        """Whether units stay for this one's sake. O(holds)."""
        self._forget(now)
        return mover in self._held

    def begun(self, mover: Unit, now: float) -> bool:
        """Whether a move of this unit has begun that has a grant or a hold here. O(holds)."""
        self._forget(now)
        held, move = self._held.get(mover), self.move
        moves = self._begun and move is not None and move.unit == mover
        return moves or (held is not None and held.begun)

    def hold(self, mover: Unit, peers: Iterable[Unit], now: float) -> bool:
        """Keep these units, which live here, where they are while their peer moves. False if one of
        them is moving itself. O(peers)."""
        self._forget(now)
        units = frozenset(peers)
        if self.move is not None and self.move.unit in units:
            return False
        before = self._held.get(mover)
        until, begun = now + self.lasts_s, before is not None and before.begun
        if before is not None:
            until = max(until, before.until)
            if begun:  # What it holds stays held.
                units |= before.units
        self._held[mover] = _Hold(until, units, begun)
        return True

    def keep(self, mover: Unit, now: float, lasts_s: float = inf) -> bool:
        """The move begins: from now on only `release` ends the hold of its peers, or that nobody
        said so again for `lasts_s`. Whether they are still held. O(1)."""
        self._forget(now)
        if mover not in self._held:
            return False
        held = self._held[mover]
        until = max(now + lasts_s, held.until if held.begun else 0.0)
        self._held[mover] = _Hold(until, held.units, begun=True)
        return True

    def release(self, mover: Unit, source: str | None = None) -> None:
        """The move is over, or will not be: its grant and what it holds end. O(1). With a `source`
        only if the move granted is from there."""
        move = self.move
        if move is not None and move.unit == mover and source in (None, move.source):
            self.move = None
        self._held.pop(mover, None)

    def _stays(self, unit: Unit) -> bool:
        return any(unit in held.units for mover, held in self._held.items() if mover != unit)

    def _forget(self, now: float) -> None:
        if self.move is not None and now >= self._until:
            self.move = None
        for mover in [mover for mover, held in self._held.items() if now >= held.until]:
            del self._held[mover]


def _same(one: Move, other: Move) -> bool:
    """Whether both are one move; its gain and reason may be seen differently since."""
    return (one.unit, one.source, one.target) == (other.unit, other.source, other.target)
