"""Masters with spool and inboxes, a node, clients, and an overlay that is said to be reliable: in
virtual time, where anything may be killed between any two steps."""

from __future__ import annotations

from collections import deque

from agent.alerts import inbox_events as i
from agent.alerts import spool_events as s
from agent.alerts.inboxes import Inboxes
from agent.alerts.limits import Limits
from agent.alerts.spool import Spool
from agent.master.storage.group_commit import GroupCommit
from agent.wire.overlay import Notification
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Lost,
    Notified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from tests.alerts.samples import FILTER, OTHER_FILTER, notification, read_filter
from tests.master.held_writer import HeldWriter

SPOOLED = 14
KEPT = 10
NEVER_S = 1e9


class Killed(Exception):
    """The master's process ended here."""


class Have:
    """This master has that: what a broker tells the one that it got it from."""

    def __init__(self, content):
        self.content = content


def key_of(content):
    return content.origin if isinstance(content, Notification) else content


def wants(filter_, content):
    """FILTER wants what has an even sequence, the other one everything; what is lost, both."""
    if not isinstance(content, Notification):
        return True
    return filter_ == OTHER_FILTER or content.origin.sequence % 2 == 0


class Master:
    def __init__(self, world, name, store):
        self.world = world
        self.name = name
        self.open_store = store
        self.full = self.slow = False
        self.kill_in = None
        self.store = None
        self.start()

    def start(self):
        """A new process: whatever was in memory is gone."""
        if self.store is not None:
            self.store.close()
        self.kill_in = None
        self.wanted = {}
        self.store = self.open_store()
        self.spool = Spool(most=SPOOLED, backlog_per_s=5.0, again_s=20.0)
        limits = Limits(most=KEPT, most_queued=6, most_remembered=2_000, window=4)
        self.inboxes = Inboxes(read_filter, limits)
        self.writer = HeldWriter(slow=self.slow)
        self.commit = GroupCommit(self, self.perform, lambda: self.world.now, self.writer)
        spool, inboxes = self.store.load()
        self.spool.restore(spool, self.world.now)
        self.commit.take(self.inboxes.restore(inboxes, self.world.now))

    def do(self, turn):
        """A turn of the loop; it may be the last one of this process."""
        try:
            turn()
        except Killed:
            self.start()

    def step(self):
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in < 0:
                raise Killed

    def make_disk(self, *, slow):
        self.slow = self.writer.slow = slow
        if not slow:
            self.do(self.writer.drain)

    def disk_works(self):
        if self.writer.jobs:
            self.do(self.writer.do)

    def write(self, changes):
        """Between spool and inboxes and the disk."""
        self.step()
        if self.full:
            return False
        written = self.store.write(changes)
        assert written
        self.step()
        return written

    def spools(self, event):
        if not self.commit.refusing:
            self.do(lambda: self.commit.take(self.spool.handle(event, self.world.now)))

    def inbox(self, event):
        if not self.commit.refusing:
            self.do(lambda: self.commit.take(self.inboxes.handle(event, self.world.now)))

    def content(self, content):
        """A neighbour sends this; returns whether it was taken."""
        if self.commit.refusing:
            return False
        names = tuple([name for name, each in self.wanted.items() if wants(each, content)])

        def turn():
            self.commit.take(self.inboxes.handle(i.ContentArrived(names, content), self.world.now))
            self.commit.after_commit(Have(content))

        self.do(turn)
        return True

    @property
    def next_due(self):
        if self.commit.refusing:  # nothing is taken, so nothing else is done with
            return NEVER_S if self.commit.next_due is None else self.commit.next_due
        due = (self.spool.next_tick, self.inboxes.next_tick, self.commit.next_due)
        return min([each for each in due if each is not None], default=NEVER_S)

    def tick(self):
        now = self.world.now
        if (due := self.spool.next_tick) is not None and due <= now:
            self.spools(s.SpoolDue())
        if (due := self.inboxes.next_tick) is not None and due <= now:
            self.inbox(i.InboxesDue())
        self.end_of_turn()

    def end_of_turn(self):
        if self.commit.next_due is not None and self.commit.next_due <= self.world.now:
            self.do(lambda: self.commit.tick(self.world.now))

    def perform(self, instructions):
        for instruction in instructions:
            self.step()
            match instruction:
                case s.Accepted(token):
                    self.world.accepted.append(token)
                case s.PublishSpooled(content) | s.TellLost(content):
                    self.world.publish(self, content)
                case i.SendPush(peer, message):
                    peer.append(message)
                case i.StartSubscription(name, wanted):
                    self.wanted[name] = wanted
                case i.EndSubscription(name):
                    del self.wanted[name]
                case Have(content=content):
                    self.world.has(self, content)


class Peer(deque):
    """A connection: what its master sent and its client did not read. No other one equals it."""

    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


