"""The edge agent as a node of a world: its link, history, triggers and events are the real ones;
its sensor, its socket and what its threads do are in virtual time."""

from __future__ import annotations

import random
import shutil
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import msgspec
import zmq

from agent.edge import node as nodes
from agent.edge.clocks import Clocks
from agent.edge.events.faults import Happening
from agent.edge.history.history import History
from agent.edge.node import EdgeNode
from agent.edge.pods.pods import Done, Pods, ReceivedSubtask
from agent.edge.rate_limited_log import Reporter
from agent.edge.sampling.sensor import Sensor, StoredChannel
from agent.wire.base import TRIGGER_RAISED
from agent.wire.edge_config import EdgeConfig
from agent.wire.node_messages import MasterMessage
from sensors.base import Channel, Reading
from sensors.quality.limits import Limits
from tests.fuzz.disk import Disk
from tests.fuzz.parties import TEMPERATURE
from tests.fuzz.sockets import NODES

if TYPE_CHECKING:
    from tests.fuzz.world import World

CONFIG: Final = """
[node]
name = "{name}"
areas = ["{area}"]
[master]
iad = "{home}"
address = "ipc:///{home}"
follow_s = {follow_s}
{others}
[[sensor]]
driver = "synthetic"
[[trigger]]
name = "hot"
condition = "temperature > 21"
[history]
commit_s = 5.0
group_readings = 30
"""
OTHER: Final = '[[master.other]]\niad = "{iad}"\naddress = "ipc:///{iad}"\n'
HOT: Final = 22.0
INTERVAL_S: Final = 1.0


class EdgeAgent:
    """A node, which may be stopped, killed and started again."""

    def __init__(self, world: World, name: str, home: str, masters: tuple[str, ...]) -> None:
        self.name = name
        self.raised: list[float] = []
        """The value of each alert that is on disk."""
        self.hot = 0.0
        """What is measured on top."""
        self.slow = 0.5
        """The share of subtasks that take their time."""
        self.lines: list[str] = []
        self._world = world
        self._draw = random.Random(f"{name} {world.draw.random()}")
        self._folder = world.folder / name
        self._folder.mkdir()
        self._settings = msgspec.toml.decode(
            CONFIG.format(
                name=name,
                area=f"{home}/{name}",
                home=home,
                follow_s=self._draw.choice((0.0, 5.0)) if masters else 0.0,
                others="".join(OTHER.format(iad=each) for each in masters if each != home),
            ),
            type=EdgeConfig,
        )
        self._changes = 0
        self._start()

    def _start(self) -> None:
        world = self._world
        self.disk = Disk(lambda: world.now)
        self._wire = Wire(world, self.name)
        self.history = History(
            self._folder / "history.sqlite",
            "boot",
            group_readings=self._settings.history.group_readings,
            commit_s=self._settings.history.commit_s,
            retention_s=self._settings.history.retention_s,
        )
        sensor = Sensor(
            "synthetic",
            "",
            Thermometer(self),
            INTERVAL_S,
            (StoredChannel("temperature", "temperature", "u", 1.0, 0.0, Limits()),),
        )
        self._pods: list[VirtualPods] = []

        def pods(*args: Any, **_: Any) -> VirtualPods:
            self._pods.append(VirtualPods(self, world, self._draw, *args))
            return self._pods[0]

        with (
            mock.patch.object(nodes, "DiskWriterThread", return_value=self.disk),
            mock.patch.object(nodes, "MasterSocket", return_value=self._wire),
            mock.patch.object(nodes, "Pods", pods),
            mock.patch.object(zmq, "Poller", Poller),
            mock.patch("random.random", self._draw.random),
        ):
            self.node = RecordingNode(
                self.raised,
                self._settings,
                (sensor,),
                self.history,
                Reporter(self._said, self.name, lambda: world.now),
                clocks=WorldClocks(world),
            )
        self._next_s = world.now
        with mock.patch.object(self.node._sampling, "start"):
            self.node._begin()

    def _said(self, text: str) -> None:
        self.lines.append(text)
        del self.lines[:-50]

    @property
    def iad(self) -> str:
        """The master that it talks to."""
        return self.node._link.master

    @property
    def identity(self) -> str:
        """Of its connection."""
        return self._wire.identity

    def turn(self) -> None:
        """What is due is done."""
        self.disk.work()
        self._pods[0].work()
        if self._world.now >= self._next_s:
            self._next_s += INTERVAL_S * max(1, int(self._world.now - self._next_s))
            self.node._samplers[0].sample()
        self._loop()

    def _loop(self) -> None:
        self.node._wait_once(NeverStopped())  # type: ignore[arg-type]

    def take(self, identity: str, frame: bytes) -> None:
        """What a master says to one of its connections."""
        if identity == self.identity:
            self._wire.waiting.append(frame)
            self._loop()

    def raise_event(self, _wall_ms: int) -> None:
        """It becomes warm, or is not any more."""
        self._changes += 1
        self.hot = 0.0 if self.hot else HOT - TEMPERATURE + self._changes / 1024

    def restart(self, *, kill: bool = False) -> None:
        """End it, and start it with what it has on disk."""
        kept = self._folder.with_suffix(".kept")
        if kill:
            self.disk.kill()
            shutil.copytree(self._folder, kept)
        self.close()
        if kill:
            shutil.rmtree(self._folder)
            kept.rename(self._folder)
        self._start()

    def close(self) -> None:
        """End it."""
        with mock.patch.object(self.node._sampling, "close"):
            self.node._leave()


