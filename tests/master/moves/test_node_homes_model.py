"""A node's home that moves, in virtual time: the node, two masters with their handover planes, and
everything that may happen to them. Every alert is published by one of the masters, every event
recorded once, by one of them."""

from __future__ import annotations

import random
from collections import deque
from functools import partial

import msgspec
import pytest

from agent.alerts import spool_events as s
from agent.alerts.event_state import SaveNodeState
from agent.alerts.notifications import NUMBERS, alerts_of, history_of
from agent.alerts.spool import Spool
from agent.edge import link as links
from agent.edge.events import outbox as o
from agent.edge.events.forwarding import Forwarding
from agent.master.moves.handover_plane import HandoverPlane
from agent.master.moves.home_plane import HomePlane
from agent.master.moves.node_homes import NodeHomes
from agent.master.push.event_plane import EventPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.placement.handover.unit_records import ForgetUnit, SaveUnit
from agent.placement.world import PlacementError, Unit
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
from agent.wire.codec import Decoder
from agent.wire.node_messages import EventsTaken, Goodbye, Heartbeat, Hello, NodeEvent, NodeEvents
from agent.wire.operator import NodeAlert
from agent.wire.principals import Sender
from agent.wire.unions import PublicRequest
from tests.examples import lives, share
from tests.master.event_ends import Card, Killed, Store
from tests.master.held_writer import HeldWriter
from tests.master.home_master import HomeMaster

UNIT = Unit("home", "node/n1")
IADS = ("a", "b")
FOREVER = float("inf")


class Alarms(Store):
    """A node's events: a trigger is raised, and cleared."""

    def add(self) -> NodeEvent:
        kind = ("trigger_raised", "trigger_cleared")[self.next % 2]
        event = NodeEvent(self.next, kind, 0, True, "dht", "temperature", "", "hot", 31.0)
        self.next += 1
        self.events[event.sequence] = event
        return event


class Disk:
    """What survives at a master, and where in writing it the master is killed."""

    def __init__(self):
        self.records = []
        self.nodes, self.taken, self.spooled, self.units = {}, {}, {}, {}
        self.writer = HeldWriter()
        self.kill_at = ""

    def reach(self, where):
        if self.kill_at == where:
            self.kill_at = ""
            raise Killed

    def put(self, change):
        match change:
            case SaveNodeState(kind, node):
                self.nodes[kind, node] = change
            case s.SaveTaken(node, history, taken):
                self.taken.pop((node, history), None)
                self.taken[node, history] = taken
            case s.ForgetTaken(node, history):
                self.taken.pop((node, history), None)
            case s.StoreSpooled(number, body):
                self.spooled[number] = body
            case s.ForgetSpooled(number):
                self.spooled.pop(number, None)
            case SaveUnit(record):
                self.units[record.unit] = record
            case ForgetUnit(unit):
                self.units.pop(unit, None)
            case _:
                raise NotImplementedError(change)


class Alerts:
    """The store of the alerts: a spool, and transactions in order."""

    refusing = under_way = False

    def __init__(self, master):
        self.master, self.disk = master, master.disk
        self.spool = Spool()
        disk = self.disk
        taken = tuple((node, history, each) for (node, history), each in disk.taken.items())
        self.spool.restore(s.SavedSpool(tuple(disk.spooled.items()), taken), master.world.now)
        self.changes = []

    def has(self, event):
        for each in self.spool.handle(event, self.master.world.now):
            match each:
                case s.PublishSpooled(notification):
                    self.master.world.published.add(notification.origin)
                case s.Accepted():
                    pass
                case _:
                    self.changes.append(each)

    def bring(self, node, message):
        alerts = alerts_of(self.master.iad, node, message)
        if alerts:
            self.has(s.Brought(None, node, message.history, message.oldest, alerts))
        return True

    def spooled_of(self, node, histories):
        return self.spool.taken_of(node, histories)

    def adopt(self, node, spooled):
        return self.spool.adopt(node, spooled)

    def has_alerts_of(self, node, histories):
        return self.spool.has_of({history_of(node, each) for each in histories})

    def settle_some(self):
        for origin in list(self.spool._spooled):
            self.has(s.Settled(origin))

    def keep(self, then, changes=()):
        self.changes += changes
        written, self.changes = self.changes, []

        def write():
            self.disk.reach("before the store")
            for change in written:
                self.disk.put(change)
            self.disk.reach("after the store")
            return True

        self.disk.writer.submit(write, then)

    def write(self, changes, then):
        self.keep(lambda _well: then(), changes)


