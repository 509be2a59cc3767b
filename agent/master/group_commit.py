"""Spool and inboxes to disk: what was gathered in one transaction, and then what waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.master.notification_store import STATEMENTS, Change, NotificationStore
from agent.runtime.disk_writer import DiskWriter, InlineDiskWriter

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
# Changes that may be gathered while the disk is busy with those before them.
MAX_GATHERED: Final = 8_192


class _Batch:
    """What goes to the disk in one transaction, and what waits for it."""

    __slots__ = ("asked", "changes", "held", "urgent")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.held: list[Any] = []
        # Who is told how it went, either way.
        self.asked: list[Callable[[bool], object]] = []
        # Whether somebody may not be told yet that it was done.
        self.urgent = False


class GroupCommit:
    """Takes the instructions of spool and inboxes. `perform` carries out those that are not for the
    disk: at once, or once what came before them is on stable storage.

    It has `writer` write at the end of the turn in which somebody begins to wait, or else by and
    by, one transaction at a time; what comes meanwhile is gathered for the next. A disk that
    refuses is tried again every second, and what waits stays undone. As long as it is `refusing`,
    because of that or because much is gathered behind a slow disk, spool and inboxes are to get no
    event and no tick: there is no end to what they would gather here.
    """

    def __init__(
        self,
        store: NotificationStore,
        perform: Callable[[list[Any]], None],
        clock: Callable[[], float],
        writer: DiskWriter | None = None,
    ) -> None:
        self._store = store
        self._perform = perform
        self._clock = clock
        self._writer = writer or InlineDiskWriter()
        self._gathered = _Batch()
        self._under_way: _Batch | None = None
        self._due: float | None = None
        # Whether the disk did, at the last try.
        self.refused = False

    @property
    def refusing(self) -> bool:
        """Whether nothing more is to come."""
        return self.refused or (self._under_way is not None and self._full)

    @property
    def _full(self) -> bool:
        return len(self._gathered.changes) >= MAX_GATHERED

    @property
    def next_due(self) -> float | None:
        """When to write: at the end of this turn if anybody waits; None while it is writing."""
        return None if self._under_way else self._due

    @property
    def urgent(self) -> bool:
        """Whether somebody may not be told yet that it was done."""
        return self._last_urgent is not None

    @property
    def _last_urgent(self) -> _Batch | None:
        """Whatever waits now has to wait for this one."""
        if self._gathered.urgent:
            return self._gathered
        if self._under_way is not None and self._under_way.urgent:
            return self._under_way
        return None

    def take(self, instructions: Iterable[Any]) -> None:
        """Take what one event gave, in order."""
        at_once = []
        for instruction in instructions:
            kind = type(instruction)
            if kind in STATEMENTS:
                self._gather(instruction, urgent=kind not in LAZY)
            elif _waits(instruction) and (batch := self._last_urgent) is not None:
                batch.held.append(instruction)
                self._write_soon(batch)
            else:
                at_once.append(instruction)
        self._perform(at_once)

    def after_commit(self, instruction: Any, *, soon: bool = True) -> None:
        """Perform it once all that was taken until now is on stable storage; if not `soon`, nobody
        waits for that."""
        if (batch := self._last_urgent) is None:
            self._perform([instruction])
            return
        batch.held.append(instruction)
        if soon:
            self._write_soon(batch)

    def settle(self, then: Callable[[bool], object]) -> None:
        """Write now. `then` is told whether all that was taken until now is on stable storage, or
        can be done again by whoever lost it; False as soon as the disk refuses."""
        if self.refused:
            then(False)
        elif (batch := self._last_urgent) is None:
            then(True)
        else:
            batch.asked.append(then)
            self._write_soon(batch)
            self.tick(self._clock())

    def tick(self, now: float) -> None:
        """Write what was gathered."""
        if self._under_way is not None:
            return
        batch = self._under_way = self._gathered
        self._gathered, self._due = _Batch(), None
        self._writer.submit(
            partial(self._store.write, batch.changes), partial(self._written, batch, now)
        )

    def _written(self, batch: _Batch, now: float, well: bool) -> None:
        self._under_way = None
        self.refused = not well
        if well:
            if self._full:
                self._due = self._clock()
            self._perform(batch.held)
            asked = batch.asked
        else:
            asked = self._put_back(batch)
            self._due = max(now, self._clock()) + RETRY_S
        for then in asked:
            then(well)

    def _put_back(self, batch: _Batch) -> list[Callable[[bool], object]]:
        """Gather it again, before what came since; returns whom to tell."""
        since, self._gathered = self._gathered, batch
        asked, batch.asked = batch.asked + since.asked, []
        batch.changes += since.changes
        batch.held += since.held
        batch.urgent = batch.urgent or since.urgent
        return asked

    def _gather(self, change: Change, *, urgent: bool) -> None:
        self._gathered.changes.append(change)
        self._gathered.urgent = self._gathered.urgent or urgent
        if self._due is None:
            self._due = self._clock() + FLUSH_S
        if self._full:
            self._write_soon(self._gathered)

    def _write_soon(self, batch: _Batch) -> None:
        if batch is self._gathered and not self.refused:
            now = self._clock()
            self._due = now if self._due is None else min(now, self._due)


def _waits(instruction: Any) -> bool:
    if isinstance(instruction, i.SendPush):
        return instruction.waits
    return isinstance(instruction, s.Accepted)
