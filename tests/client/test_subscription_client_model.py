"""The client's end of a subscription with the master's, through whatever happens between them.

Connections are cut, replies are dropped, masters restart and lose their disk, clients are slow or
crash; both ends are the real ones, in virtual time. Positions go on without a hole and nothing is
given twice; what was published and not given is in a gap, or an unknown loss was told for it.
"""

import os
import random
from collections import deque

import pytest

from agent.alerts import inbox_events as i
from agent.alerts.inboxes import Inboxes
from agent.alerts.limits import Limits
from agent.client import subscriptions as subscriptions_module
from agent.client.connection import ConnectionCutError, NoReplyError
from agent.client.subscriptions import Notifications, UnknownLoss
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Notified,
    Subscribe,
    Unsubscribe,
)
from tests.alerts.disk import Disk
from tests.alerts.samples import FILTER, notification, read_filter

HISTORIES = int(os.environ.get("SANDERLING_CLIENT_HISTORIES", "80"))
LIMITS = Limits(most=12, most_queued=6, window=4, most_remembered=64)
EVENTS = {
    Subscribe: i.SubscribeArrived,
    AcknowledgeNotifications: i.AcknowledgeArrived,
    Unsubscribe: i.UnsubscribeArrived,
}


class World:
    """One client, its connection and its master; as the client's clock and its socket too."""

    def __init__(self, seed, durable):
        self.random = random.Random(seed)
        self.durable = durable
        self.now = 0.0
        self.peer = 0
        self.faults = True
        self.up, self.down = deque(), deque()  # on their way to the master, and to the client
        self.is_cut = False
        self.sequence = 0
        self.life = 0  # of the subscription: positions begin anew in each
        self.log = {}  # sequences by life and position
        self.last = 0  # position in this life
        self.disk = Disk()
        self.start_master()

    # --- the client's socket and clock ---------------------------------------------------------

    def monotonic(self):
        return self.now

    def send_message(self, message):
        self.up.append((self.peer, message))

    def forget_subscription(self, subscription_id):
        pass

    def given_masters(self):
        return ()

    def take(self, timeout_ms, *, until_cut=False):
        assert until_cut
        give_up_s = self.now + timeout_ms / 1e3
        while self.now < give_up_s:
            self.step(give_up_s)
            if self.is_cut:
                self.is_cut = False
                self.client.cut()
                raise ConnectionCutError("cut")
            if self.down and self.random.random() < 0.5:
                self.client.take(self.down.popleft())
                return
        raise NoReplyError("silent")

    # --- what happens --------------------------------------------------------------------------

    def step(self, give_up_s):
        draw = self.random.random()
        if self.faults and draw < 0.04:
            self.cut()
        elif self.faults and draw < 0.06:
            self.cut()
            self.start_master()
        elif self.faults and draw < 0.065:
            self.disk = Disk()
            self.cut()
            self.start_master()
        elif self.faults and draw < 0.09 and self.down:
            del self.down[self.random.randrange(len(self.down))]
        elif self.faults and draw < 0.3:
            self.publish(self.random.choice((1, 1, 1, 20)))
        elif self.up:
            self.hear(*self.up.popleft())
        elif self.down:
            return
        else:
            self.now = min(self.now + self.random.choice((0.1, 5.0, 30.0)), give_up_s)
            self.tell(i.InboxesDue())

    def cut(self):
        """What is under way is lost; perhaps not what the client has not sent yet."""
        self.peer += 1
        self.is_cut = True
        self.down.clear()
        keep = self.random.random() < 0.3
        self.up = deque((self.peer, message) for _, message in self.up if keep)

    def start_master(self):
        self.inboxes = Inboxes(read_filter, LIMITS)
        self.names = ()
        for each in self.inboxes.restore(self.disk.load()[1], self.now):
            if isinstance(each, i.StartSubscription):
                self.names = (each.name,)
            else:
                self.disk.write([each])

    def publish(self, count):
        for _ in range(count):
            self.sequence += 1
            if self.names:
                self.last += 1
                self.log[self.life, self.last] = self.sequence
            for _ in range(self.random.choice((1, 1, 2))):
                self.tell(i.ContentArrived(self.names, notification(self.sequence)))

    def hear(self, peer, message):
        self.tell(EVENTS[type(message)](peer, "c", message))

    def tell(self, event):
        self.do(self.inboxes.handle(event, self.now))
        self.inboxes.check_invariants()

    def do(self, instructions):
        for each in instructions:
            match each:
                case i.SendPush(peer, message):
                    if peer == self.peer:
                        self.down.append(message)
                case i.StartSubscription(name=name):
                    self.names = (name,)
                    self.life += 1
                    self.last = 0
                case i.EndSubscription():
                    self.names = ()
                case i.SaveCursor() if self.random.random() < 0.3:
                    pass  # a crash comes before it is written
                case _:
                    self.disk.write([each])


class Reader:
    """Who takes what comes, and sees to it that it is what should."""

    def __init__(self, world):
        self.world = world
        self.given = set()  # sequences
        self.excused_before = 0  # sequences
        self.life = 0
        self.open(None)

    def open(self, after):
        subscribe = Subscribe("s", FILTER, self.world.durable, after)
        self.found = self.world.client = Notifications(self.world, subscribe, 1e9)
        while True:
            try:
                self.found.open(60_000.0)
                break
            except NoReplyError:
                continue
        self.position = self.found.after if after is None else after
        if self.life != self.world.life:
            # Nobody tells a client that crashed, too, what its master lost meanwhile.
            self.excused_before = self.world.sequence
        self.life = self.world.life

    def read(self, timeout_s):
        each = self.found.wait(timeout_s)
        match each:
            case Notified(position=position):
                assert position == self.position + 1
                self.position = position
                sequence = each.notification.origin.sequence
                assert sequence in {s for (_, p), s in self.world.log.items() if p == position}
                self.given.add(sequence)
            case Gap(first=first, last=last):
                assert first == self.position + 1
                self.position = last
                self.given |= {s for (_, p), s in self.world.log.items() if first <= p <= last}
            case UnknownLoss():
                assert each.after == self.position
                self.position = each.position
                self.excused_before = self.world.sequence
                self.life = self.world.life
        assert self.found.after <= self.position or isinstance(each, UnknownLoss)
        return each


@pytest.fixture
def world_of(monkeypatch):
    def make(seed, durable):
        world = World(seed, durable)
        monkeypatch.setattr(subscriptions_module, "time", world)
        return world

    return make


@pytest.mark.parametrize("durable", [False, True])
def test_random_histories(world_of, durable):
    told = {Notified: 0, Gap: 0, UnknownLoss: 0, type(None): 0}
    for seed in range(HISTORIES):
        world = world_of(seed, durable)
        reader = Reader(world)
        first = world.sequence
        for _ in range(60):
            told[type(reader.read(world.random.choice((0.0, 1.0, 100.0))))] += 1
            draw = world.random.random()
            if draw < 0.02:
                world.now += 100.0  # a body of the loop that takes long
                world.tell(i.InboxesDue())
            elif durable and draw < 0.05:
                # It crashed, and perhaps knows how far it was.
                world.cut()
                world.is_cut = False
                reader.open(world.random.choice((None, reader.found.after)))
        world.faults = False
        while reader.read(200.0) is not None:
            pass
        missing = set(range(first + 1, world.sequence + 1)) - reader.given
        assert all(each <= reader.excused_before for each in missing), (seed, missing)
        assert reader.found.after == reader.position
        assert world.inboxes.waiting == 0
    assert min(told.values()) > HISTORIES / 10, told