class Records:
    def __init__(self, disk):
        self.disk = disk

    def write_through(self, records, then):
        def write():
            self.disk.reach("before the records")
            self.disk.records += records
            self.disk.reach("after the records")
            return True

        self.disk.writer.submit(write, then)

    def recent(self, _kind):
        return [msgspec.json.encode(record) for record in self.disk.records]


class Master(HomeMaster):
    def __init__(self, world, iad):
        self.world, self.iad = world, iad
        self.disk = Disk()
        self.start()

    # life
    def start(self):
        world = self.world
        self.disk.kill_at = ""
        self.disk.writer = HeldWriter(slow=self.disk.writer.slow)
        self.handlers = {}
        self.reactor = Reactor(lambda: world.now)
        self.reactor.performs(SendToNode, self.tell_node)
        self.reactor.performs(TellOperator, lambda told: world.told.append(told.line))
        self.alerts = Alerts(self)
        self.scheduler = TaskScheduler(self.iad, DeadlineEstimator(), takes_events=True)
        self.events = EventPlane(
            self.reactor, self.iad, Records(self.disk), self.alerts, lambda: world.now,
            self.scheduler.node_on, saved=self.disk.nodes.values(),
        )  # fmt: skip
        self.scheduler.ask_events(self.events.state.extent)
        self.nodes = NodeHomes(self.reactor, self.iad, self.scheduler, self.events, self.alerts)
        homes = HomePlane(self.nodes)
        kept = list(self.disk.units.values())
        self.plane = HandoverPlane(
            self.reactor, self.iad, self, self, self, self.alerts, [homes], kept,
            partners=[each for each in IADS if each != self.iad], wall=lambda: world.now,
            say=world.told.append,
        )  # fmt: skip
        world.up.discard(self.iad)
        world.up.add(self.iad)

    def kill(self):
        self.world.lose(self.iad)
        self.start()

    def handle(self, event):
        self.reactor.perform(self.scheduler.handle(event, self.world.now))

    def hears(self, connection, message):
        match message:
            case Hello():
                self.handle(NodeJoined(connection, message))
            case Heartbeat():
                self.handle(NodeAlive(connection, message.incarnation, message.running))
            case Goodbye():
                self.handle(NodeLeft(connection, message.incarnation))
            case NodeEvents():
                self.events.arrived(connection, message)
                self.handle(NodeHeard(connection, message.incarnation))

    def tell_node(self, instruction):
        if isinstance(taken := instruction.message, EventsTaken):
            # On stable storage, here or where the node lived before.
            known = self.events._state
            assert all(known.knows("n1", taken.history, each) for each in taken.sequences)
        self.world.to_node.append((self.iad, instruction.peer, instruction.message))

    @property
    def next_due(self):
        parts = (
            self.events.next_due,
            self.scheduler.next_tick,
            self.nodes.next_due,
            self.plane.next_due,
            self.alerts.spool.next_tick,
        )
        return min((each for each in parts if each is not None), default=FOREVER)

    def tick(self):
        now = self.world.now
        if (self.scheduler.next_tick or FOREVER) <= now:
            self.handle(Tick())
        for part in (self.events, self.nodes, self.plane):
            if part.next_due is not None and part.next_due <= now:
                part.tick(now)
        if (self.alerts.spool.next_tick or FOREVER) <= now:
            self.alerts.has(s.SpoolDue())


