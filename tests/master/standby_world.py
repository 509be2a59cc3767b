"""Masters with a topic that has a standby, in virtual time: the real planes of both sides and of
leases, over disks that take a while, links that lose messages, crashes and partitions.

The topic is modelled: it makes an output a moment, another one each time that it is made. An output
has a number; whoever gives a number to two different ones has doubled it.
"""

from __future__ import annotations

import random
from collections import deque

import msgspec

from agent.alerts.inbox_handover import InboxCopy
from agent.alerts.notifications import history_of
from agent.master.requests.request_plane import RequestOrigin
from agent.master.standby.guards import KIND, Guards
from agent.master.standby.kept_guards import kept_guards
from agent.master.standby.lease_plane import LeasePlane
from agent.master.standby.standby_plane import TO_OWNER
from agent.master.standby.standbys import Standbys
from agent.master.storage import state as storage
from agent.placement.world import Unit
from agent.topics.contents import OUTPUT, inputs_of
from agent.topics.events import Progress, Release
from agent.topics.shadow import Checkpoint, Named
from agent.wire.codec import Decoder, encode
from agent.wire.handover import Handover
from agent.wire.overlay import Notification, Origin
from agent.wire.principals import Sender
from agent.wire.topics import Topic
from agent.wire.unions import PublicRequest

UNIT = Unit(KIND, "t")
TOPIC = Topic("t", standby=True)
HISTORY = history_of("topic/t", "inc")
STEP_S = 0.05
# So many outputs a subscriber recognises when they come again.
MEMORY = 30


class Broken(AssertionError):
    """Something that must never be."""


class Disk:
    """Of a master: documents, and the topic with its spool. Writes keep their order; a crash loses
    those that are not done."""

    def __init__(self):
        self.documents = {}
        self.topic = None  # its progress
        self.spool = {}
        self.records = {}  # epoch, and where it went
        self.writes = deque()

    def write(self, change, then):
        self.writes.append((change, then))


class State:
    read = storage.State.read

    def __init__(self, disk):
        self.disk = disk
        self.made = []

    def all(self, kind):
        return {key: body for (its, key), body in self.disk.documents.items() if its == kind}

    def put(self, kind, key, body):
        self.disk.write(lambda: self.disk.documents.__setitem__((kind, key), body), lambda: None)

    def remove(self, kind, key):
        self.disk.write(lambda: self.disk.documents.pop((kind, key), None), lambda: None)

    def when_durable(self, then):
        self.disk.write(lambda: None, then)