class Client:
    """One subscription of one client, and all that ever came for it."""

    def __init__(self, world, master, name, *, durable, steady=False):
        self.world = world
        self.master = master
        self.name = name
        self.durable = durable
        self.steady = steady
        self.wanted = OTHER_FILTER if steady else FILTER
        self.begin()

    def begin(self):
        """A new life of the subscription, for what the one before had was forgotten."""
        self.open = False
        self.have = 0
        self.received = {}
        self.passed = set()
        self.lost = []
        self.connect()

    def connect(self):
        self.peer = Peer()
        after = self.have if self.open else None
        message = Subscribe("s", self.wanted, self.durable, after)
        self.master.inbox(i.SubscribeArrived(self.peer, self.name, message))

    def acknowledge(self):
        message = AcknowledgeNotifications("s", self.have)
        self.master.inbox(i.AcknowledgeArrived(self.peer, self.name, message))

    def unsubscribe(self):
        message = Unsubscribe("s")
        self.master.inbox(i.UnsubscribeArrived(self.peer, self.name, message))

    def read(self):
        while self.peer:
            self.take(self.peer.popleft())

    def take(self, message):
        match message:
            case Subscribed(state="open", position=position):
                assert not self.open or position == self.have
                self.open = True
            case Subscribed(state="unknown"):
                self.connect()
            case Subscribed():  # refused, or cancelled
                assert not self.steady, message
                self.begin()
            case Notified(position=position, notification=content):
                self.take_notification(position, content)
            case Gap(first=first, last=last, lost=lost):
                assert first == self.have + 1
                self.have = last
                if lost is None:
                    self.passed |= set(range(first, last + 1))
                else:
                    assert first == last
                    self.lost.append(lost)

    def take_notification(self, position, content):
        assert wants(self.wanted, content)
        assert position == self.have + 1, "a position is missing, or came twice"
        assert content.origin not in self.received.values(), "it has two positions"
        self.have = position
        self.received[position] = content.origin


class World:
    """`stores` make or reopen the disks of the masters A and B. A node and a client are at A, two
    clients at B; the one called steady subscribed before anything happened, and never ends it."""

    def __init__(self, stores):
        self.now = 0.0
        self.sequence = 0
        self.waiting = {}  # at the node, which forgets what is accepted
        self.raised = []
        self.accepted = []
        # Not at these masters yet, and under way to them.
        self.missing = {}
        self.under_way = []
        self.told = set()  # what all masters have of what was lost
        self.settled = []  # and the publisher's master is to be told
        self.a = Master(self, "a", stores[0])
        self.b = Master(self, "b", stores[1])
        self.masters = [self.a, self.b]
        self.steady = Client(self, self.b, "steady", durable=True, steady=True)
        self.clients = [
            self.steady,
            Client(self, self.b, "volatile", durable=False),
            Client(self, self.a, "durable", durable=True),
        ]
        self.let_pass(0.0)
        for client in self.clients:
            client.read()
            assert client.open

    # --- the node ---

    def raise_events(self, count):
        for _ in range(count):
            self.sequence += 3 if self.sequence % 2 else 1
            self.waiting[self.sequence] = notification(self.sequence, publisher="a")
            self.raised.append(self.waiting[self.sequence].origin)

    def bring(self, sequences):
        token = tuple(sequences)
        events = tuple([s.EventAlerts(each, (self.waiting[each],)) for each in token])
        self.a.spools(s.Brought(token, "n1", "h1", min(self.waiting), events))

    def node_reads(self):
        accepted, self.accepted = self.accepted, []
        for token in accepted:
            for sequence in token:
                self.waiting.pop(sequence, None)

    # --- the overlay ---

    def publish(self, _master, content):
        targets = [
            each
            for each in self.masters
            if any(wants(wanted, content) for wanted in each.wanted.values())
        ]
        if targets:
            self.missing[key_of(content)] = list(targets)
        else:
            self.settled.append(content)
        self.under_way += [(content, target) for target in targets]

    def arrive(self, n, *, again):
        content, target = self.under_way[n]
        if target.content(content) and not again:
            self.under_way.remove((content, target))

    def has(self, master, content):
        missing = self.missing.get(key_of(content))
        if missing and master in missing:
            missing.remove(master)
            if not missing:
                del self.missing[key_of(content)]
                self.settled.append(content)
                if isinstance(content, Lost):
                    self.told.add(content)

    def tell_settled(self):
        settled, self.settled = self.settled, []
        for content in settled:
            if isinstance(content, Notification):
                self.a.spools(s.Settled(content.origin))
            else:
                self.a.spools(s.LostTold(content))

    def undeliverable(self, n):
        content, _ = self.under_way.pop(n)
        if isinstance(content, Notification):
            self.a.spools(s.Undeliverable(content.origin))

    # --- time ---

    def let_pass(self, seconds):
        end = self.now + seconds
        self.tell_settled()
        while (due := min(each.next_due for each in self.masters)) <= end:
            self.now = max(self.now, due)
            for master in self.masters:
                master.tick()
            self.tell_settled()
        self.now = end

    # --- what holds ---

    def check(self):
        for master in self.masters:
            master.spool.check_invariants()
            master.inboxes.check_invariants()

    def settle(self):
        """When all is well everything gets where it has to."""
        for master in self.masters:
            master.full, master.kill_in = False, None
            master.make_disk(slow=False)
        self.let_pass(1.5)
        for _ in range(60):
            if self.waiting:
                self.bring(sorted(self.waiting))
            while self.under_way:
                self.arrive(0, again=False)
            self.let_pass(1.5)
            self.node_reads()
            for client in self.clients:
                client.read()
                client.acknowledge()
        self.check()
        assert not self.waiting
        assert len(self.a.spool) == 0
        assert all(master.inboxes.waiting == 0 for master in self.masters)

    def check_all_told(self):
        """What the steady subscription did not get was told as lost, or is in a gap, or its being
        lost is."""
        steady = self.steady
        received = set(steady.received.values())
        told = self.told | set(steady.lost)
        in_gaps = [
            origin
            for origin in self.raised
            if origin not in received
            and not any(lost.first <= origin.sequence <= lost.last for lost in told)
        ]
        assert len(in_gaps) + len(told - set(steady.lost)) <= len(steady.passed)
        assert sorted({*steady.received, *steady.passed}) == [
            n for n in range(1, steady.have + 1) if n in steady.received or n in steady.passed
        ]