class RecordingNode(EdgeNode):
    """Remembers the alerts that it stored."""

    def __init__(self, raised: list[float], *args: Any, **named: Any) -> None:
        self._stored = raised
        super().__init__(*args, **named)

    def _raise(self, happening: Happening) -> bool:
        stored = super()._raise(happening)
        if stored and happening.kind == TRIGGER_RAISED:
            assert happening.value is not None
            self._stored.append(happening.value)
        return stored


class Thermometer:
    """The node's sensor."""

    channels = (Channel("temperature", "u", -1e9, 1e9),)

    def __init__(self, agent: EdgeAgent) -> None:
        self._agent = agent

    def read(self) -> Reading:
        """What is measured."""
        return Reading((TEMPERATURE + self._agent.hot,))

    def preload(self) -> Iterator[tuple[int, Reading]]:
        """Nothing."""
        yield from ()

    def close(self) -> None:
        """Nothing to release."""


class WorldClocks(Clocks):
    """Those of the world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def monotonic(self) -> float:
        return self._world.now

    def wall(self) -> float:
        return self._world.wall_ms / 1e3

    def synchronised(self) -> bool:
        return True


class NeverStopped:
    """In place of a `StopSignal`."""

    filenos = ()
    requested = False


class Poller(zmq.Poller):
    """Finds what is ready, and never waits."""

    def poll(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        return super().poll(0)


class Wire:
    """In place of a `MasterSocket`: each frame is put into a channel of the world."""

    malformed = dropped = 0
    key_expiry_s = None

    def __init__(self, world: World, name: str) -> None:
        self.waiting: deque[bytes] = deque()
        self._world = world
        self._name = name
        self._iad = ""
        self._open = False

    @property
    def identity(self) -> str:
        """Of the connection that is open; each has another."""
        if not self._open:
            return ""
        times = self._world.connections(self._name, self._iad)
        return f"{self._name} {self._number} {times}"

    def use(self, iad: str) -> None:
        """Connect to this master from now on."""
        self._iad = iad

    def open(self) -> None:
        """Begin a connection."""
        self.waiting.clear()
        self._open = True
        self._number = self._world.next_number()

    def close(self, _linger_s: float) -> None:
        """End it; what was sent is on its way."""
        self._open = False

    def end(self) -> None:
        """Nothing is left."""

    def ready(self, _polled: object) -> bool:
        """Whether a frame waits."""
        return bool(self.waiting)

    def messages(self) -> Iterator[MasterMessage]:
        """Those that wait."""
        while self._open and self.waiting:
            message, _ = NODES.decode(self.waiting.popleft())
            yield message

    def send(self, frame: bytes) -> None:
        """To the master."""
        assert self._open
        world, iad, identity = self._world, self._iad, self.identity
        world.put(
            f"{self._name}>{iad}",
            frame,
            lambda frame: world.masters[iad].from_node(self._name, frame, identity),
        )

    def keyed_anew(self) -> bool:
        """There are no keys."""
        return False


class VirtualPods(Pods):
    """Pods without threads: each subtask takes its time."""

    def __init__(self, agent: EdgeAgent, world: World, draw: random.Random, *args: Any) -> None:
        self._agent = agent
        self._world = world
        self._draw = draw
        self._busy: list[tuple[float, ReceivedSubtask]] = []
        super().__init__(*args[:3])

    def resize(self, count: int) -> None:
        """So many may work at once."""
        self._count = count

    def submit(self, received: ReceivedSubtask) -> bool:
        """Served at once, or later."""
        if self._draw.random() >= self._agent.slow:
            self._finish(received)
            return True
        self._busy.append((self._world.now + self._draw.choice((0.01, 0.1, 1.0, 4.0)), received))
        return False

    def work(self) -> None:
        """Finish those whose time is over."""
        for due in [each for each in self._busy if each[0] <= self._world.now]:
            self._busy.remove(due)
            self._finish(due[1])
            self._wake()

    def _finish(self, received: ReceivedSubtask) -> None:
        frame = self._execute(self._reader, received)
        self._done.put(Done(received.subtask.id, frame))

    def stop(self) -> None:
        """Abandon what runs."""
        self._busy.clear()
        self._reader.close()
