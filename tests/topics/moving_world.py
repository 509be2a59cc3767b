"""A topic that moves between two masters: real topics, inboxes and holders; a pretended processor,
overlay and network, and disks whose transactions are written when the schedule says so."""

from __future__ import annotations

import msgspec

from agent.alerts.inbox_events import (
    AcknowledgeArrived,
    ContentArrived,
    EndSubscription,
    SendPush,
    StartSubscription,
    SubscribeArrived,
)
from agent.alerts.inbox_handover import FORWARDING, STANDBY, MovableInboxes
from agent.placement.handover import events as h
from agent.placement.handover.holder import Holder
from agent.placement.handover.unit_records import ForgetUnit, SaveUnit
from agent.placement.world import Unit
from agent.topics.contents import inputs_of
from agent.topics.events import (
    AskInbox,
    Checkpointed,
    Emitted,
    Feed,
    ForgetProgress,
    InboxSaid,
    KeepTopic,
    Progress,
    Release,
    Released,
    SaveProgress,
    StartProcessor,
    StopProcessor,
    TakeCheckpoint,
    TopicHeld,
    TopicKept,
    TopicPaused,
    TopicsDue,
)
from agent.topics.movable_topics import MovableTopics, TopicCopy
from agent.wire.overlay import Notification, Origin
from agent.wire.push import Subscribe
from agent.wire.topics import Topic
from tests.alerts.disk import Disk

NAME, ID = "comfort", "f1"
UNIT = Unit("processor", NAME)
TOPIC, STANDBY_CLIENT = f"topic/{NAME}", f"{STANDBY}{NAME}"
TIMING = h.Timing(lease_s=2.0, patience_s=4.0)
encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode


