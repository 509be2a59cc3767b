"""Three masters of a pool, overlay and market, their registration service, nodes and clients in one
process, joined by channels that keep order. Whatever is sent passes a channel, where it may be
changed; `World.step` delivers one frame."""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec

from agent.directory.server import Server
from agent.master import master as masters
from agent.net.message_socket import MessageSocket
from agent.scheduling.buckets import buckets_of
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.base import TRIGGER_CLEARED, TRIGGER_RAISED, Message
from agent.wire.codec import WireError, encode
from agent.wire.derived import Derived, DerivedTaken
from agent.wire.drs_config import DrsConfig
from agent.wire.master_config import MasterConfig
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.principals import Sender
from tests.fuzz.sockets import NODES, OPERATOR, PUBLIC, Nowhere, Router, hear

IADS: Final = ("iad1", "iad2", "iad3")
CONFIG: Final = """
[iad]
name = "{iad}"
[sockets]
public = "ipc://{folder}/{iad}/public"
nodes = "ipc://{folder}/{iad}/nodes"
operator = "ipc://{folder}/{iad}/operator"
[records]
directory = "records"
rotate_bytes = 1_000_000
keep_files = 2
[state]
path = "{state}"
[processing]
workers = 1
[market]
directories = ["ipc://{folder}/drs"]
[[offers]]
capability = "temperature"
areas = ["{iad}"]
[placement]
every_s = 0.2
drift = true
bootstrap = {bootstrap}
[overlay]
vertex = "{iad}"
links = [["iad1", "iad2"], ["iad1", "iad3"]]
"""
NEIGHBOUR: Final = """
[[overlay.neighbour]]
iad = "{iad}"
vertex = "{iad}"
cluster = 0
address = "{address}"
"""
MEMBER: Final = '[[pool]]\niad = "{iad}"\naddress = "{address}"\nareas = ["{iad}"]\n'
OLD: Final = ("bad", "far")
"""Nodes that make no buckets."""
TEMPERATURE: Final = 20.5
STEP_S: Final = 0.005
"""Between two frames; heartbeats are due every second."""
EACH: Final = 8
"""Frames between two turns of timers."""
CROWD: Final = 6
"""Of so many frames that wait, one more arrives in each step."""

Deliver = Callable[[bytes], None]
Tamper = Callable[[str, bytes], list[bytes]]
"""(name of a channel, a frame) → the frames that arrive instead."""


