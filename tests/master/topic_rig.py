"""Topics in the hands of a master: sockets, disk, inboxes are the test's."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from agent.master.storage.state import State
from agent.master.topics.topic_plane import TopicPlane
from agent.topics.events import Checkpointed, Emitted
from agent.wire.messages import Slo
from agent.wire.push import Notified
from agent.wire.topics import Clone, Publish, Published, Topic
from tests.master.push_plane_rig import ANYONE, Public, Rig

NOTES = Topic("notes")
COUNT = Topic("counted", processor="count", slo=Slo(90.0, 1_000.0))
CLONE = Topic("clone-a", processor="count", clone=Clone("iad1", leaves=True))
COUNTED = msgspec.msgpack.encode(COUNT)


class Documents(State):
    """What a state file had."""

    def __init__(self, now, body=COUNTED):
        super().__init__(None, lambda: now)
        self.body, self.removed = body, []

    def all(self, kind):
        return {"counted": self.body} if kind == "topic" else {}

    def remove(self, kind, key):
        self.removed.append((kind, key))


class Processors:
    """One processor, which gives each message back when the test says so."""

    def __init__(self):
        self.started, self.fed, self.asked, self.stopped = [], [], 0, []
        self.state = "ready"

    def why_not(self, topic):
        return "" if topic.processor == "count" else f"no processor {topic.processor} here"

    def channels(self, topic):
        return topic.parameters.get("channels", ())

    def described(self, status):
        return replace(status, state=self.state, waiting=len(self.fed))

    def start(self, started, tell):
        self.started.append(started)
        self.epoch, self.tell = started.epoch, tell

    def stop(self, name):
        self.stopped.append(name)

    def enable(self, name):
        self.enabled = name

    def feed(self, message):
        self.fed.append(message)

    def take_checkpoint(self, _name):
        self.asked += 1

    def process(self, count=1, outputs=1):
        for _ in range(count):
            message = self.fed.pop(0)
            self.done = message.position
            made = tuple([{"at": message.position, "n": n} for n in range(outputs)])
            self.tell(Emitted(message.name, self.epoch, message.position, made))

    def checkpoint(self):
        self.tell(Checkpointed("counted", self.epoch, self.done, b"state"))


class Queries:
    services = ("climate", "default")

    def capability(self, service):
        return {"default": "", "climate": "temperature"}.get(service)

    def handle(self, _event, _now):
        return []


class TopicRig(Rig):
    def start(self, state=None):
        super().start(state)
        reactor = self.plane._reactor
        self.operator, self.processors = Public(), Processors()
        self.topics = TopicPlane(
            reactor, "iad1", self.state, self.public, self.operator, Queries(), self.plane,
            self.disk.load_topics(), lambda: 1_000.0, self.said.append, self.processors,
            channels=lambda areas: ("co2", "humidity"),
        )  # fmt: skip

    def let_pass(self, seconds=0.0):
        super().let_pass(seconds)
        while (due := self.topics.next_due) is not None and due <= self.now:
            self.topics.tick(self.now)
            super().let_pass()

    def operate(self, request):
        self.operator.handlers[type(request)](ANYONE, request, self.now)
        self.let_pass()
        return self.operator.replies.pop() if self.operator.replies else None

    def publish(self, message, origin=ANYONE):
        self.public.handlers[Publish](origin, message, self.now)
        self.let_pass()
        return self.received(Published)[-1] if self.received(Published) else None

    def put_out(self):
        return [each.notification for each in self.received(Notified)]


@pytest.fixture
def rig():
    rig = TopicRig()
    rig.subscribe('kind = "output"')
    return rig
