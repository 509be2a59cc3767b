"""The masters and nodes of a world in one process."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent.net.message_socket import MessageSocket
from agent.scheduling.buckets import buckets_of
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.base import TRIGGER_CLEARED, TRIGGER_RAISED, Message
from agent.wire.codec import WireError, encode
from agent.wire.derived import Derived, DerivedTaken
from agent.wire.master_config import MasterConfig
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.principals import Sender
from tests.fuzz.sockets import NODES, OPERATOR, open_master

if TYPE_CHECKING:
    from tests.fuzz.world import World

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

Deliver = Callable[[bytes], None]


class Node:
    """An edge node that answers at once; its readings are all the same."""

    def __init__(self, world: World, name: str, iad: str, masters: tuple[str, ...]) -> None:
        self.name, self.iad = name, iad
        self._masters = masters
        self._world = world
        self._areas = (f"{iad}/{name}",)
        self._events = 0
        self._beat_s = world.now
        self.hot = self.slow = 0.0
        self._waiting: dict[int, nm.NodeEvent] = {}
        self.raised: list[float] = []  # the value of each alert
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
            self.raised.append(float(self._events))
        event = nm.NodeEvent(
            self._events,
            kind,
            wall_ms,
            True,
            channel="temperature",
            trigger="hot",
            value=float(self._events),
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

    @property
    def identity(self) -> str:
        """Of its connections, all of them."""
        return self.name

    def turn(self) -> None:
        """What is due is done."""
        if self._world.now >= self._beat_s:
            self._beat_s = self._world.now + 1.0
            self.beat()

    def close(self) -> None:
        """Nothing is open."""

    def take(self, _identity: str, frame: bytes) -> None:
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
        take: Deliver = lambda frame: world.masters[iad].from_node(name, frame, name)  # noqa: E731
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
        run = f"{iad}-{world.restarts}"
        self.driven = open_master(config, world.folder / iad, run, lambda: world.now, self._said)
        self.master, self.public = self.driven.master, self.driven.public
        self.nodes, self.operator = self.driven.nodes, self.driven.operator

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

    def from_node(self, name: str, frame: bytes, identity: str) -> None:
        """A node's frame, by one of its connections."""
        self.nodes.waiting, self.nodes.from_ = (identity.encode(), frame), Sender("node", name)
        self.master._task_plane._node_turn()
        self.nodes.waiting = None

    def from_public(self, identity: bytes, sender: Sender, frame: bytes) -> None:
        """A frame of somebody at the public socket."""
        self.master._public._serve(identity, frame, sender)

    def ask(self, message: Message) -> Message:
        """What the operator asks, and is told."""
        self.operator.sent.clear()
        sender = Sender("operator", "ops")
        take: Deliver = lambda frame: self.master._operator._take(b"operator", frame, sender)  # noqa: E731
        self._world.put(f"operator>{self.iad}", encode(message), take)
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
        self.driven.turn(self._world.now)
