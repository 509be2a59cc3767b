"""A durable subscription's home that moves, in virtual time: its client, two masters with their
inboxes and handover planes, an overlay that is said to be reliable, and everything that may happen
to them. The client gets each notification once."""

from __future__ import annotations

import random
from collections import deque
from functools import partial

import pytest

from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    EndSubscription,
    InboxesDue,
    SendPush,
    StartSubscription,
    SubscribeArrived,
)
from agent.alerts.inbox_handover import MovableInboxes
from agent.master.moves.handover_plane import HandoverPlane
from agent.master.moves.home_plane import HomePlane
from agent.master.moves.subscriber_homes import SubscriberHomes
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.group_commit import GroupCommit
from agent.placement.world import PlacementError, Unit
from agent.runtime.reactor import Reactor
from agent.wire.codec import Decoder
from agent.wire.principals import Sender
from agent.wire.push import AcknowledgeNotifications, GivenMaster, Notified, Subscribe, Subscribed
from agent.wire.unions import PublicRequest
from tests.alerts.disk import Disk
from tests.alerts.samples import OTHER_FILTER, notification, read_filter
from tests.examples import lives, share
from tests.master.event_ends import Killed
from tests.master.held_writer import HeldWriter
from tests.master.home_master import HomeMaster

NAME = "carla/log"
UNIT = Unit("home", f"client/{NAME}")
IADS = ("a", "b")
AGAIN_S = 5.0
FOREVER = float("inf")


class Store(Disk):
    """And where in writing it the master is killed."""

    kill_at = ""

    def reach(self, where):
        if self.kill_at == where:
            self.kill_at = ""
            raise Killed

    def write(self, changes):
        self.reach("before")
        super().write(changes)
        self.reach("after")
        return True


class Push:
    """A push plane: inboxes and their store."""

    class Subscribers:
        sift = None

    def __init__(self, master, reactor):
        world, self.master = master.world, master
        self.now = lambda: world.now
        self.subscribers = self.Subscribers()
        self.inboxes = MovableInboxes(read_filter)
        self.commit = GroupCommit(master.disk, reactor.perform, self.now, master.writer)
        self.names = set()
        reactor.performs(StartSubscription, lambda each: self.names.add(each.name))
        reactor.performs(EndSubscription, lambda each: self.names.discard(each.name))
        reactor.performs(SendPush, self.send)
        reactor.performs(Then, lambda each: each.then())
        self.take(self.inboxes.restore(master.disk.load()[1], world.now))

    @property
    def refusing(self):
        return self.commit.refusing

    def take(self, instructions):
        self.commit.take(instructions)

    def write(self, changes, then):
        self.commit.take(changes)
        self.commit.after_commit(Then(then))

    def ask(self, peer, client, request):
        kind = SubscribeArrived if isinstance(request, Subscribe) else AcknowledgeArrived
        self.take(self.inboxes.handle(kind(peer, client, request), self.now()))
        return True

    def send(self, instruction):
        peer, message = instruction.peer, instruction.message
        if callable(peer):
            peer(message)
        else:
            self.master.world.to_client.append((self.master.iad, peer, message))


class Then:
    def __init__(self, then):
        self.then = then


class NoNodes:
    def names(self):
        return []