class Node:
    """An edge node that answers at once; its readings are all the same."""

    def __init__(
        self, world: World, name: str, iad: str, masters: tuple[str, ...], areas: tuple[str, ...]
    ) -> None:
        self.name, self.iad = name, iad
        self._masters = masters
        self._world = world
        self._areas = areas
        self._events = 0
        self._waiting: dict[int, nm.NodeEvent] = {}
        self.raised: list[int] = []  # when, in milliseconds since 1970
        self.hello()

    def hello(self) -> None:
        """Introduce itself."""
        self._send(
            nm.Hello(
                self.name,
                f"boot-{self.name}",
                f"history-{self.name}",
                self._areas,
                ("temperature",),
                2,
                "1.0",
                masters=self._masters,
                takes_derived=True,
                makes_buckets=self.name not in OLD,
            )
        )

    def beat(self) -> None:
        """Say that it lives, and what it still has to say."""
        self._send(nm.Heartbeat(f"boot-{self.name}"))
        self._tell_events()

    def raise_event(self, wall_ms: int) -> None:
        """Something happens."""
        self._events += 1
        kind = TRIGGER_RAISED if self._events % 2 else TRIGGER_CLEARED
        if kind == TRIGGER_RAISED:
            self.raised.append(wall_ms)
        event = nm.NodeEvent(
            self._events,
            kind,
            wall_ms,
            True,
            channel="temperature",
            trigger="hot",
            areas=self._areas,
        )
        self._waiting[self._events] = event
        self._tell_events()

    def _tell_events(self) -> None:
        if self._waiting:
            some = tuple(self._waiting.values())[:16]
            oldest = min(self._waiting)
            boot, history = f"boot-{self.name}", f"history-{self.name}"
            self._send(nm.NodeEvents(boot, history, some, oldest=oldest))

    def take(self, frame: bytes) -> None:
        """What a master says."""
        try:
            message, _ = NODES.decode(frame)
        except WireError:
            return
        match message:
            case nm.Subtask():
                self._send(self._result(message))
            case nm.HelloWanted():
                self.hello()
            case nm.EventsTaken():
                for sequence in message.sequences:
                    self._waiting.pop(sequence, None)
            case nm.HomeMoved() if message.master in IADS:
                self._send(nm.Goodbye(f"boot-{self.name}", self.name))
                self.iad = message.master
                self.hello()
            case nm.SetPods():
                self._send(nm.PodsSet(f"boot-{self.name}", message.count))
            case Derived():
                last = message.values[-1].position
                self._send(DerivedTaken(f"boot-{self.name}", message.source, last))

    def _result(self, subtask: nm.Subtask) -> nm.SubtaskResult:
        start_ms, end_ms = subtask.window.bounds_ms(self._world.wall_ms)
        times = [t for t in range(end_ms - 5_000, end_ms, 1_000) if t >= max(start_ms, 0)]
        if not times:
            return nm.SubtaskResult(subtask.id, "no_data", 0.0, 1.0)
        form: dict[str, Any] = {}
        values = Float32Column.of(array("f", [TEMPERATURE] * len(times)))
        series = m.Series(Int64Column.of(times), {"temperature": values})
        if subtask.form == "series":
            form["series"] = series
        elif subtask.form == "aggregate":
            one = m.ChannelAggregate(
                len(times), *[TEMPERATURE] * 3, last=TEMPERATURE, last_ms=times[-1]
            )
            form["aggregate"] = m.Aggregate(times[0], times[-1], {"temperature": one})
        else:
            try:
                form["buckets"] = buckets_of(series, subtask.window, subtask.bucket_ms)
            except ValueError:  # the window is another master's lie
                return nm.SubtaskResult(subtask.id, "no_data", 0.0, 1.0)
        return nm.SubtaskResult(subtask.id, "ok", 0.0, 1.0, **form)

    def _send(self, message: Message) -> None:
        world, name, iad = self._world, self.name, self.iad
        take: Deliver = lambda frame: world.masters[iad].from_node(name, frame)  # noqa: E731
        world.put(f"{name}>{iad}", encode(message), take)


class PoolMaster:
    """One of the masters."""

    def __init__(self, world: World, iad: str) -> None:
        self.iad = iad
        self._world = world
        self.lines: list[str] = []
        others = [each for each in IADS if each != iad]
        bootstrap = [world.address("iad1")] if world.finds else []
        state = "state.sqlite" if world.durable else ""
        text = CONFIG.format(iad=iad, folder=world.folder, bootstrap=bootstrap, state=state)
        neighbours = others if iad == "iad1" else ["iad1"]
        text += "".join(
            NEIGHBOUR.format(iad=each, address=world.address(each)) for each in neighbours
        )
        pool = IADS if not world.finds else [each for each in IADS if each in (iad, "iad1")]
        text += "".join(MEMBER.format(iad=each, address=world.address(each)) for each in pool)
        config = msgspec.toml.decode(text, type=MasterConfig)
        (world.folder / iad).mkdir(exist_ok=True)
        with (
            mock.patch.object(masters, "SecureSockets", Nowhere),
            mock.patch.object(masters, "operator_log", return_value=self._said),
        ):
            self.master = masters.Master(
                config, world.folder / iad, run=f"{iad}-{world.restarts}", clock=lambda: world.now
            )
        self.public, self.nodes, self.operator = Router(), Router(), Router()
        self.master._public._router = self.public
        self.master._public.turns._router = self.public
        self.master._operator._router = self.operator
        self.master._task_plane._nodes = self.nodes

    def _said(self, text: str) -> None:
        self.lines.append(text)
        del self.lines[:-50]

    def links(self) -> list[tuple[MessageSocket[Any], str]]:
        """Each connection to others, and what it is for."""
        found: list[tuple[MessageSocket[Any], str]] = []
        for name, link in self.master._peers._links.items():
            if (iad := self._world.iad_at(link.address)) is not None:
                sockets = filter(None, (link.socket, link.following))
                found.extend((socket, f"{iad} peers {name}") for socket in sockets)
        for iad, overlay in self.master._push._links._by_iad.items():
            found += [(overlay.socket, f"{iad} overlay {iad}")]
        directory = self.master._trade.directory
        assert directory is not None
        return found + [(socket, "drs") for socket in directory._sockets]

    def from_node(self, name: str, frame: bytes) -> None:
        """A node's frame."""
        self.nodes.waiting, self.nodes.from_ = (name.encode(), frame), Sender("node", name)
        self.master._task_plane._node_turn()
        self.nodes.waiting = None

    def from_public(self, identity: bytes, sender: Sender, frame: bytes) -> None:
        """A frame of somebody at the public socket."""
        self.master._public._serve(identity, frame, sender)

    def ask(self, message: Message) -> Message:
        """What the operator asks, and is told."""
        self.operator.sent.clear()
        self.master._operator._take(b"operator", encode(message), Sender("operator", "ops"))
        for _ in range(10_000):
            if self.operator.sent:
                break
            self._world.step()
        replies = [OPERATOR.decode(frame)[0] for _, frame in self.operator.sent]
        self.operator.sent.clear()
        assert replies, message
        return replies[0]

    def tick(self) -> None:
        """What is due is done."""
        reactor = self.master._reactor
        for source, _ in reactor._poller.poll(0):
            if source in reactor._turns:
                reactor._turns[source]()
        reactor.changed()
        if self._world.now >= reactor._next_due():
            reactor._tick(self._world.now)


