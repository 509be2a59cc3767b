"""Store and forward, both ends: a node's store, outbox and link, and the master's scheduler, event
plane, records and store of alerts, in virtual time under everything that may happen to them.

Messages of events are lost, repeated, held up and reordered; the network is cut; either end is
killed at any point, the master between any two writes; disks refuse. The stores and the records
are plain fakes that keep what was said to be on stable storage and nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.edge import link as links
from agent.edge.events import outbox as o
from agent.edge.events.forwarding import Forwarding
from agent.master.push.event_plane import EventPlane
from agent.runtime.reactor import Reactor
from agent.scheduling.events import (
    NodeAlive,
    NodeHeard,
    NodeJoined,
    NodeLeft,
    SendToNode,
    TellOperator,
    Tick,
)
from agent.scheduling.tasks.deadlines import DeadlineEstimator
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.node_messages import (
    EventsTaken,
    Goodbye,
    Heartbeat,
    Hello,
    MasterMessage,
    NodeEvent,
    NodeEvents,
)
from tests.examples import examples
from tests.master.event_ends import MAX_EVENTS, Card, Disk, FakeAlerts, FakeRecords, Killed, Store
from tests.master.held_writer import HeldWriter

RATE_PER_S = 10.0
BATCH = 5


MISHAPS: dict[str, Callable[[StoreAndForward], Any]] = {
    "messages to the master are lost": lambda self: self.to_master.clear(),
    "messages to the node are lost": lambda self: self.to_node.clear(),
    "the network is cut": lambda self: setattr(self, "up", False),
    "the node is killed": lambda self: self.start_node(),
    "its history is put aside": lambda self: self.put_the_history_aside(),
    "its card does not answer": lambda self: setattr(self.store, "broken", True),
    "its card hangs": lambda self: setattr(self.card, "hangs", True),
    "the master is killed": lambda self: self.start_master(),
    "the master's disk is full": lambda self: setattr(self.disk, "full", True),
    "the master's disk is slow": lambda self: setattr(self.disk.writer, "slow", True),
} | {
    f"the master will be killed {where}": lambda self, at=where: setattr(self.disk, "kill_at", at)
    for where in ("before the records", "after the records", "before the store", "after the store")
}


class StoreAndForward(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.up = True  # the network
        self.to_master: list[tuple[int, NodeEvents]] = []
        self.to_node: list[EventsTaken] = []
        self.answers: deque[MasterMessage] = deque()  # about the link; they come at once
        self.connection = 0
        self.incarnation = 0
        self.raised: dict[tuple[str, int], NodeEvent] = {}
        self.gone: set[tuple[str, int]] = set()  # with a history that was put aside
        self.backlog_sent: list[tuple[float, int]] = []
        self.store = Store("h0")
        self.card = Card()
        self.disk = Disk()
        self.start_master()
        self.start_node()

    # --- the master ---

    def start_master(self) -> None:
        self.disk.kill_at = ""
        # What was not written yet never is.
        self.disk.writer = HeldWriter(slow=self.disk.writer.slow)
        reactor = Reactor(lambda: self.now)
        reactor.performs(SendToNode, self.from_master)
        # A history that was put aside, while the process before is still believed alive.
        reactor.performs(TellOperator, lambda _: None)
        records: Any = FakeRecords(self.disk)
        self.alerts = FakeAlerts(self.disk)
        self.scheduler = TaskScheduler("iad1", DeadlineEstimator(), takes_events=True)
        self.plane = EventPlane(
            reactor,
            "iad1",
            records,
            self.alerts,
            lambda: self.now,
            self.scheduler.node_on,
            saved=self.disk.nodes.values(),
        )
        self.scheduler.ask_events(self.plane.state.extent)
        self.reactor = reactor

    def master(self, event: Any) -> None:
        try:
            self.reactor.perform(self.scheduler.handle(event, self.now))
        except Killed:
            self.start_master()

    def events_arrive(self, connection: int, message: NodeEvents) -> None:
        """As the task plane does it."""
        try:
            self.plane.arrived(connection, message)
        except Killed:
            self.start_master()
        self.master(NodeHeard(connection, message.incarnation))

    def from_master(self, instruction: SendToNode) -> None:
        if isinstance(taken := instruction.message, EventsTaken):
            assert self.disk.alerts.issuperset((taken.history, each) for each in taken.sequences)
            self.to_node.append(taken)
        elif self.up and instruction.peer == self.connection:
            self.answers.append(instruction.message)

    # --- the node ---

    def start_node(self) -> None:
        self.store.open()
        # What the process before had under way is gone with it.
        self.card = Card()
        self.incarnation += 1
        self.socket_open = False
        name = f"start {self.incarnation}"
        hello = Hello("n1", name, self.store.history, ("b1/r1",), ("temperature",), 1, "1.0")
        self.link = links.Link(hello, first_pause_s=0.2, longest_pause_s=5.0, jitter=lambda: 0.5)
        self.forwarding = Forwarding(
            self.store,
            lambda: self.store.history,
            name,
            backlog_per_s=RATE_PER_S,
            send=self.send_events,
            complain=lambda _: None,
            disk=self.card,
            clock=lambda: self.now,
        )
        self.node(links.Start())

    def node(self, event: links.Event) -> None:
        self.decide(event)
        while self.answers:
            answer = self.answers.popleft()
            if self.socket_open:
                self.decide(answer)

    def decide(self, event: links.Event) -> None:
        for instruction in self.link.handle(event, self.now):
            match instruction:
                case links.Open():
                    self.connection += 1
                    self.socket_open = True
                    self.answers.clear()
                case links.Close():
                    self.socket_open = False
                case links.Send(message):
                    self.send(message)
                case o.Joined() | o.Cut() | o.Taken():
                    self.forwarding.handle(instruction, self.now)

    def send(self, message: Any) -> None:
        if not self.up:
            return
        match message:
            case Hello():
                self.master(NodeJoined(self.connection, message))
            case Heartbeat():
                self.master(NodeAlive(self.connection, message.incarnation, message.running))
            case Goodbye():
                self.master(NodeLeft(self.connection, message.incarnation))

    def send_events(self, message: NodeEvents) -> None:
        assert self.link.state is links.State.JOINED
        sequences = {event.sequence for event in message.events}
        live = sequences & self.forwarding._outbox._live.keys()
        assert live in (set(), sequences), "live ones and the backlog in one message"
        if not live:
            self.note_backlog(len(sequences))
        assert message.dropped == self.store.dropped
        if self.up:
            self.to_master.append((self.connection, message))

    def note_backlog(self, count: int) -> None:
        """In any t seconds at most rate · t events and a batch."""
        self.backlog_sent.append((self.now, count))
        total = 0
        for at, events in reversed(self.backlog_sent):
            total += events
            assert total <= RATE_PER_S * (self.now - at) + BATCH + 1e-6

    # --- what happens ---

    @rule(count=st.sampled_from([1, 1, 1, 2, 7, o.MAX_LIVE + 5, MAX_EVENTS + 10]))
    def raise_events(self, count: int) -> None:
        events = [self.store.add() for _ in range(count)]
        self.raised |= {(self.store.history, event.sequence): event for event in events}
        before, under_way = len(self.to_master), len(self.forwarding._outbox._live)
        self.forwarding.handle(o.Raised(tuple(events)), self.now)
        if self.link.state is not links.State.JOINED or self.store.broken or not self.up:
            return
        if under_way + count <= o.MAX_LIVE:
            ((_, message),) = self.to_master[before:]
            assert message.events == tuple(events), "a live event waits"

    @rule(seconds=st.sampled_from([0.05, 0.1, 0.4, 1.0, 2.5, 12.0]))
    def let_time_pass(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = min(
                self.link.wake_at,
                self.forwarding.wake_at,
                self.plane.next_due or float("inf"),
                self.scheduler.next_tick or float("inf"),
            )
            if due > end:
                break
            self.now = max(self.now, due)
            self.tick_all()
        self.now = end

    def tick_all(self) -> None:
        if self.link.wake_at <= self.now:
            self.node(links.Tick())
        if self.forwarding.wake_at <= self.now:
            self.forwarding.handle(o.Tick(), self.now)
        if (self.scheduler.next_tick or float("inf")) <= self.now:
            self.master(Tick())
        if (self.plane.next_due or float("inf")) <= self.now:
            try:
                self.plane.tick(self.now)
            except Killed:
                self.start_master()

    @rule(data=st.data(), again=st.booleans())
    @precondition(lambda self: self.to_master)
    def a_message_reaches_the_master(self, data: st.DataObject, again: bool) -> None:
        i = data.draw(st.integers(0, len(self.to_master) - 1))
        connection, message = self.to_master[i] if again else self.to_master.pop(i)
        self.events_arrive(connection, message)

    @rule(data=st.data(), again=st.booleans())
    @precondition(lambda self: self.to_node and self.socket_open)
    def a_message_reaches_the_node(self, data: st.DataObject, again: bool) -> None:
        i = data.draw(st.integers(0, len(self.to_node) - 1))
        self.node(self.to_node[i] if again else self.to_node.pop(i))

    @rule()
    def all_messages_arrive_in_order(self) -> None:
        self.deliver()

    def deliver(self) -> None:
        while self.to_master or (self.to_node and self.socket_open):
            for connection, message in self.take(self.to_master):
                self.events_arrive(connection, message)
            if self.socket_open:
                for taken in self.take(self.to_node):
                    self.node(taken)

    @staticmethod
    def take(messages: list[Any]) -> list[Any]:
        taken, messages[:] = list(messages), []
        return taken

    @rule(raised=st.integers(1, 12))
    def an_outage_ends(self, raised: int) -> None:
        self.up = False
        self.let_time_pass(5.0)
        self.raise_events(raised)
        self.up = True
        while self.link.state is not links.State.JOINED:
            self.let_time_pass(0.1)

    @rule(name=st.sampled_from(sorted(MISHAPS)))
    def something_goes_wrong(self, name: str) -> None:
        MISHAPS[name](self)

    @rule(jobs=st.sampled_from([1, 2, 100]))
    @precondition(lambda self: self.disk.writer.jobs)
    def the_masters_disk_works(self, jobs: int) -> None:
        try:
            for _ in range(min(jobs, len(self.disk.writer.jobs))):
                self.disk.writer.do()
        except Killed:
            self.start_master()

    @rule()
    @precondition(lambda self: self.card.jobs)
    def the_card_does_one_thing(self) -> None:
        self.card.do_one()

    @rule()
    def all_is_well_again(self) -> None:
        self.up, self.disk.full, self.store.broken, self.card.hangs = True, False, False, False
        self.disk.writer.slow = False
        self.card.drain()
        try:
            self.disk.writer.drain()
            self.alerts.try_again()
        except Killed:
            self.start_master()

    def put_the_history_aside(self) -> None:
        self.gone |= {(self.store.history, sequence) for sequence in self.store.events}
        self.gone |= {(self.store.history, sequence) for sequence in self.store.given_up}
        self.store = Store(f"h{self.incarnation}")
        self.start_node()

    # --- what holds ---

    @property
    def recorded(self) -> list[tuple[str, int]]:
        return [(record.history, record.sequence) for record in self.disk.records]

    @invariant()
    def each_is_recorded_once(self) -> None:
        recorded = self.recorded
        assert len(set(recorded)) == len(recorded)

    @invariant()
    def what_left_the_store_is_recorded_or_counted(self) -> None:
        kept = {(self.store.history, sequence) for sequence in self.store.events}
        given_up = {(self.store.history, sequence) for sequence in self.store.given_up}
        assert len(given_up) == self.store.dropped
        assert self.raised.keys() <= kept | given_up | self.gone | set(self.recorded)

    def teardown(self) -> None:
        """When all is well again everything gets through."""
        self.disk.kill_at = ""
        self.all_is_well_again()
        for _ in range(400):
            self.let_time_pass(0.2)
            self.deliver()
        self.each_is_recorded_once()
        self.what_left_the_store_is_recorded_or_counted()
        assert self.store.count == 0 or self.link.state is links.State.NEW


StoreAndForward.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)
TestStoreAndForward = StoreAndForward.TestCase
