"""Late items: what still comes for a unit at the master that it has left, sent after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agent.master.moves.movable import Movable
from agent.placement.world import Unit

# For so long after a unit has left, and after the last late item that was news, more may come.
QUIET_S: Final = 60.0
# An answer may be lost with a connection.
AGAIN_S: Final = 1.0


class _Late:
    __slots__ = ("again_s", "ends_s", "movable", "number", "to")

    def __init__(self, movable: Movable, to: str, ends_s: float) -> None:
        self.movable = movable
        self.to = to
        self.ends_s = ends_s
        # What is under way, and when it is sent again.
        self.number: int | None = None
        self.again_s = 0.0


class LateItems:
    """One batch of items of a unit is under way at a time. `send(to, unit, number, items)` may lose
    it. O(units that left lately) an event."""

    def __init__(self, send: Callable[[str, Unit, int, bytes], object]) -> None:
        self._send = send
        self._units: dict[Unit, _Late] = {}

    def begin(self, unit: Unit, movable: Movable, to: str, now: float) -> None:
        """The unit was released to that master, perhaps before a restart."""
        self._units[unit] = _Late(movable, to, now + QUIET_S)

    def drop(self, unit: Unit) -> None:
        """It is back."""
        self._units.pop(unit, None)

    def has(self, unit: Unit, now: float) -> None:
        """Something came for it."""
        late = self._units.get(unit)
        if late is not None and late.number is None:
            self._next(unit, late, now)

    def kept(self, unit: Unit, by: str, number: int, new: int, now: float) -> None:
        """That master has the batch of this number, on disk; so many of it were new there."""
        late = self._units.get(unit)
        if late is None or late.to != by or late.number != number:
            return
        if new:
            late.ends_s = now + QUIET_S
        late.movable.kept(unit, number)
        self._next(unit, late, now)

    def _next(self, unit: Unit, late: _Late, now: float) -> None:
        found = late.movable.late(unit)
        if found is None:
            late.number = None
            return
        late.number, items = found
        late.again_s = now + AGAIN_S
        self._send(late.to, unit, late.number, items)

    @property
    def next_due(self) -> float | None:
        """When something is to be sent again, or no more is waited for."""
        return min(
            [late.ends_s if late.number is None else late.again_s for late in self._units.values()],
            default=None,
        )

    def tick(self, now: float, has_left: Callable[[Unit], bool]) -> None:
        """Do what is due. As long as a unit has not left for good, or nothing can be taken in for
        it, silence does not mean that nothing more comes."""
        for unit, late in list(self._units.items()):
            if late.number is not None:
                if late.again_s <= now:
                    self._next(unit, late, now)
            elif late.ends_s <= now and not has_left(unit):
                late.ends_s = now + QUIET_S
            elif late.ends_s <= now:
                del self._units[unit]
                late.movable.end(unit)
