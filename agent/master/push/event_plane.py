"""Event plane: writes the edge nodes' events to stable storage, each once, and then acknowledges
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from agent.alerts.dedup_window import Taken
from agent.alerts.event_state import EventState, NodeHome, SaveNodeState
from agent.master.push.push_plane import MAX_BROUGHT
from agent.master.recording.records import Records
from agent.overlay.round_robin_queue import Flow, RoundRobinQueue
from agent.runtime.reactor import Reactor
from agent.runtime.token_bucket import TokenBuckets
from agent.scheduling.events import ANYONE, Peer, SendToNode, TellOperator
from agent.scheduling.tasks.node_claims import QUIET_S, EventClaims
from agent.wire.node_messages import EventsTaken, NodeEvent, NodeEvents
from agent.wire.operator import NodeStatus
from agent.wire.principals import Sender
from agent.wire.records import NodeEventRecord

# Events that arrive within this time are written together.
GATHER_S: Final = 0.1
# Size of a batch, and of the next one that is gathered meanwhile, in as many messages.
MAX_GATHERED: Final = 1_024
# Events that wait for a batch: nodes are served in turn, so that one that sends without end holds
# up no other's alerts. One node may have as many as are left free, and this many under way; one
# that keeps to the protocol has 192 at most without an acknowledgement.
MAX_WAITING: Final = 4 * MAX_GATHERED
MAX_OF_ONE: Final = 512
# Events of one node: so many at once, which is what it keeps twice, and so many a second. More push
# the other records of this master out of its files, for ever. A long one counts as several.
BURST: Final = 20_000.0
RATE_PER_S: Final = 100.0
LONG: Final = 256  # characters
# Messages of one node that are held while its home moves; a node sends no more without an
# acknowledgement.
MAX_HELD: Final = 256
# After the disk refused.
AGAIN_S: Final = 1.0

Key = tuple[str, str, int]
NodeOn = Callable[[Peer, str], str | None]


class Alerts(Protocol):
    """Publisher of the trigger events."""

    def bring(self, node: str, message: NodeEvents) -> bool:
        """Publish the events; False if that is impossible now."""

    @property
    def under_way(self) -> int:
        """How many turns it takes to publish the rest of the events passed to `bring`."""

    def keep(self, then: Callable[[bool], object], changes: Sequence[SaveNodeState] = ()) -> None:
        """Put what was published, and these changes, on stable storage in one transaction; `then`
        gets whether all of it is there. What is refused is tried again."""

    def spooled_of(self, node: str, histories: Iterable[str]) -> dict[str, Taken]:
        """The events of these histories of a node that are alerts and were spooled here."""

    def adopt(self, node: str, spooled: Mapping[str, Taken]) -> list[Any]:
        """Another master spooled these. Returns the changes to write."""


class _Arrived(NamedTuple):
    """A message with events of a node; who sent it awaits the acknowledgement."""

    peer: Peer
    node: str
    message: NodeEvents


class _Batch:
    """A batch on its way to the disk: records, by event, and the messages that contained them."""

    __slots__ = ("arrived", "of_node", "records")

    def __init__(self) -> None:
        self.records: dict[Key, NodeEventRecord] = {}
        self.arrived: list[_Arrived] = []
        self.of_node: Counter[str] = Counter()  # how many events

    def full(self) -> bool:
        return max(len(self.records), len(self.arrived)) >= MAX_GATHERED


class EventPlane:
    """Writes the nodes' events to the records, then what follows from them to the store of the
    alerts: which were recorded, open faults, raised triggers. Trigger events are published at once.

    The order is: the record, one transaction of the store, the acknowledgement. A master that is
    killed in between finds in the records what the store lacks; alerts that it lacks come again
    from their node. One batch is in flight at a time, the next is gathered meanwhile, and what has
    no room there waits, by node. Events that the disk refuses, or that are more than may wait, are
    not acknowledged: their node sends them again. `saved` is what the store had at the start.

    `wall` reads the wall clock in seconds since 1970 UTC. `node_on(peer, incarnation)` is the name
    of the node that speaks on a link. Without `takes` the events stay at the nodes: they are not
    acknowledged.
    """

    def __init__(
        self,
        reactor: Reactor,
        iad: str,
        records: Records,
        alerts: Alerts,
        wall: Callable[[], float],
        node_on: NodeOn,
        *,
        saved: Iterable[SaveNodeState] = (),
        takes: bool = True,
    ) -> None:
        self._reactor = reactor
        self._node_on = node_on
        self.takes = takes
        # Whether a node's events are this master's to take.
        self.lives_here: Callable[[str], bool] = lambda _: True
        # By node, as reported with its most recent events: how many wait there, and were dropped.
        self._backlogs: dict[str, tuple[int, int]] = {}
        self._iad = iad
        self._records = records
        self._state = EventState(saved)
        self._claims = EventClaims()
        self._alerts = alerts
        self._wall = wall
        # By node; what counts as bytes are its events.
        self._waiting: RoundRobinQueue[_Arrived] = RoundRobinQueue()
        self._rates = TokenBuckets(BURST, RATE_PER_S)
        self._told = TokenBuckets(1.0, 1.0 / QUIET_S)
        self._gathered = _Batch()
        self._under_way: _Batch | None = None
        self._due: float | None = None
        self._counters = {"node_events": 0, "node_events_repeated": 0, "node_events_refused": 0}
        # By node whose home is on its way: messages that wait, and who waits for what is under way.
        self._held: dict[str, list[tuple[Peer, NodeEvents, Sender]]] = {}
        self._draining: dict[str, Callable[[], object]] = {}
        self._look_s: float | None = None
        if recovered := self._state.recover(records.recent("node_event")):
            alerts.keep(lambda _well: None, recovered)
        reactor.add_timer(self)

    @property
    def counters(self) -> dict[str, int]:
        """Events since the start: written, duplicates of written ones, refused by the disk, and
        such as their node cannot mean."""
        return self._counters | {"node_events_implausible": self._claims.implausible}

    @property
    def state(self) -> EventState:
        """The known state of the nodes' events, such as the triggers that are raised now."""
        return self._state

    def described(self, status: NodeStatus) -> NodeStatus:
        """The node's status with its open faults, raised triggers and backlog."""
        waiting, dropped = self._backlogs.get(status.node, (0, 0))
        return replace(
            status,
            faults=self._state.faults(status.node),
            alerts=self._state.raised(status.node),
            events_waiting=waiting,
            events_dropped=dropped,
        )

    @property
    def next_due(self) -> float | None:
        """When the gathered events are written, on the reactor's clock."""
        # While events are being published, their plane may be due at any time.
        waits = self._alerts.under_way or self._under_way is not None
        parts = (None if waits else self._due, self._look_s)
        return min([due for due in parts if due is not None], default=None)

    def tick(self, now: float) -> None:
        """Write the gathered events, once all of them are published and the batch before is
        written."""
        if self._look_s is not None and self._look_s <= now:
            self._look_s = None
            self._look_drained()
        if self._due is not None and not self._alerts.under_way and self._under_way is None:
            self._settle()
            self._fill(now)

    def arrived(self, peer: Peer, message: NodeEvents, sender: Sender = ANYONE) -> None:
        """Take the events that their sender may mean, if it is a node that has joined."""
        node = self._node_on(peer, message.incarnation)
        if node is None:
            return
        self._backlogs[node] = (message.backlog, message.dropped)
        if (held := self._held.get(node)) is not None:
            if len(held) < MAX_HELD:
                held.append((peer, message, sender))
            return
        if not self.takes or not self.lives_here(node):
            return
        now = self._reactor.clock()
        message, instructions = self._claims.sift(peer, node, message, sender.areas, now)
        self._reactor.perform(instructions)
        if not message.events:
            return
        if self._may_wait(node, len(message.events)) and self._within_rate(node, message, now):
            flow = Flow(node, "", kept=False)
            self._waiting.put(flow, _Arrived(peer, node, message), len(message.events))
            self._fill(now)
        else:
            self._counters["node_events_refused"] += len(message.events)

    def _may_wait(self, node: str, more: int) -> bool:
        batches = [batch for batch in (self._gathered, self._under_way) if batch is not None]
        own = self._waiting.bytes_waiting(node) + sum(batch.of_node[node] for batch in batches)
        left = min(MAX_OF_ONE, MAX_WAITING - self._waiting.bytes - more)
        return own + more <= left

    def _within_rate(self, node: str, message: NodeEvents, now: float) -> bool:
        """Whether the node sends no more than it may; counts these."""
        cost = float(sum(map(_cost_of, message.events)))
        bucket = self._rates.of(node, now)
        if not bucket.wait_s(now, cost):
            bucket.take(cost)
            return True
        if self._told.admits(node, now):
            line = f"node {node} sends more than {RATE_PER_S:g} events a second; more are not taken"
            self._reactor.perform([TellOperator(line)])
        return False

    def _fill(self, now: float) -> None:
        """Gather what waits, in turns of its nodes."""
        while self._waiting and not self._gathered.full() and not self._late(now):
            if self._alerts.under_way >= MAX_BROUGHT:
                # They are taken when this batch has been published, which may be empty: what is
                # published may be of one that was refused.
                self._be_due(now)
                return
            self._gather(self._waiting.pop(), now)

    def _be_due(self, now: float) -> None:
        if self._due is None:
            self._due = now + GATHER_S

    def _gather(self, arrived: _Arrived, now: float) -> None:
        _, node, message = arrived
        if not self._alerts.bring(node, message):
            self._counters["node_events_refused"] += len(message.events)
            return
        self._gathered.of_node[node] += len(message.events)
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
        self._be_due(now)
        if self._gathered.full():
            self._due = now
            self.tick(now)

    def _has(self, key: Key) -> bool:
        batches = (self._gathered, self._under_way)
        gathered = any(batch is not None and key in batch.records for batch in batches)
        return gathered or self._state.knows(*key)

    def _late(self, now: float) -> bool:
        """Whether the gathered events wait for their last turn: more would postpone it for ever."""
        return self._due is not None and self._due <= now and self._alerts.under_way > 0

    # --- a node's home that moves --------------------------------------------------------------

    def hold(self, node: str) -> None:
        """Take no further events of the node; they wait."""
        self._held.setdefault(node, [])

    def drained(self, node: str, then: Callable[[], object]) -> None:
        """Call `then` when what was taken before `hold` is on stable storage."""
        self._draining[node] = then
        self._look_drained()

    def let_go(self, node: str, *, take: bool) -> None:
        """End `hold`: take what waits, or leave it to the node's home, which the node sends it to
        again."""
        self._draining.pop(node, None)
        for each in self._held.pop(node, ()) if take else ():
            self.arrived(*each)
        self._held.pop(node, None)

    def home(self, node: str) -> bytes:
        """This master's state of a node, for another to `adopt`."""
        spooled = self._alerts.spooled_of(node, self._state.histories(node))
        return msgspec.msgpack.encode(self._state.home(node, spooled))

    def adopt(self, node: str, home: NodeHome) -> list[Any]:
        """The node's home comes here. Returns the changes to write."""
        return [*self._alerts.adopt(node, home.spooled), *self._state.adopt(node, home)]

    def leave(self, node: str) -> list[SaveNodeState]:
        """The node's home is elsewhere. Returns the changes to write."""
        self._backlogs.pop(node, None)
        return self._state.leave(node)

    def waiting_at(self, node: str) -> int:
        """How many events wait at a node, as it said last."""
        return self._backlogs.get(node, (0, 0))[0]

    def histories(self, node: str) -> tuple[str, ...]:
        """The histories of a node that are known here."""
        return self._state.histories(node)

    def _look_drained(self) -> None:
        batches = (self._gathered, self._under_way)
        busy = {node for batch in batches if batch is not None for node in batch.of_node}
        waits = self._waiting.waiting
        for node in [node for node in self._draining if node not in busy and not waits(node)]:
            self._alerts.keep(partial(self._drained, node, self._draining[node]))

    def _drained(self, node: str, then: Callable[[], object], well: bool) -> None:
        if self._draining.get(node) is not then:
            return
        if not well:
            self._look_s = self._reactor.clock() + AGAIN_S
            return
        del self._draining[node]
        then()

    # --- step by step, as each is on stable storage --------------------------------------------

    def _settle(self) -> None:
        batch = self._under_way = self._gathered
        self._gathered, self._due = _Batch(), None
        if batch.records:
            self._records.write_through(
                list(batch.records.values()), partial(self._recorded, batch)
            )
        else:
            self._recorded(batch, True)

    def _recorded(self, batch: _Batch, well: bool) -> None:
        if not well:
            self._refuse(batch)
            return
        self._counters["node_events"] += len(batch.records)
        arrived = [(each.node, each.message) for each in batch.arrived]
        changes = self._state.recorded(arrived, list(batch.records.values()))
        self._alerts.keep(partial(self._kept, batch), changes)

    def _kept(self, batch: _Batch, well: bool) -> None:
        self._under_way = None
        # Otherwise the nodes send these again, and are told when the disk has what it refused.
        for each in batch.arrived if well else ():
            message = each.message
            taken = tuple([event.sequence for event in message.events])
            answer = EventsTaken(message.incarnation, message.history, taken)
            self._reactor.perform([SendToNode(each.peer, answer)])
        self._look_drained()

    def _refuse(self, batch: _Batch) -> None:
        """Later events are discarded, too: they may repeat some of these, and would be
        acknowledged."""
        gathered = len(self._gathered.records) + self._waiting.bytes
        self._counters["node_events_refused"] += len(batch.records) + gathered
        self._under_way = None
        self._gathered, self._due = _Batch(), None
        self._waiting.clear()
        self._look_drained()


def _cost_of(event: NodeEvent) -> int:
    return 1 + (len(event.text) + sum(map(len, event.areas))) // LONG
