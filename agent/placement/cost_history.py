"""Recent cost of the placement that a master sees."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from agent.placement.world import Unit
from agent.wire.placement import MAX_AMOUNT, MAX_COSTS, CostAt

EVERY_S: Final = 30.0


class CostHistory:
    """The last values, one each half a minute and one after each move."""

    def __init__(self) -> None:
        self._costs: deque[tuple[float, float | None]] = deque(maxlen=MAX_COSTS)
        self._due_s = 0.0
        # Units that moved, and how long the next value waits for their new homes to tell of them.
        self._moved: dict[Unit, float] = {}

    def due(self, now: float) -> bool:
        """Whether the next value is to be taken."""
        return not self._costs or now >= self._due_s

    def moved(self, unit: Unit, now: float) -> None:
        """A move of the unit is over: the next value is due."""
        self._due_s = now
        self._moved[unit] = now + EVERY_S

    def complete(self, where: Callable[[Unit], object], now: float) -> bool:
        """Whether a view in which units are `where` has each that moved: the cost of one without a
        home would be none."""
        self._moved = {
            unit: until_s
            for unit, until_s in self._moved.items()
            if now < until_s and where(unit) is None
        }
        return not self._moved

    def take(self, cost: float, now: float) -> None:
        """The cost is this now, in seconds of delay a second; infinite if a limit or an objective
        is not kept. None is kept of what no report may say."""
        self._due_s = now + EVERY_S
        self._costs.append((now, round(cost, 9) if cost <= MAX_AMOUNT else None))

    def told(self, now: float) -> tuple[CostAt, ...]:
        """All of them, the oldest first."""
        return tuple([CostAt(round(now - at_s, 3), cost) for at_s, cost in self._costs])