class Master(HomeMaster):
    def __init__(self, world, iad):
        self.world, self.iad = world, iad
        self.disk = Store()
        # What the overlay has for it, until it is on its disk.
        self.pending = deque()
        self.writer = HeldWriter()
        self.start()

    # life
    def start(self):
        world = self.world
        self.disk.kill_at = ""
        self.writer = HeldWriter(slow=self.writer.slow)
        self.handlers = {}
        self.life = object()
        for each in self.pending:
            each[1] = False  # not delivered in this life
        reactor = Reactor(lambda: world.now)
        self.push = Push(self, reactor)
        self.homes = SubscriberHomes(
            reactor, self.iad, self.push, {iad: f"at {iad}" for iad in IADS}
        )
        homes = HomePlane(NoNodes(), self.homes)
        self.homes.late_inboxes.on_late = homes.has_late
        self.plane = HandoverPlane(
            reactor, self.iad, self, self, self, self.push, [homes], self.disk.load_units(),
            partners=[each for each in IADS if each != self.iad], wall=lambda: world.now,
            say=world.told.append,
        )  # fmt: skip

    def kill(self):
        self.world.between = deque(e for e in self.world.between if self.iad not in e[:2])
        self.world.to_client = deque(e for e in self.world.to_client if e[0] != self.iad)
        self.world.from_client = deque(e for e in self.world.from_client if e[0] != self.iad)
        self.start()

    def hears(self, peer, request):
        rest = self.push.subscribers.sift(peer, "carla", request)
        if rest is not None:
            self.push.ask(peer, "carla", rest)

    def hand_in(self, again):
        """The overlay delivers the next that it has for this master, perhaps again."""
        waiting = [each for each in self.pending if again or not each[1]]
        if not waiting:
            return
        entry, life = waiting[0], self.life
        entry[1] = True

        def kept():
            if self.life is life and entry in self.pending:
                self.pending.remove(entry)

        names = tuple(sorted(self.push.names))
        arrived = ContentArrived(names, entry[0])
        self.push.take(self.push.inboxes.handle(arrived, self.world.now))
        self.push.commit.after_commit(Then(kept))

    @property
    def next_due(self):
        parts = (
            self.push.commit.next_due, self.push.inboxes.next_tick, self.homes.next_due,
            self.plane.next_due,
        )  # fmt: skip
        return min((each for each in parts if each is not None), default=FOREVER)

    def tick(self):
        now = self.world.now
        for part in (self.homes, self.plane, self.push.commit):
            if part.next_due is not None and part.next_due <= now:
                part.tick(now)
        if (self.push.inboxes.next_tick or FOREVER) <= now:
            self.push.take(self.push.inboxes.handle(InboxesDue(), now))


class Client:
    """As docs/use/subscriptions.md says what one does."""

    def __init__(self, world):
        self.world = world
        self.at = "a"
        self.last = 0
        self.got = []
        self.begun = False
        self.connect()

    def connect(self):
        self.world.connections += 1
        self.peer = self.world.connections
        self.subscribe()

    def say(self, message):
        self.heard_s = self.world.now
        self.world.from_client.append((self.at, self.peer, message))

    def subscribe(self):
        after = self.last if self.begun else None
        addresses = [f"at {iad}" for iad in sorted(IADS, key=lambda iad: iad != self.at)]
        masters = tuple(map(GivenMaster, addresses)) if self.world.named else ()
        self.say(Subscribe("log", OTHER_FILTER, True, after, masters=masters))

    def hears(self, iad, peer, message):
        if (iad, peer) != (self.at, self.peer):
            return
        self.heard_s = self.world.now
        match message:
            case Notified(_, position, what):
                if position == self.last + 1:
                    self.last = position
                    self.got.append(what.origin.sequence)
                    self.say(AcknowledgeNotifications("log", position))
                elif position > self.last + 1:
                    self.subscribe()
            case Subscribed(state="open"):
                self.begun = True
            case Subscribed(master=master) if master:
                self.at = master.removeprefix("at ")
                self.connect()
            case Subscribed(state="unknown"):
                self.subscribe()
            case _:
                raise AssertionError(message)