class Master:
    """One of the two, with the shell of a master that moves topics, in short."""

    def __init__(self, world, name, other):
        self.world, self.name, self.other = world, name, other
        self.disk = Disk()
        self.documents = {}
        self.topic = world.topic
        self.boot()

    @property
    def forwarding(self):
        return f"{FORWARDING}{self.other}/{NAME}"

    def boot(self):
        """Start, from what is on disk."""
        self.inboxes = MovableInboxes(lambda given: given)
        self.topics = MovableTopics(self.name, lambda: ID)
        self.holder = Holder(UNIT, TIMING)
        self.gathered, self.thens = [], []
        self.subscribed = {}  # at its broker: filters by name
        self.came = []  # what an inbox sent to the topic
        self.fed, self.emitted, self.running, self.snapshot = [], [], None, False
        self.loading = self.final = None
        self.take(self.inboxes.restore(self.disk.load()[1], self.world.now))
        records = {record.unit: record for record in self.disk.load_units()}
        record = records.get(UNIT)
        progress = [(each.name, each.progress) for each in self.disk.load_topics()]
        standing = record.standing if record else ""
        if standing == "released":
            self.documents.pop(NAME, None)
        self.do(self.topics.restore(
            self.documents.values(), progress, self.world.now,
            offered=[NAME] if standing == "offered" else [],
            taken=[NAME] if standing == "taken" else [],
        ))  # fmt: skip
        if record is not None:
            self.follow(self.holder.recover(record, h.Checkpoint(), self.world.now))
            if standing == "owner":
                self.write()  # before anything else happens: it is at work again
        if self.inboxes.has(self.forwarding, ID) and self.topics.lives(NAME):
            self.take(self.inboxes.absorb(TOPIC, ID))

    def begin(self):
        """The topic is made here."""
        self.documents[NAME] = self.topic
        self.disk.topics[NAME] = SaveProgress(NAME, self.world.progress)
        self.disk.units[UNIT] = h.Record(UNIT, 1, "owner")
        self.boot()

    # --- disk ---

    def take(self, instructions, then=None):
        for each in instructions:
            match each:
                case StartSubscription(name, filter_):
                    self.subscribed[name] = filter_
                case EndSubscription(name):
                    del self.subscribed[name]
                case SendPush(peer, message):
                    if peer == "topic":
                        self.came.append(message)
                case _:
                    self.gathered.append(each)
        self.inboxes.check_invariants()
        if then is not None:
            self.thens.append(then)

    def write(self):
        """What was gathered is written in one transaction."""
        gathered, self.gathered = self.gathered, []
        thens, self.thens = self.thens, []
        self.disk.write(gathered)
        for then in thens:
            then()

    # --- handover ---

    def follow(self, instructions):
        for each in instructions:
            match each:
                case h.Send(message):
                    self.world.network.append((self.other, self.name, message))
                case h.Write(record):
                    self.record(record)
                case h.MakeCopy():
                    inbox = self.inboxes.remembered(TOPIC, ID)
                    self.copied = inbox.last
                    self.told(h.Copied(h.Checkpoint(encode(self.topics.copy(NAME, inbox)))))
                case h.Load(checkpoint):
                    self.load(decode(checkpoint.state, type=TopicCopy))
                case h.Pause():
                    self.do(self.topics.hold(NAME))
                case h.Work():
                    self.do(self.topics.work(NAME, self.world.now))
                case h.Stop():
                    self.stop()

    def told(self, event, sender=""):
        if isinstance(event, h.Final):
            self.final = event.checkpoint
        owned = self.holder.owns
        self.follow(self.holder.handle(event, self.world.now, sender))
        if self.holder.owns and not owned and self.came_here():
            self.do(self.topics.own(NAME))
            if self.inboxes.has(self.forwarding, ID):
                self.take(self.inboxes.absorb(TOPIC, ID))

    def came_here(self):
        return NAME in self.topics and not self.topics.lives(NAME)

    def record(self, record):
        standing = record.standing if record else ""
        changes = [ForgetUnit(UNIT) if record is None else SaveUnit(record)]
        now = self.world.now
        if standing == "taken":
            final = decode(self.final.state, type=TopicCopy)
            self.do(self.topics.load(final, now))
            changes += self.inboxes.adopt(STANDBY_CLIENT, ID, TOPIC, final.inbox, now)
            changes.append(SaveProgress(NAME, self.topics.progress(NAME)))
        elif standing == "released":
            cut, self.cut = self.cut, 0
            changes += self.inboxes.release(TOPIC, ID, self.forwarding, cut)
            changes.append(ForgetProgress(NAME))
            self.do(self.topics.drop(NAME))
            self.thens.append(lambda: self.documents.pop(NAME, None))
        elif record is None:
            changes += self.inboxes.end(TOPIC, ID)
            changes.append(ForgetProgress(NAME))
            if NAME in self.topics:
                self.do(self.topics.drop(NAME))
        self.take(changes, lambda: self.told(h.Written(record)))

    cut = 0

    def load(self, copy):
        if NAME in self.topics and self.topics.lives(NAME):
            raise AssertionError("it is here already")
        self.do(self.topics.load(copy, self.world.now))
        self.take(self.inboxes.stand_by(STANDBY_CLIENT, ID, copy.inbox.filter, self.world.now))
        for part in copy.inbox.parts(3):
            self.take(self.inboxes.learn(STANDBY_CLIENT, ID, part))
        self.loading = copy

    def has_collected(self, p, n):
        collected = [item for each in self.inboxes._collected.values() for item in each]
        waiting = self.inboxes._forwarded(ID)
        return any(
            (each.key.history, each.key.sequence) == (f"h{p}", n) for each in collected + waiting
        )

    def stop(self):
        self.loading = None
        if self.inboxes.has(STANDBY_CLIENT, ID):
            self.take(self.inboxes.end(STANDBY_CLIENT, ID))
            self.do(self.topics.drop(NAME))
        elif NAME in self.topics and not self.topics.lives(NAME):
            self.do(self.topics.halt(NAME, self.world.now))

    # --- topic ---

    def do(self, instructions):
        for each in instructions:
            match each:
                case AskInbox(_, message):
                    kind = (
                        SubscribeArrived if isinstance(message, Subscribe) else AcknowledgeArrived
                    )
                    asked = kind("topic", TOPIC, message)
                    self.take(self.inboxes.handle(asked, self.world.now))
                case StartProcessor(_, epoch, progress):
                    assert self.running is None
                    self.running, self.fed, self.done = epoch, [], progress.position
                    self.emitted = []
                    self.count = int(progress.state or b"0")
                case StopProcessor():
                    assert self.running is not None
                    self.running, self.snapshot = None, False
                case _:
                    self.do_more(each)
        self.topics.check_invariants()

    def do_more(self, each):
        match each:
            case Feed(_, position, body):
                if self.running is not None:
                    assert position == (self.fed[-1][0] if self.fed else self.done) + 1
                    self.fed.append((position, body))
            case TakeCheckpoint():
                self.snapshot = True
            case Release(_, epoch, progress, notifications):
                assert self.topics.lives(NAME)
                self.take([SaveProgress(NAME, progress)], self.released(epoch, notifications))
            case KeepTopic(topic, epoch):
                self.documents[NAME] = topic
                self.take([], lambda: self.handle(TopicKept(NAME, epoch)))
            case TopicHeld():
                self.do(self.topics.pause(NAME, self.world.now))
            case TopicPaused():
                inbox = self.inboxes.copy(TOPIC, ID, self.copied)
                self.cut = inbox.last
                final = encode(self.topics.copy(NAME, inbox))
                self.told(h.Paused(h.Checkpoint(final)))
            case _:
                raise AssertionError(each)

    def released(self, epoch, notifications):
        def then():
            self.world.told += notifications
            self.handle(Released(NAME, epoch))

        return then

    def handle(self, event):
        self.do(self.topics.handle(event, self.world.now))

    # --- what happens ---

    def hear(self):
        """The topic gets a message of its inbox."""
        if self.came:
            self.handle(InboxSaid(NAME, ID, self.came.pop(0)))

    def process(self):
        if self.fed and self.running is not None:
            position, body = self.fed.pop(0)
            self.count += 1
            self.done = position
            said = decode(body)
            output = {"p": said["p"], "n": said["n"], "count": self.count}
            self.handle(Emitted(NAME, self.running, position, (output,)))

    def checkpoint(self):
        if self.snapshot and self.running is not None:
            self.snapshot = False
            state = str(self.count).encode()
            self.handle(Checkpointed(NAME, self.running, self.done, state))

    def loaded(self):
        """The copy is loaded, and everybody who is to know of it does."""
        if self.loading is not None and (not self.world.spreads or self.world.spread(self)):
            self.loading = None
            self.told(h.Loaded())

    def tick(self):
        due = self.holder.next_due
        if due is not None and due <= self.world.now:
            self.told(h.Tick())
        if (due := self.topics.next_tick) is not None and due <= self.world.now:
            self.handle(TopicsDue())

    def forward(self):
        """Send what comes late to where the topic is."""
        if not self.inboxes.has(self.forwarding, ID):
            return
        late = self.inboxes.copy(self.forwarding, ID)
        contents = [content for _, content in late.items() if content is not None]
        if contents:
            self.world.network.append((self.other, self.name, ("late", late.last, contents)))

    def late(self, last, contents):
        try:
            instructions, _ = self.inboxes.take(TOPIC, ID, contents)
        except KeyError:
            return
        reply = (self.other, self.name, ("kept", last))
        self.take(instructions, lambda: self.world.network.append(reply))

    def kept(self, last):
        if self.inboxes.has(self.forwarding, ID):
            asked = Subscribe(ID, inputs_of(NAME), durable=True, after=last)
            event = SubscribeArrived("plane", self.forwarding, asked)
            self.take(self.inboxes.handle(event, self.world.now))

    def kill(self):
        self.boot()
        self.world.killed(self)


