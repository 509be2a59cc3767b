"""Topics under random schedules: a pretended inbox, disk and processor, and kills of the master."""

from __future__ import annotations

import msgspec

from agent.topics.events import (
    AskInbox,
    AskReadings,
    Checkpointed,
    Emitted,
    Feed,
    ForgetTopic,
    Held,
    InboxSaid,
    Release,
    Released,
    Resumed,
    RoundAnswered,
    SaveTopic,
    SendReport,
    StartProcessor,
    StopProcessor,
    TakeCheckpoint,
    TellOperator,
    TopicAsked,
    TopicsDue,
)
from agent.topics.topics import Topics
from agent.wire.messages import Aggregate, Answer, AreaResult, ChannelAggregate, Coverage
from agent.wire.overlay import Notification, Origin
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe, Subscribed
from agent.wire.topics import CreateTopic, RemoveTopic, Topic

READ = Topic("comfort", ("b1/f4",), ("co2",), 5.0, "count")
BARE = Topic("notes")


def aggregate(value=20.0, status="complete"):
    channels = {"co2": ChannelAggregate(3, value, value, value)}
    result = AreaResult("b1/f4", aggregate=Aggregate(1, 2, channels))
    return Answer("r", status, 1.0, True, Coverage(1, 1), (result,))


class World:
    """One topic on one master. What was published is in `inbox`, at positions from 1 on; what came
    out in `told`, by the time that it is durable. The processor puts out what it was fed, and its
    state is how many messages that were."""

    def __init__(self, topic=BARE, **options):
        self.options = options
        self.now = 10.0
        self.inbox = []  # attributes
        self.acknowledged = 0
        self.disk = {}
        self.documents = {}
        self.unreadable = set()
        self.told = []  # notifications, published
        self.lines, self.reports, self.names = [], [], 0
        self.topic = topic
        self.boot()

    def new_name(self):
        self.names += 1
        return f"{self.names:032x}"

    def boot(self):
        """Start, from what is on disk."""
        self.topics = Topics("iad1", self.new_name, **self.options)
        self.attached, self.sent = False, 0
        self.releases, self.queries = [], []
        self.fed, self.done, self.emitted, self.snapshot = [], 0, [], False
        self.running = self.epoch = None
        self.full = False
        self.do(self.topics.restore(
            [each for name, each in self.documents.items() if name not in self.unreadable],
            list(self.disk.items()), self.now, self.unreadable,
        ))  # fmt: skip

    def handle(self, event):
        self.do(self.topics.handle(event, self.now))
        self.topics.check_invariants()

    def create(self, topic=None):
        self.handle(TopicAsked("op", CreateTopic("c", topic or self.topic)))
        return self.reports.pop()

    def remove(self, name):
        self.handle(TopicAsked("op", RemoveTopic("r", name)))
        return self.reports.pop()

    def do(self, instructions):
        for each in instructions:
            match each:
                case SaveTopic(topic, progress):
                    self.documents[topic.name] = topic
                    self.disk[topic.name] = progress
                case ForgetTopic(name):
                    self.documents.pop(name, None)
                    self.disk.pop(name, None)
                case SendReport(_, report):
                    self.reports.append(report)
                case AskInbox(name, Subscribe() as message):
                    self.attached = True
                    assert message.durable
                    self.incarnation = message.id
                    if message.after is not None:
                        assert message.after <= self.disk[name].inbox
                        self.acknowledged = max(self.acknowledged, message.after)
                    self.sent = self.acknowledged
                    opened = Subscribed(message.id, "open", self.sent, 60_000.0)
                    self.handle(InboxSaid(name, message.id, opened))
                case AskInbox(_, AcknowledgeNotifications() as message):
                    assert message.position <= self.disk[self.topic.name].inbox
                    self.acknowledged = max(self.acknowledged, message.position)
                case _:
                    self.do_more(each)

    def do_more(self, each):
        match each:
            case AskReadings():
                self.queries.append(each)
            case StartProcessor(_, epoch, progress):
                self.running, self.epoch = True, epoch
                self.fed, self.done = [], progress.position
                self.count = int(progress.state or b"0")
            case StopProcessor():
                self.running = None
            case Feed(_, position, body):
                expected = self.fed[-1][0] + 1 if self.fed else self.done + 1
                assert position == expected
                self.fed.append((position, body))
            case TakeCheckpoint():
                self.snapshot = True
            case Release():
                self.releases.append(each)
            case TellOperator(line):
                self.lines.append(line)
            case _:
                raise AssertionError(each)

    # --- what happens ---

    def publish(self, number):
        self.inbox.append(number)

    def deliver(self, window=64):
        """The inbox sends its next message, if it may."""
        if self.attached and self.sent < min(len(self.inbox), self.acknowledged + window):
            self.sent += 1
            origin = Origin("iad2", "h", self.sent)
            attributes = {
                "iad": "iad2", "topic": self.topic.name, "kind": "input",
                "n": self.inbox[self.sent - 1],
            }  # fmt: skip
            told = Notified(
                self.incarnation, self.sent, Notification(origin, self.sent, attributes)
            )
            self.handle(InboxSaid(self.topic.name, self.incarnation, told))

    def detach(self):
        """The inbox ends delivery: it heard nothing of the topic for too long."""
        if self.attached:
            self.attached = False
            unknown = Subscribed(self.incarnation, "unknown")
            self.handle(InboxSaid(self.topic.name, self.incarnation, unknown))

    def process(self):
        """The processor is done with a message."""
        if self.fed and self.running:
            position, body = self.fed.pop(0)
            self.count += 1
            self.done = position
            said = msgspec.msgpack.decode(body)
            output = {"n": said.get("n", -1), "count": self.count}
            self.handle(Emitted(self.topic.name, self.epoch, position, (output,)))

    def checkpoint(self):
        """The processor gives its state, if it was asked to."""
        if self.snapshot and self.running:
            self.snapshot = False
            state = str(self.count).encode()
            self.handle(Checkpointed(self.topic.name, self.epoch, self.done, state))

    def write(self):
        """The disk is done with a transaction."""
        if self.releases:
            release = self.releases.pop(0)
            self.disk[release.name] = release.progress
            self.told += release.notifications
            self.handle(Released(release.name, release.epoch))

    def read(self):
        """A round is due, and is answered."""
        self.now += 5.0
        self.handle(TopicsDue())
        for ask in self.queries:
            self.handle(RoundAnswered(ask.name, ask.epoch, aggregate(), 1))
        self.queries = []

    def fill(self):
        """The processor's queue is full: the messages from here on are not taken."""
        if self.fed and not self.full:
            self.full = True
            self.after = self.fed[-1][0]
            self.handle(Held(self.topic.name, self.epoch))

    def resume(self):
        if self.full:
            self.full = False
            self.handle(Resumed(self.topic.name, self.epoch, self.after))

    def kill(self):
        self.boot()

    def settle(self):
        """Everything that is under way comes to its end."""
        for _ in range(10 * len(self.inbox) + 50):
            for step in (
                self.deliver, self.resume, self.process, self.checkpoint, self.write,
            ):  # fmt: skip
                step()
            self.now += 0.3
            if (due := self.topics.next_tick) is not None and due <= self.now:
                self.handle(TopicsDue())
                self.queries = []
