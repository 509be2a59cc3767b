"""The glue of spool, broker and inboxes, with links, clients and a disk in a test's hands."""

from __future__ import annotations

import pytest

from agent.master.push.place import place_of
from agent.master.push.push_plane import PushPlane
from agent.master.requests.request_plane import RequestOrigin as Where
from agent.master.storage.state import State
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import ClientRates
from agent.wire.base import TRIGGER_RAISED
from agent.wire.config import parse
from agent.wire.master_config import MasterConfig
from agent.wire.node_messages import NodeEvent, NodeEvents
from agent.wire.principals import Sender
from agent.wire.push import Notified, Subscribe
from tests.alerts.disk import Disk
from tests.master.held_writer import HeldWriter

ANYONE = Where(b"c", b"M", Sender("anyone", "63"))


class Links:
    """To nobody."""

    def __init__(self):
        self.messages = []
        self.sent = {}
        self.silent = True
        self.up = {}
        self.waiting = self.went_down = self.passed_over = 0

    def start(self, handle):
        self.handle = handle
        self.silent = False

    def send(self, instruction):
        self.messages.append(instruction.message)

    def fall_silent(self):
        self.silent = True

    def speak(self):
        self.silent = False


class Public:
    def __init__(self):
        self.handlers = {}
        self.replies = []
        self.rates = ClientRates(1e6)

    def takes(self, kind, handler):
        self.handlers[kind] = handler

    def reply(self, origin, message):
        self.replies.append(message)


class FullDisk(Disk):
    full = False

    def write(self, changes):
        return not self.full and super().write(changes)


class Rig:
    def __init__(self, notifications=None, **place):
        sockets = {"public": "ipc:///run/p", "operator": "ipc:///run/o"}
        table = {"iad": {"name": "iad1"}, "sockets": sockets, "overlay": place}
        table["notifications"] = notifications or {}
        self.config = parse(table, MasterConfig, "test")
        self.now = 10.0
        self.wall_s = 1_000.0
        self.disk = FullDisk()
        self.start()

    def start(self, state=None):
        self.links, self.public, self.writer = Links(), Public(), HeldWriter()
        self.said = []
        reactor = Reactor(lambda: self.now)
        self.state = state or State(None, reactor.clock)
        self.plane = PushPlane(
            reactor, self.config, place_of(self.config), self.state, self.disk,
            self.public, self.links, lambda: self.wall_s, self.said.append, self.writer,
        )  # fmt: skip

    def let_pass(self, seconds=0.0):
        self.now += seconds
        while (due := self.plane.next_due) is not None and due <= self.now:
            self.plane.tick(self.now)

    def keep(self):
        told = []
        self.plane.keep(told.append)
        self.let_pass()
        (well,) = told
        return well

    def ask(self, message, origin=ANYONE):
        self.public.handlers[type(message)](origin, message, self.now)
        self.plane.subscribers.tick(self.now)

    def subscribe(self, wanted="value > 30", name="s", durable=True):
        self.ask(Subscribe(name, wanted, durable))
        self.let_pass()
        assert self.public.replies.pop().state == "open"

    def alert(self, *numbers):
        made = [
            NodeEvent(each, TRIGGER_RAISED, 1, True, "", "co2", trigger="t", value=31.5)
            for each in numbers
        ]
        return self.plane.bring("n1", NodeEvents("boot", "h", tuple(made), oldest=min(numbers)))

    def received(self, kind):
        return [each for each in self.public.replies if isinstance(each, kind)]


@pytest.fixture
def rig():
    return Rig()


def numbers(rig):
    return [each.notification.attributes["n"] for each in rig.received(Notified)]