class World:
    def __init__(self, seed, *, named=False):
        """`named`: its client says among which masters the subscription may move."""
        self.random = random.Random(seed)
        self.named = named
        self.now = 0.0
        self.told, self.published = [], 0
        self.between, self.to_client, self.from_client = deque(), deque(), deque()
        self.connections = 0
        self.decoder = Decoder(PublicRequest)
        self.masters = {iad: Master(self, iad) for iad in IADS}
        self.client = Client(self)

    def publish(self):
        """At once known wherever somebody subscribes now."""
        self.published += 1
        for master in self.masters.values():
            if master.push.names or any(
                each[0].client for each in master.disk.subscriptions.values()
            ):
                master.pending.append([notification(self.published), False])

    def pass_between(self):
        """The next message between the masters arrives."""
        source, to, frame = self.between.popleft()
        message, _ = self.decoder.decode(frame)
        origin = RequestOrigin(source.encode(), b"M", Sender("iad", source))
        master = self.masters[to]
        master.do(partial(master.handlers[type(message)], origin, message, self.now))

    def settle_writes(self):
        """Time passes, in which the masters write, until one of them says something."""
        while not self.between:
            self.now += 0.1
            for master in self.masters.values():
                master.do(master.tick)
                master.do(master.writer.drain)

    def deliver(self):
        queues = [q for q in (self.between, self.to_client, self.from_client) if q]
        if not queues:
            return False
        queue = self.random.choice(queues)
        if queue is self.between:
            self.pass_between()
        elif queue is self.to_client:
            self.client.hears(*queue.popleft())
        else:
            iad, peer, message = queue.popleft()
            master = self.masters[iad]
            master.do(partial(master.hears, peer, message))
        return True

    def pass_time(self, seconds):
        end = self.now + seconds
        while True:
            dues = [master.next_due for master in self.masters.values()]
            due = min(self.client.heard_s + AGAIN_S, *dues)
            if due > end:
                break
            self.now = max(self.now, due)
            if self.client.heard_s + AGAIN_S <= self.now:
                self.client.connect()
            for master in self.masters.values():
                if master.next_due <= self.now:
                    master.do(master.tick)
            if self.random.random() < 0.7:
                self.deliver()
        self.now = end

    def move(self):
        for iad, master in self.masters.items():
            to = next(each for each in IADS if each != iad)
            if master.homes.lives(NAME):
                try:
                    master.do(partial(master.plane.begin, UNIT, to, "plan"))
                except PlacementError:
                    continue

    def mishap(self):
        master = self.masters[self.random.choice(IADS)]
        where = self.random.choice(["before", "after"])
        self.random.choice(
            [
                self.client.connect,
                master.kill,
                lambda: setattr(master.disk, "kill_at", where),
                lambda: setattr(master.disk, "kill_at", where),
                lambda: setattr(master.writer, "slow", True),
                lambda: self.between and self.between.popleft(),
                lambda: self.to_client and self.to_client.popleft(),
            ]
        )()

    def hand_in(self):
        master = self.masters[self.random.choice(IADS)]
        master.do(partial(master.hand_in, self.random.random() < 0.1))

    def write(self):
        for master in self.masters.values():
            if master.writer.jobs:
                master.do(master.writer.do)

    def run(self, steps):
        for _ in range(steps):
            r = self.random.random()
            if r < 0.12:
                self.publish()
            elif r < 0.27:
                self.hand_in()
            elif r < 0.70:
                self.deliver()
            elif r < 0.86:
                self.pass_time(self.random.choice([0.02, 0.1, 0.5, 2.0]))
            elif r < 0.92:
                self.write()
            elif r < 0.97:
                self.move()
            else:
                self.mishap()
        self.heal()

    def heal(self):
        for master in self.masters.values():
            master.disk.kill_at = ""
            master.writer.slow = False
            master.do(master.writer.drain)
        for _ in range(400):
            for master in self.masters.values():
                while any(not each[1] for each in master.pending):
                    master.do(partial(master.hand_in, False))
            while self.deliver():
                pass
            self.pass_time(0.5)
            moving = any(master.plane.moving(UNIT) for master in self.masters.values())
            if not moving and len(self.client.got) == self.published and self.at_home:
                break

    @property
    def at_home(self):
        homes = [iad for iad, master in self.masters.items() if master.homes.lives(NAME)]
        return homes == [self.client.at]

    def check(self):
        got = self.client.got
        assert len(got) == len(set(got)), "a notification came twice"
        assert set(got) == set(range(1, self.published + 1)), "a notification is lost"
        assert self.at_home, "its client is elsewhere"
        for master in self.masters.values():
            master.push.inboxes.check_invariants()


def life(seed: int) -> bool:
    """Whether the home moved."""
    world = World(seed, named=seed % 2 == 1)
    while not world.client.begun:
        world.deliver()
        world.pass_time(0.1)
    world.run(350)
    world.check()
    return world.client.at == "b"


def test_no_notification_is_lost_or_doubled_whatever_happens_to_a_home_on_its_way() -> None:
    assert lives(range(40), life) >= 8, "too few homes moved"


@pytest.mark.long
def test_the_same_for_long() -> None:
    lives(range(1_000, 1_000 + share(3_000)), life)
