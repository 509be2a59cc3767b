"""Masters' handover planes in one process: virtual time, links in order, disks that can fail."""

from __future__ import annotations

from collections import deque

import pytest

from agent.master.moves.handover_plane import HandoverPlane
from agent.master.moves.movable import NOT_HERE, UNREADABLE
from agent.master.requests.request_plane import RequestOrigin
from agent.placement.handover.unit_records import ForgetUnit, SaveUnit
from agent.placement.world import Unit
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Answer, Coverage
from agent.wire.principals import Sender
from agent.wire.unions import PeerReply, PublicRequest


class Clock:
    def __init__(self):
        self.now = 0.0


class Things:
    """A kind of unit: `here` has the number that each unit has counted to, `late` what came for
    those that left. Calls are noted."""

    kind = "processor"
    knows = True

    def __init__(self, disk):
        self.disk = disk
        self.here = dict(disk.things)
        self.loaded, self.final, self.late_items = {}, {}, {}
        self.calls, self.working, self.owned = [], set(self.here), set(self.here)
        self.copied = set()
        self.refuses = self.damaged = ""
        self.holds = {}
        self.lingers = False  # what is on its way to the disk does not get there
        self.number = 0
        self.overtakes = []
        self.on_late = None
        self.forwarded_items = []

    def restore(self, unit, standing, _other):
        if standing in ("offered", "taken"):
            self.working.discard(unit)
            self.owned.discard(unit)
        if standing == "taken":
            self.here.pop(unit, None)
        if standing in ("released", "taken"):
            self.late_items[unit] = deque()
        return self.knows

    def units(self):
        return list(self.here)

    def lives(self, unit):
        return unit in self.here

    def copy(self, unit):
        self.copied.add(unit)
        return b"%d" % self.here[unit]

    def forget_copy(self, unit):
        self.copied.discard(unit)

    def hold(self, unit, then):
        assert unit in self.working
        if not self.lingers:
            then()

    def pause(self, unit, then):
        self.calls.append("pause")
        self.working.discard(unit)
        self.owned.discard(unit)
        then(b"%d" % self.here[unit])

    def resume(self, unit):
        self.calls.append("resume")
        self.working.add(unit)
        self.owned.add(unit)

    def release(self, unit, to):
        self.late_items[unit] = deque()
        self.here.pop(unit, None)
        self.final.pop(unit, None)
        return [("remove", unit)]

    def settles(self, unit, then):
        if unit in self.holds:
            self.holds[unit] = then
        else:
            then()

    def late(self, unit):
        waiting = self.late_items.get(unit)
        return waiting[0] if waiting else None

    def comes_late(self, unit, items):
        self.number += 1
        self.late_items[unit].append((self.number, items))
        self.on_late(unit)

    def kept(self, unit, number):
        while self.late_items[unit] and self.late_items[unit][0][0] <= number:
            self.late_items[unit].popleft()

    def end(self, unit):
        self.calls.append("end")
        self.late_items.pop(unit, None)

    def load(self, unit, copy, then):
        self.calls.append("load")
        self.loaded[unit] = copy
        then(self.refuses)

    def accept(self, unit, final):
        self.final[unit] = int(final)
        return self.damaged

    def adopt(self, unit):
        return [("put", unit, self.final[unit])]

    def work(self, unit):
        assert unit in self.disk.things
        self.calls.append("work")
        self.working.add(unit)

    def own(self, unit):
        self.calls.append("own")
        assert unit in self.working
        self.here[unit] = self.disk.things[unit]
        self.owned.add(unit)

    def stop(self, unit):
        self.calls.append("stop")
        self.working.discard(unit)

    def discard(self, unit):
        return [("remove", unit)]

    def forwarded(self, unit, items, then):
        if unit in self.here or unit in self.late_items or unit in self.final:
            self.forwarded_items.append((unit, items))
            then(UNREADABLE if items == b"damaged" else 1)
        else:
            then(NOT_HERE)


class Disk:
    """What survives; it writes when told to, or at once."""

    def __init__(self):
        self.records, self.things = {}, {}
        self.refusing = False
        self.slow = False
        self.waiting = deque()

    def write(self, changes, then):
        self.waiting.append((list(changes), then))
        if not self.slow:
            self.done()

    def done(self):
        while self.waiting:
            changes, then = self.waiting.popleft()
            for change in changes:
                match change:
                    case SaveUnit(record):
                        self.records[record.unit] = record
                    case ForgetUnit(unit):
                        self.records.pop(unit, None)
                    case ("put", unit, count):
                        self.things[unit] = count
                    case ("remove", unit):
                        self.things.pop(unit, None)
            then()


