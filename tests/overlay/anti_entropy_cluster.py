"""Brokers that copy sets along a tree as `agent.overlay.anti_entropy` says, over queues that a test
may shuffle; and plain dicts of what each home ever had."""

from agent.overlay.anti_entropy import NOTHING, AntiEntropy, Delta, SnapshotPart
from agent.overlay.tree import Tree

NAMES = ["p", "q", "r", "s", "t"]
OF_A_PART = 2
# Like milliseconds of wall time: so far apart that going above an epoch never meets another one.
FIRST_EPOCH = 1_000
STARTS_APART = 100
LOST_DISK_EPOCHS = [1, 500, FIRST_EPOCH - 1]


class Cluster:
    """A tree of brokers; broker i + 1 hangs on broker `parents[i]`."""

    def __init__(self, parents):
        self.tree = Tree(
            ((f"b{p}", f"b{i + 1}") for i, p in enumerate(parents)), ["b0"] if not parents else ()
        )
        self.replicas = {}
        self.copies = {}
        self.queues = {}
        self.had = {}
        self.epochs = {}
        self.disk_lost = set()
        for broker in self.tree.vertices:
            self.epochs[broker] = {FIRST_EPOCH}
            self.start(broker, FIRST_EPOCH, {})
            for each in self.tree.neighbours(broker):
                self.queues[broker, each] = []

    def start(self, broker, epoch, items):
        """With an empty memory, its own items put back before anybody hears of them."""
        self.replicas[broker] = AntiEntropy(broker, epoch, kept_changes=3)
        self.copies[broker] = {}
        self.note(broker)
        for name, item in items.items():
            self.replicas[broker].put(name, item)
            self.note(broker)

    def note(self, home):
        """What the home has now, under its version."""
        replicas = self.replicas[home]
        had = self.had.setdefault((home, replicas.version(home)), dict(replicas.items(home)))
        assert had == replicas.items(home), "a version stands for two sets"
        self.copies[home][home] = dict(replicas.items(home))

    def send(self, broker, message, but=None):
        for each in self.tree.neighbours(broker):
            if each != but:
                self.queues[broker, each].append(message)

    def put(self, home, name, item):
        self.changed(home, self.replicas[home].put(name, item))

    def withdraw(self, home, name):
        self.changed(home, self.replicas[home].withdraw(name))

    def changed(self, home, change):
        if change is not None:
            self.note(home)
            self.send(home, change)

    def join(self, a, b, *, all_lost=False):
        """A link comes up, with or without what was under way."""
        for pair in ((a, b), (b, a)):
            if all_lost:
                self.queues[pair].clear()
            self.compare(*pair)

    def compare(self, broker, to):
        self.queues[broker, to].append(self.replicas[broker].versions())

    def busy(self):
        """Links with something under way, in one direction."""
        return [pair for pair, queue in self.queues.items() if queue]

    def deliver_some(self, pair, count):
        for _ in range(min(count, len(self.queues[pair]))):
            self.deliver(*pair, 0)

    def disturb(self, pair, place, what):
        """One message overtakes others, is lost or comes twice."""
        if what == "overtakes":
            self.deliver(*pair, place)
        elif what == "lost":
            del self.queues[pair][place]
        else:
            self.queues[pair].append(self.queues[pair][place])

    def deliver(self, sender, receiver, place):
        message = self.queues[sender, receiver].pop(place)
        if isinstance(message, dict):
            self.compared(receiver, sender, message)
        elif isinstance(message, Delta | SnapshotPart):
            self.updated(receiver, sender, message)
        else:
            self.answer(receiver, sender, *message)

    def compared(self, broker, sender, versions):
        replicas = self.replicas[broker]
        if replicas.outbid(versions):
            self.outbid(broker)
        for home in replicas.ahead_of(versions):
            self.answer(broker, sender, home, versions.get(home, NOTHING))

    def outbid(self, home):
        self.epochs[home].add(self.replicas[home].version(home).epoch)
        self.note(home)
        for update in self.replicas[home].updates(home, NOTHING, OF_A_PART):
            self.send(home, update)

    def answer(self, broker, asking, home, since):
        self.queues[broker, asking] += self.replicas[broker].updates(home, since, OF_A_PART)

    def updated(self, broker, sender, update):
        replicas = self.replicas[broker]
        before = replicas.version(update.home)
        effect = replicas.take(update)
        if effect.kind == "outbid":
            self.outbid(broker)
        elif effect.kind == "gap":
            self.queues[broker, sender].append((update.home, before))
        elif effect.kind != "news":
            assert not effect.removed
            assert not effect.added
        else:
            copy = self.copies[broker].setdefault(update.home, {})
            for name, item in effect.removed.items():
                assert copy.pop(name) == item
            for name, item in effect.added.items():
                assert name not in copy
                copy[name] = item
            for each in replicas.updates(update.home, before, OF_A_PART):
                self.send(broker, each, but=sender)

    def settle(self):
        """Everybody compares with everybody next to it until nothing is under way."""
        for pair in self.queues:
            self.compare(*pair)
        handled = 0
        while busy := self.busy():
            for pair in busy:
                self.deliver(*pair, 0)
            handled += len(busy)
            assert handled < 2_000, "it never ends"
        self.check_copies()
        self.check_settled()

    def restart(self, home, kept, epoch=None):
        """With those of its items; with a higher epoch, unless its disk is lost for the first time
        and it has that one."""
        if epoch is None or home in self.disk_lost:
            epoch = max(self.epochs[home]) + STARTS_APART
        else:
            self.disk_lost.add(home)
        self.epochs[home].add(epoch)
        items = self.replicas[home].items(home)
        self.start(home, epoch, {name: items[name] for name in items if name in kept})

    def check_copies(self):
        """Whatever a broker has is what the home had at that version."""
        for broker, each in self.replicas.items():
            for home, version in each.versions().items():
                assert each.items(home) == self.had[home, version]
                assert each.items(home) == self.copies[broker].get(home, {})
            assert len(each) == sum(len(each.items(home)) for home in each.versions())

    def check_settled(self):
        """Everybody has what the homes have now."""
        versions = {home: each.version(home) for home, each in self.replicas.items()}
        for each in self.replicas.values():
            assert each.versions() == versions
            for home in versions:
                assert each.items(home) == self.replicas[home].items(home)