class World:
    """All of them. Frames pass `tamper`; the clock advances with each step."""

    def __init__(self, folder: Path, draw: random.Random, tamper: Tamper) -> None:
        self.folder = folder
        # Masters of the configuration of which some find each other.
        self.finds = draw.random() < 0.3
        # What masters know is on disk, and they are restarted.
        self.durable = draw.random() < 0.5
        self.restarts = 0
        self.now = 1_000.0
        self.wall_ms = 1_796_000_000_000
        self._draw = draw
        self._tamper = tamper
        self._channels: dict[str, deque[tuple[bytes, Deliver]]] = {}
        self._steps = 0
        self.heard: dict[str, list[Message]] = {}
        self._patches = [
            mock.patch.object(MessageSocket, "connected", True),
            mock.patch.object(MessageSocket, "send_frame", _sender(self)),
            mock.patch("time.time", self._wall_s),
        ]
        for patch in self._patches:
            patch.start()
        self._links: dict[MessageSocket[Any], tuple[str, str]] = {}
        self._unsent: list[tuple[MessageSocket[Any], bytes]] = []
        self.directory = self._open_directory()
        self.masters = {iad: PoolMaster(self, iad) for iad in IADS}
        self.nodes = {
            name: Node(self, name, iad, given, (f"{iad}/{name}",))
            for name, iad, given in (
                ("good", "iad1", ()),
                ("bad", "iad1", ()),
                ("roam", "iad1", IADS),
                ("far", "iad2", IADS),
            )
        }

    def _open_directory(self) -> Server:
        self.router = Router()
        text = f'[sockets]\npublic = "ipc://{self.folder}/drs"\n'
        (self.folder / "directory").mkdir()
        config = msgspec.toml.decode(text, type=DrsConfig)
        server = Server(config, self.folder / "directory", clock=lambda: self.now)
        server._router = self.router
        return server

    def _wall_s(self) -> float:
        return self.wall_ms / 1e3

    # --- frames ---------------------------------------------------------------------------------

    def put(self, channel: str, frame: bytes, deliver: Deliver) -> None:
        """Send a frame by a channel."""
        queue = self._channels.setdefault(channel, deque())
        queue.extend((each, deliver) for each in self._tamper(channel, frame))

    def iad_at(self, address: str) -> str | None:
        """The master that an address leads to."""
        return next((iad for iad in IADS if address == self.address(iad)), None)

    def address(self, iad: str) -> str:
        """Of a master's public socket."""
        return f"ipc://{self.folder}/{iad}/public"

    def sent(self, socket: MessageSocket[Any], frame: bytes) -> None:
        """A master sent this by its connection to another process."""
        self._unsent.append((socket, frame))

    def _route(self) -> None:
        """Put what was sent by masters and service into channels."""
        sent, self._unsent = self._unsent, []
        for socket, frame in sent:
            if socket not in self._links:
                self._links = {
                    each: (iad, to)
                    for iad, master in self.masters.items()
                    for each, to in master.links()
                }
            if socket in self._links:  # else it was closed meanwhile
                self._route_one(*self._links[socket], frame)
        for iad, master in self.masters.items():
            for identity, frame in _taken(master.public):
                self._reply(iad, identity.decode(), frame)
            for identity, frame in _taken(master.nodes):
                node = self.nodes.get(identity.decode())
                if node is not None:
                    self.put(f"{iad}>{node.name}", frame, node.take)
        for identity, frame in _taken(self.router):
            iad = identity.decode()
            directory = self.masters[iad].master._trade.directory
            assert directory is not None
            [socket] = directory._sockets
            self.put(f"drs>{iad}", frame, lambda frame, at=socket: hear(at, frame))

    def _route_one(self, iad: str, to: str, frame: bytes) -> None:
        sender = Sender("iad", iad, partner=True)
        if self.finds:  # as without keys: with them it would be TCP
            sender = Sender("anyone", f"{iad} {to}".encode().hex(), host="127.0.0.1")
        if to == "drs":
            take: Deliver = lambda frame: self.directory._take(iad.encode(), frame, sender)  # noqa: E731
        else:
            master, _, link = to.partition(" ")
            identity = f"{iad} {link}".encode()
            take = lambda frame: self.masters[master].from_public(identity, sender, frame)  # noqa: E731
        self.put(f"{iad}>{to}", frame, take)

    def _reply(self, iad: str, identity: str, frame: bytes) -> None:
        to, _, link = identity.partition(" ")
        if to not in self.masters:
            self.heard.setdefault(to, []).append(PUBLIC.decode(frame)[0])
            return
        master = self.masters[to].master
        kind, _, name = link.partition(" ")
        links: Any = master._peers._links if kind == "peers" else master._push._links._by_iad
        if name in links:
            socket = links[name].socket
            self.put(f"{iad}>{to} {kind} reply", frame, lambda frame: hear(socket, frame))

    def ask(self, client: str, iad: str, message: Message) -> None:
        """A client's request."""
        identity, sender = client.encode(), Sender("client", client)
        take: Deliver = lambda frame: self.masters[iad].from_public(identity, sender, frame)  # noqa: E731
        self.put(f"{client}>{iad}", encode(message), take)

    def step(self) -> None:
        """One frame arrives, if one is on its way, and more if many are; timers fire now and
        then."""
        self.now += STEP_S
        self.wall_ms += round(STEP_S * 1e3)
        self._steps += 1
        self._route()
        waiting = sum(map(len, self._channels.values()))
        for _ in range(min(waiting, 1 + waiting // CROWD)):
            full = [each for each, queue in self._channels.items() if queue]
            frame, deliver = self._channels[self._draw.choice(full)].popleft()
            deliver(frame)
        if self._steps % EACH == 0 or not waiting:
            for master in self.masters.values():
                master.tick()
            reactor = self.directory._reactor
            reactor.changed()
            if self.now >= reactor._next_due():
                reactor._tick(self.now)
        if self._steps % 200 == 0:
            for node in self.nodes.values():
                node.beat()
        self._route()

    def restart(self, iad: str) -> None:
        """End a master, and start it with what it has on disk; what was under way to it and from
        it is lost."""
        self._route()
        self.masters[iad].master.close()
        self.restarts += 1
        for channel, queue in self._channels.items():
            if channel.startswith(f"{iad}>") or f">{iad}" in channel:
                queue.clear()
        self._unsent = []
        self.masters[iad] = PoolMaster(self, iad)

    def settle(self, steps: int) -> None:
        """So many steps."""
        for _ in range(steps):
            self.step()

    def close(self) -> None:
        """End everything."""
        for master in self.masters.values():
            master.master.close()
        self.directory.close()
        for patch in self._patches:
            patch.stop()


def _taken(router: Router) -> list[tuple[bytes, bytes]]:
    sent, router.sent = router.sent, []
    return sent


def _sender(world: World) -> Callable[..., None]:
    def send_frame(
        socket: MessageSocket[Any], frame: bytes, *, copy: bool = True, track: bool = False
    ) -> None:
        world.sent(socket, bytes(frame))

    return send_frame