class FakePeers:
    """Links of a master to the others; `replies` gets what they say on these."""

    def __init__(self, master):
        self.master = master
        self.replies = {}

    def takes(self, kind, handler):
        self.replies[kind] = handler

    def takes_refusals(self, prefix, handler):
        self.master.on_refusal = handler

    @property
    def unreachable(self):
        cut = self.master.world.cut
        return tuple(each for each in self.master.partners if (self.master.iad, each) in cut)

    def send(self, iad, message):
        world = self.master.world
        if (self.master.iad, iad) in world.cut or iad not in self.master.partners:
            return False
        world.sent.append((self.master.iad, iad, encode(message)))
        return True


class FakeMaster:
    """One master, with the parts of it that a handover plane uses."""

    def __init__(self, world, iad, partners):
        self.world, self.iad, self.partners = world, iad, partners
        self.disk = Disk()
        self.replies, self.said, self.records = [], [], []
        self.knows = True
        self.start()

    # reactor
    def clock(self):
        return self.world.clock.now

    def add_timer(self, part):
        assert part is not None

    # public plane, operator plane
    def takes(self, kind, handler):
        self.handlers[kind] = handler

    def refuse(self, identity, _codec, sender_id, reason, line):
        answer = Answer(sender_id, "refused", 0.0, False, Coverage(0, 0), reason=reason,
                        message=line)  # fmt: skip
        self.world.refuse(self.iad, identity.decode(), answer)

    def reply(self, origin, report):
        if origin is None:
            self.replies.append(report)
        else:
            self.world.reply(self.iad, origin.identity.decode(), report)

    # life
    def start(self):
        self.handlers = {}
        self.up = True
        self.things = Things(self.disk)
        self.peers = FakePeers(self)
        self.plane = HandoverPlane(
            self,
            self.iad,
            self,
            self.peers,
            self,
            self.disk,
            [self.things],
            list(self.disk.records.values()),
            partners=self.partners,
            wall=self.clock,
            say=self.said.append,
            record=self.records.append,
        )

    def kill(self):
        self.up = False
        self.disk.waiting.clear()

    def ask(self, request):
        self.handlers[type(request)](None, request, self.clock())
        return self.replies[-1]

    def tick(self):
        due = self.plane.next_due
        if due is not None and due <= self.clock():
            self.plane.tick(self.clock())


class World:
    def __init__(self, *iads):
        self.clock = Clock()
        self.sent = deque()
        self.cut = set()
        self.decoder = Decoder(PublicRequest)
        self.replies = Decoder(PeerReply)
        self.masters = {
            iad: FakeMaster(self, iad, [other for other in iads if other != iad]) for iad in iads
        }
        self.on_message = lambda *_: None

    def __getattr__(self, iad):
        return self.masters[iad]

    def refuse(self, by, to, answer):
        self.masters[to].on_refusal(by, answer, self.clock.now)

    def reply(self, by, to, message):
        """On a connection that the other has made."""
        reply, _ = self.replies.decode(encode(message))
        self.masters[to].peers.replies[type(reply)](by, reply, self.clock.now)

    def deliver(self):
        """The next message arrives."""
        source, to, frame = self.sent.popleft()
        master = self.masters[to]
        if not master.up:
            return
        message, _ = self.decoder.decode(frame)
        origin = RequestOrigin(source.encode(), b"M", Sender("iad", source))
        if not master.knows:
            master.refuse(
                source.encode(), b"M", message.id, "malformed", "invalid value 'handover'"
            )
        else:
            master.handlers[type(message)](origin, message, self.clock.now)
        self.on_message(source, to, message.message)

    def settle(self, seconds=0.0):
        """Deliver all; then let so much time pass, in steps."""
        ends = self.clock.now + seconds
        while True:
            while self.sent:
                self.deliver()
            if self.clock.now >= ends:
                return
            self.clock.now += 0.25
            for master in self.masters.values():
                if master.up:
                    master.tick()


UNIT_NAMES = ("processor", "comfort")
UNIT = Unit(*UNIT_NAMES)


@pytest.fixture
def world():
    world = World("a", "b", "c")
    world.a.disk.things[UNIT] = 7
    world.a.start()
    return world


def owners(world):
    return [iad for iad, each in world.masters.items() if each.up and UNIT in each.things.owned]


def workers(world):
    return [iad for iad, each in world.masters.items() if each.up and UNIT in each.things.working]
