"""Group commit of spool and inboxes: gathered changes in one transaction, then what depends on
it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.master.storage.notification_store import STATEMENTS, Change, NotificationStore
from agent.runtime.disk_writer import DiskWriter, InlineDiskWriter
from agent.wire.push import Gap, Notified, Subscribed

# Changes that a crash may undo: they are repeated, and were not reported as done.
LAZY: Final = frozenset(
    {
        s.ForgetSpooled,
        s.ForgetLost,
        i.SaveCursor,
        i.ForgetBody,
        i.ForgetItem,
        i.ForgetPositions,
        i.SetPositionApart,
        i.ForgetPosition,
    }
)
FLUSH_S: Final = 0.5
RETRY_S: Final = 1.0
# Changes that may be gathered while the disk is busy with earlier ones.
MAX_GATHERED: Final = 8_192


class _Batch:
    """The changes of one transaction, and the actions that wait for it."""

    __slots__ = ("asked", "changes", "held", "urgent")

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.held: list[Any] = []
        # Callbacks for the outcome, success or failure.
        self.asked: list[Callable[[bool], object]] = []
        # Whether some action must wait for this transaction.
        self.urgent = False


class GroupCommit:
    """Takes the instructions of spool and inboxes. `perform` carries out those that are not for the
    disk: at once, or once the changes before them are on stable storage.

    `writer` writes at the end of the turn in which some action begins to wait, or else after a
    delay, one transaction at a time; changes meanwhile are gathered for the next. A refused
    transaction is retried every second, and what depends on it waits. While `refusing`, because the
    disk refuses or because too much is gathered behind a slow disk, spool and inboxes must get no
    event and no tick: what they would gather here has no bound.
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
        # Whether the last transaction failed.
        self._refused = False

    @property
    def refusing(self) -> bool:
        """Whether no further events may be handled."""
        return self._refused or (self._under_way is not None and self._full)

    @property
    def _full(self) -> bool:
        return len(self._gathered.changes) >= MAX_GATHERED

    @property
    def next_due(self) -> float | None:
        """When to write: at the end of this turn if an action waits; None while writing."""
        return None if self._under_way else self._due

    @property
    def urgent(self) -> bool:
        """Whether an action waits for the pending changes."""
        return self._last_urgent is not None

    @property
    def _last_urgent(self) -> _Batch | None:
        """Everything that waits now has to wait for this one."""
        if self._gathered.urgent:
            return self._gathered
        if self._under_way is not None and self._under_way.urgent:
            return self._under_way
        return None

    def take(self, instructions: Iterable[Any]) -> None:
        """Take the instructions of one event, in order."""
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
        """Perform it once all changes taken so far are on stable storage; if not `soon`, it does
        not hasten the transaction."""
        if (batch := self._last_urgent) is None:
            self._perform([instruction])
            return
        batch.held.append(instruction)
        if soon:
            self._write_soon(batch)

    def settle(self, then: Callable[[bool], object], *, at_once: bool = True) -> None:
        """Write now, or at the end of the turn. `then` gets whether all changes taken so far are on
        stable storage, or can be repeated by their senders; False as soon as the disk refuses."""
        if self._refused:
            then(False)
        elif (batch := self._last_urgent) is None:
            then(True)
        else:
            batch.asked.append(then)
            self._write_soon(batch)
            if at_once:
                self.tick(self._clock())

    def withdraw(self, peer: Any, id_: str) -> None:
        """Forget what waits to be sent to `peer` about one subscription alone."""
        gathered = self._gathered
        gathered.held = [each for each in gathered.held if not _is_about(each, peer, id_)]

    def tick(self, now: float) -> None:
        """Write the gathered changes."""
        if self._under_way is not None:
            return
        batch = self._under_way = self._gathered
        self._gathered, self._due = _Batch(), None
        self._writer.submit(
            partial(self._store.write, batch.changes), partial(self._written, batch, now)
        )

    def _written(self, batch: _Batch, now: float, well: bool) -> None:
        self._under_way = None
        self._refused = not well
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
        """Gather the changes again, before later ones; returns the callbacks to notify."""
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
        if batch is self._gathered and not self._refused:
            now = self._clock()
            self._due = now if self._due is None else min(now, self._due)


def _is_about(instruction: Any, peer: Any, id_: str) -> bool:
    if not isinstance(instruction, i.SendPush) or instruction.peer != peer:
        return False
    message = instruction.message
    if isinstance(message, Notified) and message.also:
        return False
    return isinstance(message, Subscribed | Notified | Gap) and message.id == id_


def _waits(instruction: Any) -> bool:
    if isinstance(instruction, i.SendPush):
        return instruction.waits
    return isinstance(instruction, s.Accepted)
