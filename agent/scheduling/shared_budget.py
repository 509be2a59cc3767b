"""Budgets shared by all clients: bytes of answers (being gathered, written, or not read yet), and
areas of open requests.

Shares are dynamic (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
switches", 1998): a payer may hold as much as is left free. A single payer gets half; n greedy
payers leave one part in n + 1 free for the next. So nothing has to be reserved for absent parties.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from agent.wire.principals import Sender

# Twice the size of the largest answer, so that it fits if there are no others; a Pi has as much.
MAX_HELD_BYTES: Final = 1 << 28
# A node that was not asked before is assumed to have one reading a second: a time, and a value and
# a flag for every channel.
TIME_BYTES: Final = 8
CHANNEL_BYTES: Final = 5
# Forms whose answers may be large.
SIZED: Final = ("series", "buckets")
FULL: Final = (
    f"answers here hold all they may, {MAX_HELD_BYTES >> 20} MiB together and of it as much for "
    "one sender as is left: read yours, and ask again later or for less"
)


# Limit for all open queries, and for all open tasks; an area takes some 90 bytes, and what is open
# at least as much as these.
MAX_OPEN_AREAS: Final = 500_000
LEAST_AREAS: Final = 25
TOO_MANY_AREAS: Final = (
    f"too many areas are asked here: {MAX_OPEN_AREAS:,} together, at least {LEAST_AREAS} for each "
    "request, and of them as many by one sender as are left; let answers come, or ask a parent of "
    "some"
)


def areas_counted(areas: Sequence[str]) -> int:
    """The areas as which an open request for these counts."""
    return max(LEAST_AREAS, len(areas))


def payer_of(sender: Sender) -> Hashable:
    """The share that a sender uses: that of its key, or without keys that of its connection."""
    return sender.role, sender.name


class SharedBudget:
    """Amounts held by each payer, and their `total`. `collect`, if set, is called when there is no
    room, to release what is not held any more; everything else is O(1)."""

    __slots__ = ("_held", "_most", "collect", "total")

    def __init__(self, most: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self._held: dict[Hashable, int] = {}
        self.total = 0
        self.collect: Callable[[], object] | None = None

    def held(self, payer: Hashable) -> int:
        """The amount that the payer holds now."""
        return self._held.get(payer, 0)

    @property
    def half_of_free(self) -> int:
        """The maximum for a payer that holds nothing."""
        return max(0, self._most - self.total) // 2

    def has_room(self, payer: Hashable, size: int) -> bool:
        """Whether the payer may hold `size` more."""
        if self._held.get(payer, 0) + size <= self._most - self.total - size:
            return True
        if self.collect is None:
            return False
        self.collect()
        return self._held.get(payer, 0) + size <= self._most - self.total - size

    def add(self, payer: Hashable, size: int) -> None:
        """Increase the payer's amount by `size`, which may be negative."""
        held = self._held.get(payer, 0) + size
        assert held >= 0
        if held:
            self._held[payer] = held
        else:
            self._held.pop(payer, None)
        self.total += size


class Holding:
    """One query's or task's part of a budget: the expected amount, or the actual one if that is
    larger."""

    __slots__ = ("_budget", "_counted", "_payer", "_taken")

    def __init__(self, budget: SharedBudget, payer: Hashable) -> None:
        self._budget = budget
        self._payer = payer
        self._counted = self._taken = 0

    def expect(self, size: int) -> bool:
        """Reserve `size` if there is room for it; False: there is not. A payer that holds nothing
        may go on with a smaller reservation: the size is an estimate, and `grow` refuses what does
        not fit."""
        budget = self._budget
        if not budget.has_room(self._payer, size):
            size = budget.half_of_free
            if budget.held(self._payer) or not size:
                return False
        self._count(size)
        return True

    def grow(self, size: int) -> bool:
        """Count `size` that has arrived if there is room for it; False: there is not."""
        more = self._taken + size - self._counted
        if more > 0:
            if not self._budget.has_room(self._payer, more):
                return False
            self._count(more)
        self._taken += size
        return True

    def release(self) -> None:
        """Give back everything."""
        self._count(-self._counted)
        self._taken = 0

    def _count(self, size: int) -> None:
        if size:
            self._budget.add(self._payer, size)
            self._counted += size
