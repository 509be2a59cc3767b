"""Event plane: writes the edge nodes' events to stable storage, each once, and then acknowledges
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from agent.alerts.dedup_window import Taken
from agent.alerts.event_dedup import EventLedger
from agent.alerts.open_faults import NodeFaults, OpenFaults
from agent.alerts.raised_triggers import NodeTriggers, RaisedTriggers
from agent.master.records import Records
from agent.master.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.events import Peer, SendToNode
from agent.wire.messages import EventsTaken, NodeEvents
from agent.wire.operator import NodeStatus
from agent.wire.records import NodeEventRecord

# Events that arrive within this time are written together.
GATHER_S: Final = 0.1
# Size of a batch, and of the next one that is gathered meanwhile, in as many messages.
MAX_GATHERED: Final = 1_024
# Kinds of the documents on disk, one per node.
TAKEN: Final = "node_events"
FAULTS: Final = "node_faults"
TRIGGERS: Final = "node_triggers"

Key = tuple[str, str, int]
NodeOn = Callable[[Peer, str], str | None]
T = TypeVar("T")


class Alerts(Protocol):
    """Publisher of the trigger events."""

    def bring(self, node: str, message: NodeEvents) -> bool:
        """Publish the events; False if that is impossible now."""

    @property
    def under_way(self) -> bool:
        """Whether some of the events passed to `bring` are published in later turns."""

    def keep(self, then: Callable[[bool], object]) -> None:
        """Put what was published on stable storage; `then` gets whether it is there."""


class _Arrived(NamedTuple):
    """A message with events of a node; who sent it awaits the acknowledgement."""

    peer: Peer
    node: str
    message: NodeEvents


class _Batch:
    """A batch on its way to the disk: records, by event, and the messages that contained them."""

    __slots__ = ("arrived", "records")

    def __init__(self) -> None:
        self.records: dict[Key, NodeEventRecord] = {}
        self.arrived: list[_Arrived] = []

    def full(self) -> bool:
        return max(len(self.records), len(self.arrived)) >= MAX_GATHERED


class EventPlane:
    """Writes the nodes' events to the records, and keeps in the state which were written, the open
    faults and the raised triggers. Trigger events are published at once.

    The order is: what `alerts` keep, the record, the state, the acknowledgement. A master that is
    killed in between finds in the records what the state lacks. One batch is in flight at a time,
    and the next is gathered meanwhile. Events that the disk refuses, or for which a full batch
    leaves no room, are not acknowledged: their node sends them again.

    `wall` reads the wall clock in seconds since 1970 UTC. `node_on(peer, incarnation)` is the name
    of the node that speaks on a link. Without `takes` the events stay at the nodes: they are not
    acknowledged.
    """

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        records: Records,
        state: State,
        alerts: Alerts,
        wall: Callable[[], float],
        node_on: NodeOn,
        *,
        takes: bool = True,
    ) -> None:
        self._reactor = reactor
        self._node_on = node_on
        self._takes = takes
        # By node, as reported with its most recent events: how many wait there, and were dropped.
        self._backlogs: dict[str, tuple[int, int]] = {}
        self._iad = iad
        self._records = records
        self._state = state
        self._alerts = alerts
        self._wall = wall
        self._ledger = EventLedger()
        self._faults = OpenFaults()
        self._triggers = RaisedTriggers()
        self._gathered = _Batch()
        self._under_way: _Batch | None = None
        self._due: float | None = None
        self._counters = {"node_events": 0, "node_events_repeated": 0, "node_events_refused": 0}
        self._restore()
        reactor.add_timer(self)

    @property
    def counters(self) -> dict[str, int]:
        """Events since the start: written, duplicates of written ones, and refused by the disk."""
        return dict(self._counters)

    def described(self, status: NodeStatus) -> NodeStatus:
        """The node's status with its open faults, raised triggers and backlog."""
        waiting, dropped = self._backlogs.get(status.node, (0, 0))
        return replace(
            status,
            faults=self._faults.open(status.node),
            alerts=self._triggers.open(status.node),
            events_waiting=waiting,
            events_dropped=dropped,
        )

    @property
    def next_due(self) -> float | None:
        """When the gathered events are written, on the reactor's clock."""
        # While events are being published, their plane may be due at any time.
        waits = self._alerts.under_way or self._under_way is not None
        return None if waits else self._due

    def tick(self, _now: float) -> None:
        """Write the gathered events, once all of them are published and the batch before is
        written."""
        if self._due is not None and not self._alerts.under_way and self._under_way is None:
            self._settle()

    def arrived(self, peer: Peer, message: NodeEvents) -> None:
        """Take the events, unless their sender is no node that has joined."""
        node = self._node_on(peer, message.incarnation)
        if node is not None:
            self._backlogs[node] = (message.backlog, message.dropped)
            if self._takes:
                self._gather(_Arrived(peer, node, message))

    def _gather(self, arrived: _Arrived) -> None:
        now = self._reactor.clock()
        _, node, message = arrived
        if self._gathered.full() or self._late(now) or not self._alerts.bring(node, message):
            self._counters["node_events_refused"] += len(message.events)
            return
        for event in message.events:
            key = (node, message.history, event.sequence)
            if self._has(key):
                self._counters["node_events_repeated"] += 1
                continue
            self._gathered.records[key] = NodeEventRecord(
                iad=self._iad,
                wall_ms=round(self._wall() * 1e3),
                start_s=now,
                node=node,
                history=message.history,
                sequence=event.sequence,
                kind=event.kind,
                time_ms=event.time_ms,
                synchronised=event.synchronised,
                sensor=event.sensor,
                channel=event.channel,
                text=event.text,
                trigger=event.trigger,
                value=event.value,
                areas=event.areas,
            )
        self._gathered.arrived.append(arrived)
        if self._due is None:
            self._due = now + GATHER_S
        if self._gathered.full():
            self._due = now
            self.tick(now)

    def _has(self, key: Key) -> bool:
        batches = (self._gathered, self._under_way)
        gathered = any(batch is not None and key in batch.records for batch in batches)
        return gathered or self._ledger.knows(*key)

    def _late(self, now: float) -> bool:
        """Whether the gathered events wait for their last turn: accepting more would postpone it
        for ever."""
        return self._due is not None and self._due <= now and self._alerts.under_way

    # --- step by step, as each is on stable storage --------------------------------------------

    def _settle(self) -> None:
        batch = self._under_way = self._gathered
        self._gathered, self._due = _Batch(), None
        self._alerts.keep(partial(self._published, batch))

    def _published(self, batch: _Batch, well: bool) -> None:
        if well and batch.records:
            self._records.write_through(
                list(batch.records.values()), partial(self._recorded, batch)
            )
        else:
            self._recorded(batch, well)

    def _recorded(self, batch: _Batch, well: bool) -> None:
        if not well:
            self._refuse(batch)
            return
        self._counters["node_events"] += len(batch.records)
        for each in batch.arrived:
            message = each.message
            sequences = [event.sequence for event in message.events]
            self._ledger.take(each.node, message.history, sequences, message.oldest)
        self._save({each.node for each in batch.arrived}, list(batch.records.values()))
        self._state.when_durable(partial(self._acknowledge, batch))

    def _acknowledge(self, batch: _Batch) -> None:
        self._under_way = None
        for each in batch.arrived:
            message = each.message
            taken = tuple([event.sequence for event in message.events])
            answer = EventsTaken(message.incarnation, message.history, taken)
            self._reactor.perform([SendToNode(each.peer, answer)])

    def _refuse(self, batch: _Batch) -> None:
        """Later events are discarded, too: they may repeat some of these, and would be
        acknowledged."""
        self._counters["node_events_refused"] += len(batch.records) + len(self._gathered.records)
        self._under_way = None
        self._gathered, self._due = _Batch(), None

    # --- on disk -------------------------------------------------------------------------------

    def _save(self, nodes: set[str], records: list[NodeEventRecord]) -> None:
        for node in nodes:
            self._state.put(TAKEN, node, msgspec.msgpack.encode(self._ledger.of(node)))
        for node in self._faults.take(records):
            self._state.put(FAULTS, node, msgspec.msgpack.encode(self._faults.of(node)))
        for node in self._triggers.take(records):
            self._state.put(TRIGGERS, node, msgspec.msgpack.encode(self._triggers.of(node)))

    def _restore(self) -> None:
        for node, taken in self._kept(TAKEN, dict[str, Taken]):
            self._ledger.restore(node, taken)
        for node, faults in self._kept(FAULTS, NodeFaults):
            self._faults.restore(node, faults)
        for node, triggers in self._kept(TRIGGERS, NodeTriggers):
            self._triggers.restore(node, triggers)
        found = []
        for line in self._records.recent("node_event"):
            try:
                record = msgspec.json.decode(line, type=NodeEventRecord)
            except msgspec.MsgspecError:
                continue  # a line truncated by a crash
            if not self._ledger.knows(record.node, record.history, record.sequence):
                self._ledger.take(record.node, record.history, [record.sequence], oldest=0)
                found.append(record)
        self._save({record.node for record in found}, found)
        self._state.flush()

    def _kept(self, kind: str, of: type[T]) -> Iterator[tuple[str, T]]:
        for node, body in self._state.all(kind).items():
            # Otherwise it was written by a later version.
            with suppress(msgspec.MsgspecError):
                yield node, msgspec.msgpack.decode(body, type=of)
