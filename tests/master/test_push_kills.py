"""Masters of an overlay that are killed at random while a node raises alerts: each durable
subscription gets each alert once. SANDERLING_PUSH_KILLS says how many kills; without it, 20."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
import zmq

from agent.wire.base import TRIGGER_RAISED
from agent.wire.codec import Decoder, encode
from agent.wire.messages import EventsTaken, Hello, MasterMessage, NodeEvent, NodeEvents
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe, Subscribed
from agent.wire.unions import PublicReply
from fleet.testbed.ports import free_address
from testkit.agent_process import AgentProcess
from tests.master.push_rig import PLACES, PushMaster, overlay_text

KILLS = int(os.environ.get("SANDERLING_PUSH_KILLS", "20"))
PATIENCE_S = 120.0
HELLO = Hello("n1", "boot-n1", "history", ("b1/f4",), ("co2",), 1, "test")


class Party:
    """A DEALER that connects anew when nothing came for a second, and then greets."""

    def __init__(self, context, address, union):
        self.context, self.address = context, address
        self.decoder = Decoder(union)
        self.socket = None
        self.connect()

    def connect(self):
        if self.socket is not None:
            self.socket.close()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(self.address)
        self.heard_s = time.monotonic()
        self.say(self.greeting())

    def say(self, message):
        self.socket.send(encode(message))

    def turn(self):
        while self.socket.poll(0):
            self.heard_s = time.monotonic()
            self.take(self.decoder.decode(self.socket.recv())[0])
        if time.monotonic() > self.heard_s + 1.0:
            self.connect()


class RestlessNode(Party):
    """Raises alerts, and tells them again until they are taken."""

    def __init__(self, context, master):
        self.waiting = {}
        self.raised = 0
        self.told_s = 0.0
        super().__init__(context, master.nodes, MasterMessage)

    def greeting(self):
        return HELLO

    def take(self, message):
        if isinstance(message, EventsTaken):
            for sequence in message.sequences:
                self.waiting.pop(sequence, None)

    def raise_one(self):
        self.raised += 1
        self.waiting[self.raised] = NodeEvent(
            self.raised, TRIGGER_RAISED, 1, True, "s", "co2", trigger="stale", value=950.0
        )

    def turn(self):
        super().turn()
        if self.waiting and time.monotonic() > self.told_s + 0.1:
            self.told_s = time.monotonic()
            events = tuple(self.waiting.values())[:100]
            self.say(NodeEvents("boot-n1", "history", events, oldest=min(self.waiting)))


class Durable(Party):
    """A durable subscription, and the numbers of the alerts that came for it."""

    def __init__(self, context, master):
        self.opened = False
        self.have = 0
        self.got = []
        super().__init__(context, master.public, PublicReply)

    def greeting(self):
        return Subscribe("s", 'metric = "co2"', True, self.have if self.opened else None)

    def take(self, message):
        if isinstance(message, Subscribed):
            assert message.state in ("open", "unknown"), message
            self.opened = self.opened or message.state == "open"
            if message.state == "unknown":
                self.say(self.greeting())
            return
        assert isinstance(message, Notified), message
        if message.position == self.have + 1:
            self.have = message.position
            self.got.append(message.notification.origin.sequence)
            self.say(AcknowledgeNotifications("s", self.have))


class World:
    def __init__(self, context, masters, seed):
        self.random = random.Random(seed)
        self.masters = masters
        self.node = RestlessNode(context, masters["iad1"])
        self.subscribers = [Durable(context, masters[iad]) for iad in ("iad1", "iad2", "iad4")]

    def until(self, condition, seconds=PATIENCE_S):
        """Everybody has turns until it holds; whether it did in time."""
        poller = zmq.Poller()
        end = time.monotonic() + seconds
        while not condition():
            left = end - time.monotonic()
            if left < 0:
                return False
            parties = [self.node, *self.subscribers]
            for party in parties:
                party.turn()
                poller.register(party.socket, zmq.POLLIN)
            poller.poll(min(20, left * 1e3))
            for party in parties:
                poller.unregister(party.socket)
        return True

    def kill_and_start(self):
        """One or two of them, for a moment or longer than a link bears silence."""
        gone = self.random.sample(list(self.masters.values()), self.random.choice([1, 1, 2]))
        for master in gone:
            master.stop(signal.SIGKILL)
        for _ in range(self.random.choice([1, 10, 40])):
            self.node.raise_one()
            self.until(lambda: False, 0.1)
        for master in gone:
            AgentProcess.start(master)


@pytest.mark.long
def test_masters_are_killed_and_every_alert_comes_once(tmp_path, context):
    addresses = {iad: free_address() for iad in PLACES}
    masters = {
        iad: PushMaster(tmp_path / iad, iad, address, overlay_text(iad, addresses, PLACES))
        for iad, address in addresses.items()
    }
    try:
        for master in masters.values():
            master.wait_for_links()
        world = World(context, masters, seed=KILLS)
        assert world.until(lambda: all(each.opened for each in world.subscribers))
        masters["iad1"].wait_until(
            lambda c: (c["overlay_targets"], c["overlay_subscriptions"]) == (1, 2)
        )
        for _ in range(KILLS):
            world.kill_and_start()
            world.node.raise_one()
            world.until(lambda: False, world.random.choice([0.1, 0.5, 2.0]))
        node = world.node
        assert world.until(lambda: not node.waiting)
        assert world.until(
            lambda: all(len(each.got) >= node.raised for each in world.subscribers)
        ), [len(each.got) for each in world.subscribers]
        for each in world.subscribers:
            assert sorted(each.got) == [16 * n for n in range(1, node.raised + 1)]
        masters["iad1"].wait_until(lambda c: c["spool"] == 0)
    finally:
        for master in masters.values():
            master.stop(signal.SIGKILL)