class World:
    """Two publishers, and the masters that each knows to want what it publishes. Its messages to a
    master come in order, and again until they are on disk there."""

    def __init__(self, *, processor=True, spreads=True):
        self.topic = Topic(NAME, processor="count") if processor else Topic(NAME)
        self.now = 10.0
        self.spreads = spreads
        self.network = []
        self.told = []
        self.attempts = 0
        self.progress = Progress(ID)
        self.masters = {}
        self.a = self.masters["iad1"] = Master(self, "iad1", "iad2")
        self.b = self.masters["iad2"] = Master(self, "iad2", "iad1")
        self.published = [0, 0]
        self.known = [{"iad1"}, {"iad1"}]
        # What each publisher has for each master; those that are on the way to its disk.
        self.queues = {(p, name): [] for p in (0, 1) for name in self.masters}
        self.sent = dict.fromkeys(self.queues, 0)
        self.a.begin()

    # --- overlay ---

    def publish(self, publisher):
        self.published[publisher] += 1
        n = self.published[publisher]
        for name in self.known[publisher]:
            self.queues[publisher, name].append(n)

    def learn(self, publisher):
        """The publisher hears who wants what it publishes."""
        wanting = {name for name, each in self.masters.items() if each.subscribed}
        if wanting:
            self.known[publisher] = wanting

    def spread(self, target):
        """Whether every publisher knows it, and nothing is on its way to the other one only."""
        return all(target.name in known for known in self.known) and all(
            n in self.queues[p, target.name] or target.has_collected(p, n)
            for p in (0, 1)
            for n in self.queues[p, target.other]
        )

    def deliver(self, publisher, master):
        """The next message arrives; the publisher may forget it when it is on disk."""
        key = publisher, master.name
        queue = self.queues[key]
        if self.sent[key] < len(queue):
            n = queue[self.sent[key]]
            self.sent[key] += 1
            told = Notification(
                Origin("iad9", f"h{publisher}", n), n,
                {"iad": "iad9", "topic": NAME, "kind": "input", "p": publisher, "n": n},
            )  # fmt: skip
            arrived = ContentArrived(tuple(master.subscribed), told)

            def have():
                queue.pop(0)
                self.sent[key] -= 1

            master.take(master.inboxes.handle(arrived, self.now), have)

    def killed(self, master):
        """What it had not on disk comes again."""
        for publisher in (0, 1):
            self.sent[publisher, master.name] = 0

    # --- network ---

    def pass_on(self, n=0, *, lose=False):
        """A message between the masters arrives, or is lost."""
        if n < len(self.network):
            receiver, sender, message = self.network.pop(n)
            if lose:
                return
            master = self.masters[receiver]
            match message:
                case ("late", last, contents):
                    master.late(last, contents)
                case ("kept", last):
                    master.kept(last)
                case _:
                    master.told(message, sender)

    def move(self):
        """Whoever has the topic is to hand it over."""
        for master in self.masters.values():
            holder = master.holder
            if holder.epoch is not None and holder.machine is None and master.topics.lives(NAME):
                self.attempts += 1
                master.follow(holder.begin(master.other, self.attempts, self.now))

    def wait(self, seconds=0.6):
        self.now += seconds
        for master in self.masters.values():
            master.tick()

    def end(self):
        """A former master takes in nothing any more, when everybody knows where the topic is."""
        for master in self.masters.values():
            if (
                master.inboxes.has(master.forwarding, ID)
                and master.holder.machine is None  # its release is on disk
                and not master.inboxes.copy(master.forwarding, ID).contents
                and all(master.other in known for known in self.known)
                and not any(self.queues[p, master.name] for p in (0, 1))
            ):
                master.take(master.inboxes.end(master.forwarding, ID))

    def step(self, master):
        for p in (0, 1):
            self.deliver(p, master)
        for each in ("hear", "process", "checkpoint", "write", "loaded"):
            getattr(master, each)()

    def settle(self):
        """Everything that is under way comes to its end."""
        for turn in range(400):
            for p in (0, 1):
                self.learn(p)
            for master in self.masters.values():
                for _ in range(4):
                    self.step(master)
                if turn % 4 == 0:
                    master.forward()
            for _ in range(len(self.network)):
                self.pass_on()
            self.wait(0.1)
            if turn > 60 and self.quiet:
                break
        self.end()
        for master in self.masters.values():
            master.write()

    @property
    def quiet(self):
        return not (
            self.network or any(self.queues.values())
            or any(m.came or m.fed or m.gathered or m.thens for m in self.masters.values())
        )  # fmt: skip

    def check(self):
        """Nothing is lost or doubled; in the order of its publisher where that was promised."""
        told = [(each.attributes["p"], each.attributes["n"]) for each in self.told]
        everything = [(p, n + 1) for p in (0, 1) for n in range(self.published[p])]
        assert sorted(told) == everything
        if self.topic.processor:
            assert [each.attributes["count"] for each in self.told] == [
                n + 1 for n in range(len(told))
            ]
        assert [each.origin.sequence for each in self.told] == [*range(len(told))]
        if self.spreads:
            for p in (0, 1):
                ours = [n for publisher, n in told if publisher == p]
                assert ours == sorted(ours)
        owners = [each for each in self.masters.values() if each.topics.lives(NAME)]
        assert len(owners) == 1
        (owner,) = owners
        assert owner.inboxes.ids_of(TOPIC) == [ID]
        assert len(owner.inboxes) == 1
