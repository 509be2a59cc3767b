"""Spool and inboxes to disk: what was gathered in one transaction, and then what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from agent.master.notification_store import STATEMENTS, Change, NotificationStore
from agent.topics import inbox_events as i
from agent.topics import spool_events as s

# What a crash may undo: it is done again, and nobody is told before that it was done.
LAZY: Final = frozenset(
    {
        s.ForgetSpooled,
        s.ForgetLost,
        i.SaveCursor,
        i.ForgetBody,
        i.ForgetItem,
        i.ForgetPositions,
    }
)
FLUSH_S: Final = 0.5
RETRY_S: Final = 1.0
# Between two writes there is as much time for all else as the first one took, up to this.
LONGEST_PAUSE_S: Final = 0.25


class GroupCommit:
    """Takes the instructions of spool and inboxes. `perform` carries out those that are not for the
    disk: at once, or once what came before them is on stable storage.

    It writes at the end of the turn in which somebody begins to wait, or else by and by; and then
    not before all else had as long as the disk took, for a busy one holds up everything here. One
    that refuses is tried again every second, and what waits stays undone. As long as it is
    `refusing`, spool and inboxes are to get no event and no tick: there is no end to what they
    would gather here.
    """

    def __init__(
        self,
        store: NotificationStore,
        perform: Callable[[list[Any]], None],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._perform = perform
        self._clock = clock
        self._changes: list[Change] = []
        self._urgent = False
        self._held: list[Any] = []
        self._due: float | None = None
        self._pause_ends = 0.0
        self.refusing = False

    @property
    def next_due(self) -> float | None:
        """When to write: at the end of this turn if anybody waits, and a pause is over."""
        return self._due

    @property
    def urgent(self) -> bool:
        """Whether somebody may not be told yet that it was done."""
        return self._urgent

    def take(self, instructions: Iterable[Any]) -> None:
        """Take what one event gave, in order."""
        at_once = []
        for instruction in instructions:
            kind = type(instruction)
            if kind in STATEMENTS:
                self._gather(instruction, urgent=kind not in LAZY)
            elif self._urgent and _waits(instruction):
                self._hold(instruction)
            else:
                at_once.append(instruction)
        self._perform(at_once)

    def after_commit(self, instruction: Any, *, soon: bool = True) -> None:
        """Perform it once all that was taken until now is on stable storage; if not `soon`, nobody
        waits for that."""
        if not self._urgent:
            self._perform([instruction])
        elif soon:
            self._hold(instruction)
        else:
            self._held.append(instruction)

    def tick(self, now: float) -> None:
        """Write what was gathered."""
        changes, held, urgent = self._changes, self._held, self._urgent
        self._changes, self._held, self._urgent, self._due = [], [], False, None
        begun = self._clock()
        self.refusing = not self._store.write(changes)
        ended = self._clock()
        self._pause_ends = ended + min(ended - begun, LONGEST_PAUSE_S)
        if self.refusing:
            self._changes, self._held, self._urgent = changes, held, urgent
            self._due = now + RETRY_S
            return
        self._perform(held)

    def _gather(self, change: Change, *, urgent: bool) -> None:
        self._changes.append(change)
        self._urgent = self._urgent or urgent
        if self._due is None:
            self._due = self._clock() + FLUSH_S

    def _hold(self, instruction: Any) -> None:
        self._held.append(instruction)
        if not self.refusing:
            due = max(self._clock(), self._pause_ends)
            self._due = due if self._due is None else min(due, self._due)


def _waits(instruction: Any) -> bool:
    if isinstance(instruction, i.SendPush):
        return instruction.waits
    return isinstance(instruction, s.Accepted)
