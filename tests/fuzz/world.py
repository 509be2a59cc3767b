"""Three masters of a pool, overlay and market, their registration service, nodes and clients in one
process, joined by channels that keep order. Whatever is sent passes a channel, where it may be
changed; `World.step` delivers one frame. Masters may stop for a while or be restarted, and what is
between two parties may be cut."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec
import zmq

from agent.directory.server import Server
from agent.net.message_socket import MessageSocket
from agent.runtime.sqlite import NamedConnection
from agent.wire.base import Message
from agent.wire.codec import encode
from agent.wire.drs_config import DrsConfig
from agent.wire.principals import Sender
from tests.fuzz.edge import EdgeAgent
from tests.fuzz.parties import IADS, Deliver, Node, PoolMaster
from tests.fuzz.seeded import seeded
from tests.fuzz.sockets import PUBLIC, Router, hear

STEP_S: Final = 0.005
"""Between two frames; heartbeats are due every second."""
DRS: Final = "drs"
EACH: Final = 8
"""Frames between two turns of timers."""
CROWD: Final = 6
"""Of so many frames that wait, one more arrives in each step."""

Tamper = Callable[[str, bytes], list[bytes]]
"""(name of a channel, a frame) → the frames that arrive instead."""


class World:
    """All of them. Frames pass `tamper`; the clock advances with each step."""

    def __init__(
        self, folder: Path, draw: random.Random, tamper: Tamper, *, agents: bool = False
    ) -> None:
        """With `agents` its nodes are edge agents."""
        self.folder = folder
        self.draw = draw
        self.agents = agents
        # Masters of the configuration of which some find each other.
        self.finds = draw.random() < 0.3
        # What masters know is on disk, and they are restarted.
        self.durable = draw.random() < 0.5
        self.restarts = 0
        self.now = 1_000.0
        self.wall_ms = 1_796_000_000_000
        self._tamper = tamper
        self._channels: dict[str, deque[tuple[bytes, Deliver]]] = {}
        self.steps = 0
        # Until which step: of two parties, and of one.
        self._cut: dict[frozenset[str], int] = {}
        self._frozen: dict[str, int] = {}
        self._full: dict[str, int] = {}
        # How often two parties were cut off from each other: each time is another connection.
        self._connection: Counter[frozenset[str]] = Counter()
        self._numbers = 0
        self.heard: dict[str, list[tuple[str, Message]]] = {}
        """By client, and each with the master that said it."""
        self._patches = [
            mock.patch.object(MessageSocket, "connected", property(self._connected)),
            mock.patch.object(MessageSocket, "send_frame", _sender(self)),
            mock.patch("time.time", self._wall_s),
            mock.patch("time.monotonic", self._now_s),
            mock.patch.object(NamedConnection, "require_there", _refusing(self)),
            *seeded(random.Random(draw.random())),
        ]
        for patch in self._patches:
            patch.start()
        self._links: dict[MessageSocket[Any], tuple[str, str]] = {}
        self._unsent: list[tuple[MessageSocket[Any], bytes]] = []
        self.directory = self._open_directory()
        self.masters = {iad: PoolMaster(self, iad) for iad in IADS}
        kind: Any = EdgeAgent if agents else Node
        self.nodes: dict[str, Node | EdgeAgent] = {
            name: kind(self, name, iad, given)
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
        (self.folder / "directory").mkdir(exist_ok=True)
        config = msgspec.toml.decode(text, type=DrsConfig)
        server = Server(config, self.folder / "directory", clock=lambda: self.now)
        server._router = self.router
        return server

    def _wall_s(self) -> float:
        return self.wall_ms / 1e3

    def _now_s(self) -> float:
        return self.now

    # --- frames ---------------------------------------------------------------------------------

    def put(self, channel: str, frame: bytes, deliver: Deliver) -> None:
        """Send a frame by a channel, unless it is cut."""
        if self._is_cut(_ends(channel)):
            return
        queue = self._channels.setdefault(channel, deque())
        queue.extend((each, deliver) for each in self._tamper(channel, frame))

    def iad_at(self, address: str) -> str | None:
        """The master that an address leads to."""
        return next((iad for iad in IADS if address == self.address(iad)), None)

    def address(self, iad: str) -> str:
        """Of a master's public socket."""
        return f"ipc://{self.folder}/{iad}/public"

    def sent(self, socket: MessageSocket[Any], frame: bytes) -> None:
        """A master sends this by its connection to another process."""
        if not self._connected(socket):
            raise zmq.Again
        self._unsent.append((socket, frame))

    def _connected(self, socket: MessageSocket[Any]) -> bool:
        found = self._link(socket) if self._cut else None
        return found is None or not self._is_cut(_ends(">".join(found)))

    def _link(self, socket: MessageSocket[Any]) -> tuple[str, str] | None:
        """Whose connection it is, and to whom; None if it was closed meanwhile."""
        if socket not in self._links:
            self._links = {
                each: (iad, to)
                for iad, master in self.masters.items()
                for each, to in master.links()
            }
        return self._links.get(socket)

    def _route(self) -> None:
        """Put what was sent by masters and service into channels."""
        sent, self._unsent = self._unsent, []
        for socket, frame in sent:
            if (link := self._link(socket)) is not None:
                self._route_one(*link, frame)
        for iad, master in self.masters.items():
            for identity, frame in _taken(master.public):
                self._reply(iad, identity.decode(), frame)
            for identity, frame in _taken(master.nodes):
                name = identity.decode().partition(" ")[0]
                if name in self.nodes:
                    take = partial(self.nodes[name].take, identity.decode())
                    self.put(f"{iad}>{name}", frame, take)
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
            number = self._connection[frozenset((iad, master))]
            identity = f"{iad} {link} {number}".encode()
            take = lambda frame: self.masters[master].from_public(identity, sender, frame)  # noqa: E731
        self.put(f"{iad}>{to}", frame, take)

    def _reply(self, iad: str, identity: str, frame: bytes) -> None:
        to, *link = identity.split(" ")
        if to not in self.masters:
            self.heard.setdefault(to, []).append((iad, PUBLIC.decode(frame)[0]))
            return
        master = self.masters[to].master
        kind, name, number = link
        if int(number) != self._connection[frozenset((iad, to))]:
            return  # by a connection that is gone
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
        self.steps += 1
        self._route()
        waiting = sum(len(self._channels[each]) for each in self._queues())
        for _ in range(min(waiting, 1 + waiting // CROWD)):
            if not (queues := self._queues()):
                break
            frame, deliver = self._channels[self.draw.choice(queues)].popleft()
            deliver(frame)
        if self.steps % EACH == 0 or not waiting:
            for iad, master in self.masters.items():
                if not self.is_frozen(iad):
                    master.tick()
            if not self.is_frozen(DRS):
                reactor = self.directory._reactor
                reactor.changed()
                if self.now >= reactor._next_due():
                    reactor._tick(self.now)
            for name, node in self.nodes.items():
                if not self.is_frozen(name):
                    node.turn()
        self._route()

    def _queues(self) -> list[str]:
        return [
            each
            for each, queue in self._channels.items()
            if queue and not self.is_frozen(_receiver(each))
        ]

    # --- outages --------------------------------------------------------------------------------

    def cut(self, one: str, other: str, steps: int) -> None:
        """For so many steps nothing passes between two parties, and what is on its way is lost, as
        when a connection is reset; then there is another one."""
        ends = frozenset((one, other))
        self._route()
        self._cut[ends] = self.steps + steps
        self._connection[ends] += 1
        for channel, queue in self._channels.items():
            if _ends(channel) == ends:
                queue.clear()

    def connections(self, one: str, other: str) -> int:
        """How often these two had to connect anew."""
        return self._connection[frozenset((one, other))]

    def next_number(self) -> int:
        """Of a connection."""
        self._numbers += 1
        return self._numbers

    def freeze(self, party: str, steps: int) -> None:
        """For so many steps it gets no processor; what is sent to it waits."""
        self._frozen[party] = self.steps + steps

    def is_frozen(self, party: str) -> bool:
        """Whether it gets no processor now."""
        return self._frozen.get(party, 0) > self.steps

    def _is_cut(self, ends: frozenset[str]) -> bool:
        return self._cut.get(ends, 0) > self.steps

    def end_outages(self) -> None:
        """All go on, and reach each other; nowhere is it warm, and all pods are fast."""
        self._cut.clear()
        self._frozen.clear()
        self._full.clear()
        for party in (*self.masters, *self.nodes):
            self.slow_down(party, 0.0)
        for node in self.nodes.values():
            node.hot = node.slow = 0.0

    def slow_down(self, party: str, each_s: float) -> None:
        """From now on the disk of a master or a node takes so long for each transaction."""
        if party in self.masters:
            self.masters[party].driven.disk.takes_s = each_s
        elif isinstance(node := self.nodes[party], EdgeAgent):
            node.disk.takes_s = each_s

    def fill(self, party: str, steps: int) -> None:
        """For so many steps its disk takes no transaction."""
        self._full[party] = self.steps + steps

    def is_full(self, path: Path) -> bool:
        """Whether the disk of this file takes nothing now."""
        return any(
            until > self.steps and path.is_relative_to(self.folder / party)
            for party, until in self._full.items()
        )

    def restart(self, iad: str, *, kill: bool = False) -> None:
        """End a master, a node or the registration service, and start it with what it has on disk;
        what was under way to it and from it is lost. With `kill` it ends without a word, and what
        waited for its disk is lost."""
        self._route()
        for channel, queue in self._channels.items():
            if iad in _ends(channel):
                queue.clear()
        self._frozen.pop(iad, None)
        self._full.pop(iad, None)
        if isinstance(node := self.nodes.get(iad), EdgeAgent):
            node.restart(kill=kill)
            return
        if iad == DRS:
            self.directory.close()
            self.directory = self._open_directory()
            return
        if kill:
            self.masters[iad].driven.disk.kill()
        self.masters[iad].master.close()
        self._unsent = []
        self.restarts += 1
        self.masters[iad] = PoolMaster(self, iad)

    def settle(self, steps: int) -> None:
        """So many steps."""
        for _ in range(steps):
            self.step()

    def close(self) -> None:
        """End everything."""
        for master in self.masters.values():
            master.master.close()
        for node in self.nodes.values():
            node.close()
        self.directory.close()
        for patch in self._patches:
            patch.stop()


def _ends(channel: str) -> frozenset[str]:
    """The two parties of a channel: `iad1>iad2 peers iad2`."""
    return frozenset((channel.partition(">")[0], _receiver(channel)))


def _receiver(channel: str) -> str:
    return channel.partition(">")[2].partition(" ")[0]


def _taken(router: Router) -> list[tuple[bytes, bytes]]:
    sent, router.sent = router.sent, []
    return sent


def _sender(world: World) -> Callable[..., None]:
    def send_frame(
        socket: MessageSocket[Any], frame: bytes, *, copy: bool = True, track: bool = False
    ) -> None:
        world.sent(socket, bytes(frame))

    return send_frame


def _refusing(world: World) -> Callable[[NamedConnection], None]:
    def require_there(connection: NamedConnection) -> None:
        if world.is_full(Path(connection.path)):
            raise sqlite3.OperationalError("database or disk is full")

    return require_there
