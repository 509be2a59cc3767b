"""Late items between masters: sent after a unit that has left, taken in for one that has come, and
passed on from master to master for one that has moved on."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from agent.master.moves.late_items import LateItems
from agent.master.moves.movable import NOT_HERE, UNREADABLE, Movable
from agent.placement.world import Kind, Unit
from agent.runtime.console import Say
from agent.runtime.rate_limited_lines import RateLimitedLines
from agent.wire import handover as w

# Units of which the operator was told; a partner may name any.
MAX_UNKNOWN: Final = 512


class LateExchange(LateItems):
    """`tell` sends to a master, and may lose it; `where` says to which master a unit went from
    here; `epoch` in which it was here last, 0 if nothing is on disk of that; `refusing`, whether
    nothing may be written now."""

    def __init__(
        self,
        movables: Mapping[Kind, Movable],
        tell: Callable[[str, Unit, w.HandoverMessage], object],
        where: Callable[[Unit], str | None],
        epoch: Callable[[Unit], int],
        refusing: Callable[[], bool],
        say: Say,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(lambda to, unit, number, items: tell(to, unit, w.MoveLate(number, items)))
        self._movables = movables
        self._tell = tell
        self._where = where
        self._epoch = epoch
        self._refusing = refusing
        # A master may send any number of them.
        self._lines = RateLimitedLines(say, clock)
        # What was passed on to where a unit has moved on to, by the unit and who sent it: to whom,
        # the number that it came with, and the one that it went with.
        self._passed: dict[tuple[Unit, str], tuple[str, int, int]] = {}
        # Of which the operator was told that nothing is known of them here.
        self._unknown: set[Unit] = set()
        # How many were new at the target.
        self.new = 0

    def arrived(self, unit: Unit, sender: str, late: w.MoveLate) -> None:
        """A former master sends what came for the unit there."""
        movable = self._movables.get(unit.kind)
        if movable is not None and not self._refusing():
            movable.forwarded(unit, late.body, partial(self._taken, unit, sender, late))

    def confirmed(self, unit: Unit, by: str, kept: w.MoveKept, now: float) -> None:
        """That master has on disk what it was sent."""
        for (each, former), (there, number, own) in list(self._passed.items()):
            if (each, there, own) == (unit, by, kept.number):
                del self._passed[each, former]
                self._tell(former, unit, w.MoveKept(number, kept.new))
                return
        self.new += kept.new
        self.kept(unit, by, kept.number, kept.new, now)

    def _taken(self, unit: Unit, sender: str, late: w.MoveLate, new: int) -> None:
        if new != NOT_HERE:
            self._confirm(unit, sender, late.number, new)
        elif (there := self._where(unit)) is None:
            if not self._epoch(unit):
                self._tell_unknown(unit, sender)
            self._confirm(unit, sender, late.number, 0)  # It was removed, or the disk was lost.
        elif there != sender:
            # Its former master was away while the unit moved on. Only who has it may say so.
            to, number, own = self._passed.get((unit, sender), ("", 0, 0))
            if (to, number) != (there, late.number):
                own = secrets.randbits(52)
                self._passed[unit, sender] = there, late.number, own
            self._tell(there, unit, w.MoveLate(own, late.body))

    def _tell_unknown(self, unit: Unit, sender: str) -> None:
        if unit in self._unknown:
            return
        if len(self._unknown) >= MAX_UNKNOWN:
            self._unknown.clear()
        self._unknown.add(unit)
        self._lines.tell(
            f"late items from {sender}: it gave {unit} to this master, which has no record of "
            "that, as after the loss of its state; what comes for it is dropped: unless its "
            f"standby takes it over, remove it at {sender}, and create it anew"
        )

    def _confirm(self, unit: Unit, sender: str, number: int, new: int) -> None:
        if new == UNREADABLE:
            # Otherwise they would come again for ever.
            self._lines.tell(
                f"late items from {sender}: those of {unit} are unreadable and dropped"
            )
            self._tell(sender, unit, w.MoveKept(number, 0))
        elif new >= 0:
            self._tell(sender, unit, w.MoveKept(number, new))