class World:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = 0.0
        self.published, self.raised, self.told = set(), {}, []
        self.up = set()
        self.between = deque()
        self.to_node, self.to_master = deque(), deque()
        self.connection, self.endpoint = 0, ""
        self.decoder = Decoder(PublicRequest)
        self.kept_home = "a"
        self.starts = 0
        self.moves = 0
        self.masters = {iad: Master(self, iad) for iad in IADS}
        self.store = Alarms("h0")
        self.start_node()

    # --- the node ---

    def start_node(self):
        self.store.open()
        self.starts += 1
        self.endpoint = ""
        self.hang_up()
        hello = Hello(
            "n1", f"start {self.starts}", self.store.history, ("b1/r1",), ("temperature",), 1,
            "1.0", masters=IADS,
        )  # fmt: skip
        self.link = links.Link(
            hello, first_pause_s=0.2, longest_pause_s=5.0, jitter=lambda: 0.5, home=self.kept_home
        )
        self.socket_open = False
        self.using = self.kept_home
        self.forwarding = Forwarding(
            self.store, lambda: self.store.history, hello.incarnation, backlog_per_s=20.0,
            send=lambda message: self.to_master.append((self.using, self.connection, message)),
            complain=lambda _: None, disk=Card(), clock=lambda: self.now,
        )  # fmt: skip
        self.node(links.Start())

    def node(self, event):
        for instruction in self.link.handle(event, self.now):
            match instruction:
                case links.UseMaster(iad, home):
                    self.using = iad
                    if home:
                        self.kept_home = iad
                case links.Open():
                    self.connection += 1
                    self.socket_open = True
                case links.Close():
                    self.socket_open = False
                case links.Send(message):
                    self.to_master.append((self.using, self.connection, message))
                case o.Joined() | o.Cut() | o.Taken():
                    self.forwarding.handle(instruction, self.now)

    def hang_up(self):
        """All that is on its way between the node and masters is lost."""
        self.to_node.clear()
        self.to_master.clear()

    def lose(self, iad):
        """A master's process ended."""
        self.between = deque(each for each in self.between if iad not in each[:2])
        for queue in (self.to_node, self.to_master):
            kept = [each for each in queue if each[0] != iad]
            queue.clear()
            queue.extend(kept)

    # --- what happens ---

    def raise_events(self):
        events = tuple(self.store.add() for _ in range(self.random.choice([1, 1, 1, 2, 9])))
        self.raised |= {(self.store.history, each.sequence): each for each in events}
        self.forwarding.handle(o.Raised(events), self.now)

    def deliver(self):
        queues = [each for each in (self.between, self.to_node, self.to_master) if each]
        if not queues:
            return False
        queue = self.random.choice(queues)
        if queue is self.between:
            source, to, frame = queue.popleft()
            message, _ = self.decoder.decode(frame)
            origin = RequestOrigin(source.encode(), b"M", Sender("iad", source))
            master = self.masters[to]
            master.do(partial(master.handlers[type(message)], origin, message, self.now))
        elif queue is self.to_node:
            _, connection, message = queue.popleft()
            if connection == self.connection and self.socket_open:
                self.node(message)
        else:
            iad, connection, message = queue.popleft()
            master = self.masters[iad]
            master.do(partial(master.hears, connection, message))
        return True

    def pass_time(self, seconds):
        end = self.now + seconds
        while True:
            dues = [master.next_due for master in self.masters.values()]
            due = min(self.link.wake_at, self.forwarding.wake_at, *dues)
            if due > end:
                break
            self.now = max(self.now, due)
            if self.link.wake_at <= self.now:
                self.node(links.Tick())
            if self.forwarding.wake_at <= self.now:
                self.forwarding.handle(o.Tick(), self.now)
            for master in self.masters.values():
                if master.next_due <= self.now:
                    master.do(master.tick)
            if self.random.random() < 0.7:
                self.deliver()
        self.now = end

    def move(self):
        for iad, master in self.masters.items():
            if master.nodes.lives("n1"):
                to = next(each for each in IADS if each != iad)
                try:
                    master.do(partial(master.plane.begin, UNIT, to, "plan"))
                except PlacementError:
                    continue

    def mishap(self):
        master = self.masters[self.random.choice(IADS)]
        where = self.random.choice(
            ["before the records", "after the records", "before the store", "after the store"]
        )
        self.random.choice(
            [
                self.hang_up,
                self.start_node,
                master.kill,
                lambda: setattr(master.disk, "kill_at", where),
                lambda: setattr(master.disk, "kill_at", where),
                lambda: setattr(master.disk.writer, "slow", True),
                lambda: self.between and self.between.popleft(),
            ]
        )()

    def write(self):
        for master in self.masters.values():
            if master.disk.writer.jobs:
                master.do(master.disk.writer.do)

    def run(self, steps):
        for _ in range(steps):
            r = self.random.random()
            if r < 0.12:
                self.raise_events()
            elif r < 0.65:
                self.deliver()
            elif r < 0.85:
                self.pass_time(self.random.choice([0.02, 0.1, 0.5, 2.0, 6.0]))
            elif r < 0.91:
                self.write()
            elif r < 0.96:
                self.move()
            elif r < 0.975:
                self.mishap()
            else:
                master = self.masters[self.random.choice(IADS)]
                master.do(master.alerts.settle_some)
        self.heal()

    def heal(self):
        for master in self.masters.values():
            master.disk.kill_at = ""
            master.disk.writer.slow = False
            master.do(master.disk.writer.drain)
        for _ in range(2_000):
            while self.deliver():
                pass
            self.pass_time(0.5)
            for master in self.masters.values():
                master.alerts.settle_some()
            moving = any(master.plane.moving(UNIT) for master in self.masters.values())
            joined = self.link.state is links.State.JOINED and self.homes == [self.link.master]
            if not self.store.events and not moving and joined:
                break
        assert not self.store.events, "events wait for ever"

    # --- what must hold ---

    @property
    def homes(self):
        return [iad for iad, master in self.masters.items() if master.nodes.lives("n1")]

    def check(self):
        pseudonym = history_of("n1", self.store.history)
        by_event = {}
        for origin in self.published:
            assert origin.history == pseudonym
            by_event.setdefault(origin.sequence // NUMBERS, set()).add(origin)
        assert by_event.keys() == {sequence for _, sequence in self.raised}, "an alert is lost"
        assert all(len(each) == 1 for each in by_event.values()), "an alert is published twice"
        recorded = [
            (record.history, record.sequence)
            for master in self.masters.values()
            for record in master.disk.records
        ]
        assert len(recorded) == len(set(recorded)), "an event is recorded twice"
        assert set(recorded) == set(self.raised), "an event is lost"
        homes = self.homes
        assert homes == [self.link.master]
        last = max(sequence for _, sequence in self.raised)
        raised = self.raised[self.store.history, last].kind == "trigger_raised"
        for iad, master in self.masters.items():
            alerts: tuple[NodeAlert, ...] = master.events._state.raised("n1")
            assert [each.trigger for each in alerts] == (["hot"] if raised and iad in homes else [])
        self.moves = sum(len(m.disk.units) for m in self.masters.values())


def life(seed: int) -> bool:
    """Whether the home moved."""
    world = World(seed)
    world.pass_time(6.0)
    world.raise_events()
    world.run(350)
    world.check()
    return any(
        record.standing == "released"
        for master in world.masters.values()
        for record in master.disk.units.values()
    )


def test_no_alert_is_lost_or_doubled_whatever_happens_to_a_home_on_its_way() -> None:
    assert lives(range(40), life) >= 8, "too few homes moved"


@pytest.mark.long
def test_the_same_for_long() -> None:
    lives(range(1_000, 1_000 + share(3_000)), life)
