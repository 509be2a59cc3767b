"""What talks to a master that is killed: it connects anew, and says again what was not taken."""

from __future__ import annotations

import time

import zmq

from agent.wire.codec import Decoder, encode
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe, Subscribed
from agent.wire.unions import PublicReply
from testkit.waiting import PATIENCE_S


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


class Subscriber(Party):
    """A durable subscription to what a filter wants; `kept` gets each notification once."""

    def __init__(self, context, master, wanted):
        self.wanted = wanted
        self.opened = False
        self.have = 0
        self.got = []
        super().__init__(context, master.public, PublicReply)

    def greeting(self):
        return Subscribe("s", self.wanted, True, self.have if self.opened else None)

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
            self.kept(message.notification)
            self.say(AcknowledgeNotifications("s", self.have))


def run(parties, condition, seconds=PATIENCE_S):
    """Everybody has turns until it holds; whether it did in time."""
    poller = zmq.Poller()
    end = time.monotonic() + seconds
    while not condition():
        left_s = end - time.monotonic()
        if left_s < 0:
            return False
        for party in parties:
            party.turn()
            poller.register(party.socket, zmq.POLLIN)
        poller.poll(min(20, left_s * 1e3))
        for party in parties:
            poller.unregister(party.socket)
    return True
