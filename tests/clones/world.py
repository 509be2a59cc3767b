"""Anchors in the hands of a master: its disk, the clone's topic, the device. The master is killed
between any two writes; what it had put on disk stays."""

from __future__ import annotations

from agent.clones.anchors import Anchors
from agent.clones.events import (
    AnchorsDue,
    AskInbox,
    AskPeers,
    AskReadings,
    CloneAsked,
    EndTopic,
    ForgetClone,
    ForgetDevice,
    GiveOutput,
    InboxSaid,
    KeepDevice,
    MakeTopic,
    OutputKept,
    PassOver,
    PublishReading,
    ReadingsCame,
    SaveClone,
    SaveTaken,
    SendReport,
    TellOperator,
    TellReading,
    TopicEnded,
    TopicMade,
)
from agent.wire.clones import CloneOf, CreateClone, RemoveClone
from agent.wire.messages import Aggregate, AreaResult, ChannelAggregate, TaskResult
from agent.wire.overlay import Notification, Origin
from agent.wire.push import AcknowledgeNotifications, Notified, Subscribe, Subscribed, Unsubscribe

DEVICE = "iad4/n3"
CLONE = CloneOf(DEVICE, "echo", every_s=5.0)
SECRET = bytes(32)


def result(**means):
    channels = {name: ChannelAggregate(2, mean, mean, mean) for name, mean in means.items()}
    return TaskResult(
        "t", "complete", 1.0, (AreaResult("b1/r3", aggregate=Aggregate(1, 2, channels)),)
    )


class World:
    """One device. `inbox` is what its clone has put out, at positions from 1 on, by the id of the
    subscription; it is durable. `disk` has documents, `device` what the device was
    given: both change in transactions, of which the last ones are lost with a kill."""

    def __init__(self, **options):
        self.options = options
        self.areas = ("b1/r3",)
        self.now = 10.0
        self.ids = 0
        self.disk, self.device = {}, ()
        self.inboxes = {}  # by id: what came, and how much of it was acknowledged
        self.made = 0
        self.reports, self.lines = [], []
        self.boot()

    @property
    def topics(self):
        return {name: each for (kind, name), each in self.dirty.items() if kind == "topic"}

    def new_id(self):
        self.ids += 1
        return f"{self.ids:032x}"

    def boot(self):
        """Start, from what is on disk."""
        self.anchors = Anchors(
            "iad4", SECRET, self.new_id, areas=lambda _: self.areas, **self.options
        )
        self.attached, self.sent = "", 0
        self.tasks, self.waiting, self.asked, self.said, self.ending = [], [], [], [], []
        self.dirty, self.given = dict(self.disk), list(self.device)
        kept = [body for (kind, _), body in self.disk.items() if kind == "clone"]
        taken = [body for (kind, _), body in self.disk.items() if kind == "taken"]
        pairs = [(each, taken[0] if taken else None) for each in kept]
        self.do(self.anchors.restore(pairs, self.now))
        # Orphans are ended.
        ids = self.anchors.devices.values()
        self.inboxes = {id_: each for id_, each in self.inboxes.items() if id_ in ids}

    def kill(self):
        self.boot()

    def commit(self):
        """All that was to be written is on disk."""
        self.disk, self.device = dict(self.dirty), tuple(self.given)
        waiting, self.waiting = self.waiting, []
        for event in waiting:
            self.handle(event)
        ending, self.ending = self.ending, []
        for each in ending:
            # Elsewhere, perhaps: that is on that master's disk at once.
            self.disk.pop(("topic", each.topic), None)
            self.dirty.pop(("topic", each.topic), None)
            self.waiting.append(TopicEnded(each.device, ok=True))

    def handle(self, event):
        self.do(self.anchors.handle(event, self.now))
        self.anchors.check_invariants()

    def create(self, clone=CLONE):
        self.handle(CloneAsked("op", CreateClone("c", clone)))

    def remove(self, device=DEVICE):
        self.handle(CloneAsked("op", RemoveClone("r", device)))

    def put_out(self):
        """The clone makes something."""
        self.made += 1
        for inbox in self.inboxes.values():
            inbox["came"].append(self.made)

    def send(self):
        """The subscription sends the next one."""
        inbox = self.inboxes.get(self.attached)
        if self.said or inbox is None or self.sent >= len(inbox["came"]):
            return
        self.sent += 1
        own = {"n": float(inbox["came"][self.sent - 1]), "topic": "t", "kind": "output"}
        told = Notification(Origin("iad9", "h", self.sent), 1_000, own)
        self.handle(InboxSaid(DEVICE, self.attached, Notified(self.attached, self.sent, told)))

    def let_pass(self, seconds):
        self.now += seconds
        due = self.anchors.next_tick
        if due is not None and due <= self.now:
            self.handle(AnchorsDue())

    def do(self, instructions):  # noqa: C901  # a case for each instruction
        for each in instructions:
            match each:
                case SaveClone(device, kept):
                    self.dirty["clone", device] = kept
                case SaveTaken(device, taken):
                    self.dirty["taken", device] = taken
                case ForgetClone(device):
                    self.dirty.pop(("clone", device), None)
                    self.dirty.pop(("taken", device), None)
                case GiveOutput(device, id_, position, _, values):
                    self.given.append(values["n"])
                    self.waiting.append(OutputKept(device, id_, position))
                case PassOver(device, id_, position):
                    self.waiting.append(OutputKept(device, id_, position))
                case MakeTopic(device, topic):
                    self.dirty["topic", topic.name] = topic
                    self.waiting.append(TopicMade(device, ok=True))
                case EndTopic():
                    self.ending.append(each)
                case SendReport():
                    self.reports.append(each.report)
                case TellOperator(line):
                    self.lines.append(line)
                case AskReadings():
                    self.tasks.append(each)
                case AskPeers():
                    self.asked.append(each)
                case AskInbox(device, message):
                    self.ask_inbox(device, message)
                case PublishReading():
                    self.published = each
                case TellReading() | KeepDevice() | ForgetDevice():
                    pass
                case _:
                    raise AssertionError(each)

    def ask_inbox(self, device, message):
        id_ = message.id
        match message:
            case Subscribe(after=after):
                assert message.durable
                inbox = self.inboxes.get(id_)
                if inbox is None and after is not None:
                    self.said.append(InboxSaid(device, id_, Subscribed(id_, "refused")))
                    return
                inbox = self.inboxes.setdefault(id_, {"came": [], "had": 0})
                if after is not None:
                    assert after <= self.on_disk(device)
                    inbox["had"] = max(inbox["had"], after)
                self.attached, self.sent = id_, inbox["had"]
                self.said.append(InboxSaid(device, id_, Subscribed(id_, "open", self.sent)))
            case AcknowledgeNotifications(position=position):
                assert position <= self.on_disk(device), "only what is on disk is acknowledged"
                self.inboxes[id_]["had"] = max(self.inboxes[id_]["had"], position)
            case Unsubscribe():
                self.inboxes.pop(id_, None)
                self.attached = ""

    def inbox_says(self):
        said, self.said = self.said, []
        for event in said:
            self.handle(event)

    def on_disk(self, device):
        taken = self.disk.get(("taken", device))
        return 0 if taken is None else taken.position

    def answer(self):
        """A round's readings come."""
        task = self.tasks.pop(0)
        self.handle(ReadingsCame(task.device, task.number, result(temperature=21.5), 2_000))