class Master:
    """One master, and what Guards, Standbys and LeasePlane use of it."""

    has_no_inbox = False  # a move to here that was given up has ended it
    has_others = False  # it stands by for other units

    def __init__(self, world, name):
        self.world, self.name = world, name
        self.disk = Disk()
        self.life = 1_000
        self.up = False

    def start(self, *, has=False, new=False):
        self.up = True
        self.life += 1
        self.disk.writes.clear()
        if has:
            self.disk.topic = Progress("inc")
        self.progress = self.disk.topic  # given to the disk last
        self.spool = dict(self.disk.spool)
        self.making = None  # a release under way
        self.waiting = []
        self.takes = lambda kind, handler: setattr(self, "lease_told", handler)
        state = State(self.disk)
        self.leases = LeasePlane(
            self.clock, self.name, self.world.names, state, self, self, self.life, new=new
        )
        self.guards = Guards(
            self.clock, state, self.leases, self, self, self, self, self.second, self.life,
            lambda line: None,
        )  # fmt: skip
        self.standbys = Standbys(
            self.clock, state, self.leases, self, self, lambda: False, self.clock,
            lambda line: None,
        )  # fmt: skip
        self.works = self.progress is not None and "t" not in kept_guards(state)

    def crash(self):
        self.up = False

    # reactor, public plane, peers
    def clock(self):
        return self.world.now

    def send(self, to, message):
        self.world.send(self.name, to, message)

    # handover plane
    def tell(self, to, unit, message):
        self.world.send(self.name, to, Handover("h.0", self.name, "processor", "t", message))

    def moving(self, unit):
        return False

    def epoch(self, unit):
        return self.disk.records.get(unit, (0, None))[0]

    def where(self, unit):
        gone = self.disk.records.get(unit, (0, None))[1]
        return gone if self.progress is None else None

    def freed(self, unit):
        pass

    def lost(self, unit, epoch, to):
        self.progress, self.works, self.making = None, False, None

        def written():
            self.disk.records[unit] = (epoch, to)
            self.disk.topic = None

        self.disk.write(written, lambda: None)

    def take_over(self, unit, epoch=None, changes=None, then=None):
        if epoch is None:
            return self.take_over_shadow(unit)
        progress, spooled = changes

        def written():
            self.disk.records[unit] = (epoch, None)
            self.disk.topic = progress
            self.disk.spool |= spooled

        def taken():
            self.progress, self.works = progress, True
            self.spool |= spooled
            then()

        self.disk.write(written, taken)
        return None

    # topics, their moves
    def lives(self, unit):
        return self.progress is not None

    def resume(self, unit):
        self.works = True

    def to_release(self, name):
        return list(self.waiting)

    def let_go(self, release):
        self.waiting.append(release)

    def second(self, unit):
        others = [each for each in self.world.names if each != self.name]
        return self.world.random.choice(others)

    # shadows
    @property
    def wanted(self):
        return ["t"] if self.progress is not None else []

    def incarnation(self, name):
        return "" if self.progress is None else "inc"

    def disown(self, name, incarnation):
        self.spool.clear()
        self.disk.write(self.disk.spool.clear, lambda: None)

    def has_room(self, outputs):
        return True

    def named(self, name):
        return msgspec.msgpack.encode(Named(TOPIC, "inc"))

    def last(self, name):
        return 0

    def checkpoint(self, name, after, beyond, waiting):
        held = dict(self.spool)
        held |= {each.origin: each for each in (waiting.notifications if waiting else ())}
        settled = min([each.sequence for each in held], default=self.progress.put_out)
        told = tuple([each for origin, each in held.items() if origin.sequence >= beyond])
        inbox = InboxCopy(inputs_of("t"), 0, 0)
        body = msgspec.msgpack.encode(Checkpoint(TOPIC, self.progress, inbox, told, settled))
        return body, 0, self.progress.put_out

    def why_not(self, named):
        return "it is here" if self.progress is not None else ""

    def begin(self, named, now):
        self.has_no_inbox = False

    def has_inbox(self, named):
        return not self.has_no_inbox

    def cover(self, named, shadow):
        pass

    def end(self, named):
        pass

    def take_over_shadow(self, shadow):
        final = shadow.copy()
        outputs = dict(shadow.outputs)
        publish = lambda: [self.world.publish(each) for each in outputs.values()]  # noqa: E731
        return (final.progress, outputs), publish

    # --- life ------------------------------------------------------------------------------------

    def turn(self):
        if self.guards or self.standbys or self.wanted or self.has_others:
            self.leases.turn({*self.guards.watched(), *self.standbys.watched()})
            self.guards.turn(self.world.now)
            self.standbys.turn(self.world.now)
        self._put_out()
        if self.works and self.progress is not None and self.making is None:
            self._make()
        written = [o for o in self.spool if o in self.disk.spool and not self.withholds(o)]
        for origin in [each for each in written if self.world.random.random() < 0.3]:
            self.world.publish(self.spool.pop(origin))
            self.disk.write(lambda origin=origin: self.disk.spool.pop(origin, None), lambda: None)

    def withholds(self, origin):
        return self.guards.withholds(self.spool[origin])

    def _make(self):
        number = self.progress.put_out
        told = {"n": self.world.random.random(), "topic": "t", "kind": OUTPUT}
        made = Notification(Origin(self.name, HISTORY, number), 0, told)
        self.progress = Progress("inc", put_out=number + 1, position=number + 1)
        release = self.making = Release("t", 1, self.progress, (made,))
        if not self.guards.waits(release):
            self.waiting.append(release)

    def _put_out(self):
        waiting, self.waiting = self.waiting, []
        for release in waiting:
            if release is not self.making:
                continue
            spooled = {each.origin: each for each in release.notifications}
            self.spool |= spooled

            def written(release=release, spooled=spooled):
                self.disk.topic = release.progress
                self.disk.spool |= spooled

            def released(release=release):
                if self.making is release:
                    self.making = None
                for each in release.notifications:
                    self.world.publish(each)

            self.disk.write(written, released)

    def writes(self):
        """Some of what waits for the disk is done."""
        while self.up and self.disk.writes and self.world.random.random() < 0.7:
            change, then = self.disk.writes.popleft()
            change()
            then()

    def heard(self, sender, message):
        origin = RequestOrigin(sender.encode(), b"M", Sender("iad", sender))
        if not isinstance(message, Handover):
            self.lease_told(origin, message, self.world.now)
        elif isinstance(message.message, TO_OWNER):
            self.guards.heard(UNIT, sender, message.message)
        else:
            self.standbys.heard(UNIT, sender, message.message)


