"""Both ends of a node's events as plain fakes: stores, disk, records and alerts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from agent.alerts.event_state import SaveNodeState
from agent.edge.history.file import HistoryError
from agent.wire.node_messages import NodeEvent, NodeEvents
from agent.wire.records import NodeEventRecord
from tests.master.held_writer import HeldWriter

MAX_EVENTS = 150  # events that the store has room for


class Killed(Exception):
    """The master's process ended here."""


class Store:
    """A history's events, as its contract says."""

    def __init__(self, history: str) -> None:
        self.history = history
        self.events: dict[int, NodeEvent] = {}
        self.dropped = 0
        self.given_up: set[int] = set()
        self.openings = 0
        self.broken = False

    @property
    def count(self) -> int:
        return len(self.events)

    @property
    def oldest(self) -> int | None:
        return min(self.events, default=None)

    def open(self) -> None:
        self.openings += 1
        self.next = self.openings << 32

    def add(self) -> NodeEvent:
        event = NodeEvent(self.next, "fault_began", 0, synchronised=True)
        self.next += 1
        self.events[event.sequence] = event
        while len(self.events) > MAX_EVENTS:
            oldest = min(self.events)
            del self.events[oldest]
            self.given_up.add(oldest)
            self.dropped += 1
        return event

    def is_older_copy(self, settled: int, to: int) -> bool:
        assert to < self.next, "the master knows an event that was not raised yet"
        assert self.oldest is None or settled <= self.oldest, "what is settled waits"
        return False

    def number_anew(self, settled: int, to: int) -> None:
        raise AssertionError("it is no older copy")

    def waiting(self, after: int, most: int) -> list[NodeEvent]:
        self._fail()
        return [self.events[s] for s in sorted(self.events) if s > after][:most]

    def remove(self, sequences: Iterable[int]) -> None:
        self._fail()
        for sequence in sequences:
            self.events.pop(sequence, None)

    def _fail(self) -> None:
        if self.broken:
            raise HistoryError("the card does not answer")


class Card:
    """The node's disk writer: while the card hangs its jobs wait, in order."""

    def __init__(self) -> None:
        self.hangs = False
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any], object]]] = deque()

    def submit(self, job: Callable[[], Any], then: Callable[[Any], object]) -> None:
        self.jobs.append((job, then))
        if not self.hangs:
            self.drain()

    def drain(self) -> None:
        while self.jobs:
            self.do_one()

    def do_one(self) -> None:
        job, then = self.jobs.popleft()
        then(job())


class Disk:
    """The master's records and store of alerts, and where in writing them it is killed."""

    def __init__(self) -> None:
        self.records: list[NodeEventRecord] = []
        self.nodes: dict[tuple[str, str], SaveNodeState] = {}
        self.full = False
        self.alerts: set[tuple[str, int]] = set()
        self.kill_at = ""
        self.writer = HeldWriter()

    def reach(self, where: str) -> None:
        if self.kill_at == where:
            self.kill_at = ""
            raise Killed


class FakeRecords:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def write_through(self, records: list[NodeEventRecord], then: Callable[[bool], Any]) -> None:
        self.disk.writer.submit(partial(self.write, records), then)

    def write(self, records: list[NodeEventRecord]) -> bool:
        self.disk.reach("before the records")
        if self.disk.full:
            return False
        self.disk.records += records
        self.disk.reach("after the records")
        return True

    def recent(self, _kind: str) -> list[bytes]:
        # One call writes into one file, of which the last two are read.
        return [msgspec.json.encode(record) for record in self.disk.records[-2 * MAX_EVENTS :]]


class FakeAlerts:
    """The store of the alerts. Publishes all events, as if each were of a trigger."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.waiting: set[tuple[str, int]] = set()
        self.changes: list[SaveNodeState] = []
        self.refusing = False

    def bring(self, _node: str, message: NodeEvents) -> bool:
        # Between its tries it takes nothing.
        self.refusing = self.refusing and self.disk.full
        if not self.refusing:
            self.waiting |= {(message.history, event.sequence) for event in message.events}
        return not self.refusing

    @property
    def under_way(self) -> int:
        return 0

    def keep(self, then: Callable[[bool], Any], changes: Iterable[SaveNodeState] = ()) -> None:
        published = set(self.waiting)
        self.changes += changes
        changes, self.changes = self.changes, []

        def write() -> bool:
            self.disk.reach("before the store")
            self.refusing = self.disk.full
            if self.refusing:
                # What was refused is tried again, before what came meanwhile.
                self.changes = changes + self.changes
            else:
                self.disk.alerts |= published
                self.disk.nodes |= {(each.kind, each.node): each for each in changes}
            self.disk.reach("after the store")
            return not self.refusing

        self.disk.writer.submit(write, then)

    def try_again(self) -> None:
        if self.changes and not self.disk.writer.jobs:
            self.keep(lambda _well: None)
