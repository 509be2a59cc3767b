"""Budgets that all who ask share: bytes of answers (gathered, being written, or not read yet) and
areas of what is open.

Shares are dynamic (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
switches", 1998): a payer may hold as much as is left free. One alone gets half, n greedy ones leave
one part in n + 1 to whoever comes next; nothing has to be set aside for parties that are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from agent.wire.principals import Sender

# Twice what the largest answer holds, so that it fits where nobody else asks; a Pi has as much.
MOST: Final = 1 << 28
# Readings of a node that nobody asked before are taken for one a second, each with its time, and
# of every channel the value and the flag.
TIME_BYTES: Final = 8
CHANNEL_BYTES: Final = 5
FULL: Final = (
    f"answers here hold all they may, {MOST >> 20} MiB together and of it as much for one sender "
    "as is left: read yours, and ask again later or for less"
)


# Of all open queries, and of all open tasks; they take some 90 bytes each.
MAX_OPEN_AREAS: Final = 500_000
TOO_MANY_AREAS: Final = (
    f"too many areas are asked here: {MAX_OPEN_AREAS:,} together and of them as many by one sender "
    "as are left; let answers come, or ask a parent of some"
)


def payer_of(sender: Sender) -> Hashable:
    """Whose share something uses up: a key's, or without keys a connection's."""
    return sender.role, sender.name


class SharedBudget:
    """What is held, by payer, and the `total`. `collect`, if set, looks for what was let go of; but
    for that all is O(1)."""

    __slots__ = ("_held", "_most", "collect", "total")

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: dict[Hashable, int] = {}
        self.total = 0
        self.collect: Callable[[], object] | None = None

    def held(self, payer: Hashable) -> int:
        """What it holds now."""
        return self._held.get(payer, 0)

    @property
    def half_of_free(self) -> int:
        """What one that holds nothing may."""
        return max(0, self._most - self.total) // 2

    def has_room(self, payer: Hashable, size: int) -> bool:
        """Whether it may hold so much more."""
        if self._leaves(payer, size):
            return True
        if self.collect is None:
            return False
        self.collect()
        return self._leaves(payer, size)

    def _leaves(self, payer: Hashable, size: int) -> bool:
        return self.held(payer) + size <= self._most - self.total - size

    def add(self, payer: Hashable, size: int) -> None:
        """It holds so much more; less, if that is negative."""
        held = self.held(payer) + size
        assert held >= 0
        if held:
            self._held[payer] = held
        else:
            self._held.pop(payer, None)
        self.total += size


class Holding:
    """What one query or task holds of a budget: what it is expected to take, or what it took if
    that is more."""

    __slots__ = ("_budget", "_counted", "_payer", "_taken")

    def __init__(self, budget: SharedBudget, payer: Hashable) -> None:
        self._budget = budget
        self._payer = payer
        self._counted = self._taken = 0

    def expect(self, size: int) -> bool:
        """Whether there is room for so much; then it is set aside. Who holds nothing may try: what
        is expected is a guess, and what there is not room for is refused when it comes."""
        budget = self._budget
        if not budget.has_room(self._payer, size):
            size = budget.half_of_free
            if budget.held(self._payer) or not size:
                return False
        self._count(size)
        return True

    def grow(self, size: int) -> bool:
        """Whether there is room for so much that has come; then it is counted."""
        more = max(0, self._taken + size - self._counted)
        if more and not self._budget.has_room(self._payer, more):
            return False
        self._taken += size
        self._count(more)
        return True

    def release(self) -> None:
        """Nothing of it is held any more."""
        self._count(-self._counted)
        self._taken = 0

    def _count(self, size: int) -> None:
        if size:
            self._budget.add(self._payer, size)
            self._counted += size