class World:
    """`losses`: which part of the messages is lost."""

    def __init__(self, seed, names=("a", "b", "c"), losses=0.02):
        self.random = random.Random(seed)
        self.names = names
        self.now = 0.0
        self.losses = losses
        self.cut = set()
        self.links = {(one, two): deque() for one in names for two in names if one != two}
        self.out = {}  # outputs by number
        self.came = set()
        self.known = {}  # those that the subscriber remembers, the oldest first
        self.decoder = Decoder(PublicRequest)
        self.masters = {name: Master(self, name) for name in names}
        for name, master in self.masters.items():
            master.start(has=name == names[0])

    def send(self, sender, to, message):
        comes = self.random.random() >= self.losses and (sender, to) not in self.cut
        if comes and self.masters[to].up:
            self.links[sender, to].append(encode(message))

    def publish(self, notification):
        number = notification.origin.sequence
        if self.out.setdefault(number, notification) != notification:
            raise Broken(f"output {number} is {self.out[number]} and {notification}")
        if number in self.known:
            return
        if number in self.came:
            raise Broken(f"output {number} comes for the second time after it was forgotten")
        self.came.add(number)
        self.known[number] = None
        if len(self.known) > MEMORY:
            del self.known[next(iter(self.known))]

    def step(self):
        self.now += STEP_S
        order = list(self.masters.values())
        self.random.shuffle(order)
        for master in order:
            if master.up:
                master.writes()
                master.turn()
        for (sender, to), messages in self.links.items():
            while messages and self.random.random() < 0.8:
                message, _ = self.decoder.decode(messages.popleft())
                if self.masters[to].up:
                    self.masters[to].heard(sender, message)

    def run(self, seconds):
        for _ in range(round(seconds / STEP_S)):
            self.step()

    def lose_disk(self, name):
        """Its process ends, and begins at once without what was on its disk."""
        self.crash(name)
        master = self.masters[name]
        master.disk = Disk()
        master.start(new=True)

    def crash(self, name):
        self.masters[name].crash()
        for link, messages in self.links.items():
            if name in link:
                messages.clear()

    def isolate(self, name):
        self.cut = {link for link in self.links if name in link}

    def works(self):
        """Where the topic is at work."""
        return [n for n, each in self.masters.items() if each.up and each.works and each.progress]

    def heal(self):
        self.cut = set()
        self.losses = 0.0
        for master in self.masters.values():
            if not master.up:
                master.start()

    def check_end(self):
        """It is at work at one master, and every output came."""
        self.heal()
        self.run(30.0)
        before = len(self.out)
        self.run(10.0)
        works = self.works()
        if len(works) != 1:
            raise Broken(f"it works at {works}")
        if len(self.out) <= before:
            raise Broken(f"nothing is put out at {works[0]}")
        if sorted(self.out) != [*range(len(self.out))]:
            raise Broken("an output is missing")


def campaign(seed, names=("a", "b", "c")):
    """A random life of the topic; how often it was taken over."""
    world = World(seed, names, losses=random.Random(seed).choice([0.0, 0.02, 0.2]))
    for _ in range(world.random.randint(1, 6)):
        world.run(world.random.uniform(0.0, 9.0))
        name = world.random.choice(world.names)
        match world.random.choice(["crash", "crash", "restart", "cut", "heal"]):
            case "crash" if world.masters[name].up:
                world.crash(name)
            case "restart" if world.masters[name].up:
                world.crash(name)
                world.run(world.random.uniform(0.0, 2.0))
                world.masters[name].start()
            case "cut":
                world.isolate(name)
            case "heal":
                world.cut = set()
                for each in world.masters.values():
                    if not each.up:
                        each.start()
    world.run(world.random.uniform(0.0, 9.0))
    world.check_end()
    return len({each.origin.publisher for each in world.out.values()}) - 1
