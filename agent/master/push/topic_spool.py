"""Notifications of topics, on their way into the spool: what clients publish, what processors put
out."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from agent.alerts import spool_events as s
from agent.alerts.notifications import history_of
from agent.alerts.spool import CLIENTS, Spool
from agent.master.storage.group_commit import GroupCommit
from agent.master.storage.notification_store import STATEMENTS
from agent.runtime.reactor import Reactor
from agent.topics.contents import input_of, trouble_of
from agent.topics.events import ForgetCopy, ForgetProgress, Progress, SaveProgress
from agent.wire.overlay import Notification, Origin
from agent.wire.topics import Publish

# How often it is looked whether what was withheld may leave.
LOOK_S: Final = 0.1


class _Released(Struct, frozen=True):
    """These are on stable storage, with all that goes with them."""

    notifications: tuple[Notification, ...]
    then: Callable[[], object]


class TopicSpool:
    """A part of `PushPlane`, whose spool, transactions and clocks it uses; `spool_has` handles an
    event of the spool and publishes at once."""

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        spool: Spool,
        commit: GroupCommit,
        spool_has: Callable[[s.SpoolEvent], object],
        wall: Callable[[], float],
    ) -> None:
        self._clock = reactor.clock
        self._iad = iad
        self._spool = spool
        self._commit = commit
        self._spool_has = spool_has
        self._wall = wall
        # The history of what has no number of its own.
        self._run = secrets.token_hex(16)
        self._unnumbered = 0
        # Outputs that are on stable storage, to be published in the next turns.
        self._released: deque[Notification] = deque()
        # Whether an output may not leave now, since another master may have its topic.
        self.withholds: Callable[[Notification], bool] = lambda _: False
        self._withheld: list[Notification] = []
        self._resting: set[str] = set()  # their histories
        self._look_s = 0.0
        # Topics of whose states the disk has copies, which it needs until it has all of them.
        self.copied: set[str] = set()
        # What is still on its way to subscribers' masters, and what waits for that.
        self._leaving: list[tuple[set[Origin], Callable[[], object]]] = []
        reactor.performs(_Released, self._are_released)

    @property
    def next_due(self) -> float | None:
        """When `to_publish` is to be asked; None if there is nothing."""
        if self._released:
            return 0.0
        return self._look_s if self._withheld else None

    def to_publish(self, most: int, now: float) -> list[Notification]:
        """Those of the next `most` outputs that leave now. The others stay, and those of their
        topics that follow, until they are looked at again. O(most + those that stay)."""
        if self._withheld and self._look_s <= now:
            self._released.extendleft(reversed(self._withheld))
            self._withheld, self._resting = [], set()
        going: list[Notification] = []
        for _ in range(min(most, len(self._released))):
            each = self._released.popleft()
            history = each.origin.history
            if history in self._resting or self.withholds(each):
                if not self._withheld:
                    self._look_s = now + LOOK_S
                self._withheld.append(each)
                self._resting.add(history)
            else:
                going.append(each)
        return going

    @property
    def crowded(self) -> bool:
        """Whether so much waits for other masters that topics are held back: what clients publish
        and processors put out must not push the nodes' alerts out of the spool."""
        return self._spool.crowded

    def crowded_by(self, client: str) -> bool:
        """Whether so much of one client's waits that others would find no room."""
        return self._spool.is_crowded_by(f"{CLIENTS}{client}")

    @property
    def refusing(self) -> bool:
        """Whether the disk refuses, and nothing new is taken."""
        return self._commit.refusing

    def publish(self, client: str, message: Publish, then: Callable[[bool], object]) -> bool:
        """Publish a client's message to its topic; `then` gets whether it is on stable storage. It
        is published once for each sequence of the client's id. Returns whether it was accepted."""
        if self._commit.refusing:
            return False
        history, sequence, oldest = message.id, message.sequence, message.oldest
        if sequence is None:
            history, sequence, oldest = self._number()
        node = f"{CLIENTS}{client}"
        origin = Origin(self._iad, history_of(node, history), sequence)
        told = input_of(self._iad, origin, self._now_ms, message.topic, message.attributes)
        alerts = (s.EventAlerts(sequence, (told,)),)
        self._spool_has(s.Brought(None, node, history, oldest, alerts))
        self._commit.settle(then)
        return True

    def tell_trouble(self, name: str, what: str, text: str) -> None:
        """Tell subscribers that something is wrong with a topic's processor, or is well again.
        While the disk refuses, or too much waits, only the operator is told."""
        if self._commit.refusing or self.crowded:
            return
        history, sequence, oldest = self._number()
        origin = Origin(self._iad, history_of(CLIENTS, history), sequence)
        told = trouble_of(self._iad, origin, self._now_ms, name, what, text)
        alerts = (s.EventAlerts(sequence, (told,)),)
        self._spool_has(s.Brought(None, CLIENTS, history, oldest, alerts))

    def _number(self) -> tuple[str, int, int]:
        """History, sequence and oldest of a notification that is never sent again."""
        self._unnumbered += 1
        return self._run, self._unnumbered - 1, self._unnumbered

    @property
    def _now_ms(self) -> int:
        return round(self._wall() * 1e3)

    def release(
        self,
        name: str,
        progress: Progress,
        notifications: Sequence[Notification],
        then: Callable[[], object],
    ) -> bool:
        """Put a topic's progress and what it made of its messages on stable storage, in one
        transaction; publish that afterwards, and call `then`. Returns whether it was accepted:
        then it is written in the end, even if the disk refuses at first."""
        if self._commit.refusing:
            return False
        if notifications and not self._spool.has_room_for(notifications):
            return False
        changes, fresh = self._spooled(name, progress, notifications)
        self._commit.take(changes)
        self._commit.take([SaveProgress(name, progress), *self.forget_copy(name)])
        # Unlike an alert, an output may come out otherwise if its message is processed again.
        self._commit.after_commit(_Released(fresh, then))
        return True

    def _spooled(
        self, name: str, progress: Progress, notifications: Sequence[Notification]
    ) -> tuple[list[Any], tuple[Notification, ...]]:
        """Entries to write for these, and notifications to publish then."""
        events = tuple([s.EventAlerts(each.origin.sequence, (each,)) for each in notifications])
        brought = s.Brought(None, f"topic/{name}", progress.incarnation, progress.put_out, events)
        made = self._spool.handle(brought, self._clock()) if events else []
        fresh = [each.notification for each in made if isinstance(each, s.PublishSpooled)]
        return [each for each in made if type(each) in STATEMENTS], tuple(fresh)

    def of(self, name: str, incarnation: str) -> list[Notification]:
        """Outputs published here that some subscriber's master may not have. O(spooled)."""
        return self._spool.unsettled(history_of(f"topic/{name}", incarnation))

    def take_over(
        self, name: str, progress: Progress, outputs: Sequence[Notification]
    ) -> tuple[list[Any], Callable[[], object]]:
        """The same of a topic that is taken over: what is to be written, in the transaction that
        takes it, and what publishes them then. The caller has asked for room."""
        changes, fresh = self._spooled(name, progress, outputs)
        return changes, lambda: self._released.extend(fresh)

    def has_room_for(self, outputs: Sequence[Notification]) -> bool:
        """Whether these leave half of the spool to the nodes' alerts. O(outputs)."""
        return not outputs or self._spool.has_room_for(outputs)

    def disown(self, name: str, incarnation: str) -> None:
        """Another master has the topic, and all that it put out here: no more of it leaves.
        O(spooled)."""
        history = history_of(f"topic/{name}", incarnation)
        self._released = deque([each for each in self._released if each.origin.history != history])
        self._withheld = [each for each in self._withheld if each.origin.history != history]
        for origin in self._spool.of(history):
            self._spool_has(s.Settled(origin))
            self.left(origin)

    def forget_copy(self, name: str) -> list[ForgetCopy]:
        """The change that makes the disk forget its copy of a topic's state."""
        if name not in self.copied:
            return []
        self.copied.discard(name)
        return [ForgetCopy(name)]

    def forget_progress(self, name: str) -> None:
        """Forget what is kept of a topic."""
        self._commit.take([ForgetProgress(name)])

    def when_left(self, name: str, incarnation: str, then: Callable[[], object]) -> None:
        """Call `then` as soon as every subscriber's master has what the topic put out here."""
        if origins := self._spool.of(history_of(f"topic/{name}", incarnation)):
            self._leaving.append((origins, then))
        else:
            then()

    def left(self, origin: Origin) -> None:
        """Every subscriber's master has this one."""
        for each in list(self._leaving):
            origins, then = each
            origins.discard(origin)
            if not origins:
                self._leaving.remove(each)
                then()

    def when_kept(self, then: Callable[[], object]) -> None:
        """Call `then` once everything taken so far is on stable storage."""
        self._commit.after_commit(_Released((), then))

    def _are_released(self, instruction: _Released) -> None:
        self._released += instruction.notifications
        instruction.then()
