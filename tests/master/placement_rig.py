"""Placement in the hands of masters: sockets, disk, topics and the mover are the test's."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from agent.master.moves.movable import MoveStatus
from agent.master.placement.latency_model import model_of
from agent.master.placement.placement_plane import PlacementPlane
from agent.master.requests.request_plane import RequestOrigin
from agent.master.storage.state import State
from agent.placement.world import PlacementError
from agent.runtime.reactor import Reactor
from agent.wire.config import parse
from agent.wire.master_config import MasterConfig
from agent.wire.placement import GrantTold, PlacementEcho, ShowPlacement, UnitName
from agent.wire.principals import Sender
from agent.wire.topics import Topic, TopicStatus

NAMES = ("iad1", "iad2", "iad3")
ONE_WAY_S = {("iad1", "iad2"): 0.010, ("iad1", "iad3"): 0.040, ("iad2", "iad3"): 0.030}
COMFORT, NOTES = UnitName("processor", "comfort"), UnitName("processor", "notes")
ANYONE = Sender("anyone", "x")


class Site:
    """A master, and everything around its plane."""

    def __init__(self, world, iad, folder, **placement):
        self.world, self.iad, self.folder = world, iad, folder
        table = {
            "iad": {"name": iad},
            "sockets": {"public": "ipc:///run/p", "operator": "ipc:///run/o"},
            "pool": [
                {"iad": name, "address": "ipc:///run/p", "areas": [f"{name}/a"]} for name in NAMES
            ],
            "placement": placement,
        }
        self.config = parse(table, MasterConfig, "test")
        self.peer_arrivals = {}
        self.kept, self.arrivals, self.on_created, self.on_removed = {}, {}, None, None
        self.heard, self.sizes, self.homes = Counter(), {}, []
        self.up, self.said, self.moves, self.unknown = True, [], [], ()
        self.looks, self.look_s = 0, 0.0  # how often it looked at what it has, what that takes
        self.epochs = count(1)
        self.start()

    def start(self):
        self.handlers, self.replies = {}, []
        reactor = Reactor(lambda: self.world.now)
        self.state = State(self.folder / f"{self.iad}.sqlite", reactor.clock)
        self.plane = PlacementPlane(
            reactor, self.config, self.state, self, self, self, self, self.said.append,
            partners=[each.iad for each in self.config.pool if each.iad != self.iad],
            mover=self, epoch=next(self.epochs), listeners=self.listeners,
            sizes=lambda: self.sizes, homes=lambda: self.homes,
            model=model_of(self.config, self.folder),
        )  # fmt: skip

    def restart(self):
        self.state.close()
        self.start()

    # As public and operator socket, and as peers.

    def takes(self, kind, handler):
        self.handlers[kind] = handler

    def reply(self, _origin, message):
        self.replies.append(message)

    def send(self, iad, message):
        if self.up and (iad, self.iad) not in self.world.cut:
            way_s = self.world.way_s(self.iad, iad)
            self.world.wire.append((self.world.now + way_s, self.iad, iad, message))
        return self.up

    @property
    def unreachable(self):
        return [name for name, site in self.world.sites.items() if not site.up]

    # As topics and mover.

    @property
    def statuses(self):
        return tuple([self.kept[name] for name in sorted(self.kept)])

    def begin(self, unit, target, reason):
        if unit.name in self.world.stuck:
            raise PlacementError("it does not want to")
        self.moves.append(MoveStatus(unit, self.iad, target, reason, "shadowing", 0.0))

    def finish(self, trouble=""):
        """The last move is over."""
        move = self.moves.pop()
        over = "aborted" if trouble else "settled"
        self.moves.append(
            MoveStatus(move.unit, move.source, move.target, move.reason, over, 0.0, trouble=trouble)
        )
        if not trouble:
            self.world.sites[move.target].kept[move.unit.name] = self.kept.pop(move.unit.name)
        self.world.run(1.0)

    def where(self, _unit):
        return None

    def listeners(self):
        self.looks += 1
        self.world.now += self.look_s
        return self.heard

    # For the test.

    def create(self, name, **fields):
        self.kept[name] = TopicStatus(Topic(name, **fields), "ready")
        return self.on_created(name)

    def remove(self, name):
        del self.kept[name]
        self.on_removed(name)
        self.state.flush()

    def ask(self, request):
        origin = RequestOrigin(b"o", b"M", ANYONE)
        self.handlers[type(request)](origin, request, self.world.now)
        self.state.flush()
        return self.replies.pop()

    def begun(self):
        return [(each.unit.name, each.target, each.reason) for each in self.moves]


class World:
    def __init__(self, folder, **placement):
        self.now, self.wire, self.cut, self.stuck = 100.0, [], set(), set()
        self.sites = {}
        for name in NAMES:
            self.sites[name] = Site(self, name, folder, **placement)

    def way_s(self, one, other):
        return ONE_WAY_S[tuple(sorted((one, other)))]

    def run(self, seconds):
        """Time passes, messages arrive."""
        end = self.now + seconds
        while True:
            up = [site.plane for site in self.sites.values() if site.up]
            timers = [timer for plane in up for timer in (plane.facts, plane)]
            dues = [(timer.next_due, "", timer) for timer in timers]
            dues += [(each[0], "wire", each) for each in self.wire]
            due, kind, what = min(dues, key=lambda each: each[0])
            if due > end:
                break
            self.now = max(self.now, due)
            if kind:
                self.wire.remove(what)
                self.deliver(*what[1:])
            else:
                what.tick(self.now)
        self.now = end

    def deliver(self, source, target, message):
        site = self.sites[target]
        if not site.up:
            return
        origin = RequestOrigin(b"p", b"M", Sender("iad", source))
        if isinstance(message, PlacementEcho | GrantTold):
            site.handlers[type(message)](source, message, self.now)
            return
        if type(message) in site.unknown:
            return
        before = len(site.replies)
        site.handlers[type(message)](origin, message, self.now)
        for reply in site.replies[before:]:
            site.replies.remove(reply)
            site.send(source, reply)

    def __getitem__(self, number):
        return self.sites[NAMES[number - 1]]


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    world.run(10.0)
    yield world
    for site in world.sites.values():
        site.state.close()


def known(site):
    report = site.ask(ShowPlacement("s"))
    assert report.ok
    return {each.facts.iad: each for each in report.known}


def closed(world):
    for site in world.sites.values():
        site.state.close()
