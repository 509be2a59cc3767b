"""Test rig of the push benchmark: four masters, an MQTT broker, publishers and subscribers."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import zmq

from agent.client import Operator
from agent.overlay.scot import BrokerId
from agent.wire.base import TRIGGER_RAISED
from agent.wire.codec import encode
from agent.wire.node_messages import Hello, NodeEvent, NodeEvents
from bench.output import CannotRunError
from bench.processes import agent, cpu_s, process, ready
from bench.push import mqtt
from bench.push.clients import Measured, MqttAlert, Specification
from bench.push.workload import Event, Wanted
from fleet.common.toml import dump
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.testbed.ports import free_address
from testkit.waiting import wait_until

PLAN: Final = OverlayPlan(
    (("a", "b"),),
    2,
    {
        "iad1": BrokerId("a", 0),
        "iad2": BrokerId("b", 0),
        "iad3": BrokerId("a", 1),
        "iad4": BrokerId("b", 1),
    },
)
PATIENCE_S: Final = 60.0
MASTER: Final = """
[iad]
name = "{iad}"
[sockets]
public = "{public}"
nodes = "{nodes}"
operator = "ipc://{folder}/{iad}/operator"
[liveness]
heartbeat_s = 3600.0
[clients]
rate_per_s = 1e6
most_subscriptions = 10000
[overlay]
"""
# Configured for speed: small packets are sent at once, no log-in.
MOSQUITTO: Final = """
listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
persistence false
log_type error
"""


class Masters:
    """A path of two vertices times two clusters; a node of iad1 reports triggers."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self._folder = folder
        self.public = {iad: free_address() for iad in PLAN.places}
        nodes = {iad: free_address() for iad in PLAN.places}
        command = agent("master")
        self._pids = []
        for iad in PLAN.places:
            (folder / iad).mkdir()
            config = folder / iad / "master.toml"
            text = MASTER.format(iad=iad, folder=folder, public=self.public[iad], nodes=nodes[iad])
            section = PLAN.section(iad, lambda other: (self.public[other], ""))
            config.write_text(
                text + dump(section).replace("[[neighbour]]", "[[overlay.neighbour]]")
            )
            child = process(command, "--config", str(config), "--exit-on-stdin-eof")
            self._pids.append(stack.enter_context(child).pid)
        self.wait_until(overlay_links_up=2)
        context = stack.enter_context(zmq.Context())
        self._socket = stack.enter_context(context.socket(zmq.DEALER))
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(nodes["iad1"])
        self._histories: dict[str, str] = {}
        hello = Hello("n1", "boot", "readings", ("b1",), ("temperature",), 1, "bench")
        self._socket.send(encode(hello))
        self._socket.recv()

    def wait_until(self, iads: Iterable[str] = tuple(PLAN.places), **counters: int) -> None:
        """Wait until the masters' counters have these values."""
        for iad in iads:
            with Operator(f"ipc://{self._folder}/{iad}/operator") as operator:
                wait_until(
                    lambda asked=operator: asked.status(60_000).counters,  # type: ignore[misc]
                    lambda found: counters.items() <= found.items(),
                    patience_s=PATIENCE_S,
                    pause_s=0.05,
                    what=f"{iad} is not at {counters}, but",
                )

    def links_lost(self) -> int:
        """Number of times a link between two of them went down, at either end."""
        lost = 0
        for iad in PLAN.places:
            with Operator(f"ipc://{self._folder}/{iad}/operator") as operator:
                lost += operator.status(60_000).counters["overlay_links_lost"]
        return lost

    def wait_for_targets(self) -> None:
        """Wait until the publisher's master knows that the other cluster wants its
        advertisement."""
        self.wait_until(("iad1",), overlay_targets=1)

    def publish(self, name: str, event: Event) -> None:
        """Publish as a node's trigger of that name."""
        history = self._histories.setdefault(name, os.urandom(4).hex())
        told = NodeEvent(
            event.number,
            TRIGGER_RAISED,
            time.time_ns() // 1_000_000,
            True,
            "s",
            event.metric,
            trigger=name,
            value=event.value,
            areas=(event.area,),
        )
        self._socket.send(encode(NodeEvents("boot", history, (told,), oldest=event.number)))
        with contextlib.suppress(zmq.Again):
            while True:
                self._socket.recv(zmq.NOBLOCK)  # alerts that were accepted

    def cpu_s(self) -> float:
        """CPU time of all of them."""
        return sum(map(cpu_s, self._pids))


class Mosquitto:
    """The MQTT broker, and one publisher there."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.address = free_address().removeprefix("tcp://")
        host, port = self.address.split(":")
        config = folder / "mosquitto.conf"
        config.write_text(MOSQUITTO.format(port=port))
        self._pid = stack.enter_context(process(program(), "-c", str(config))).pid
        give_up = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._socket = stack.enter_context(mqtt.opened((host, int(port))))
                break
            except ConnectionRefusedError:
                if time.monotonic() > give_up:
                    raise
        self._socket.sendall(mqtt.connect("n1"))
        self._socket.recv(4)

    def publish(self, name: str, event: Event) -> None:
        """Publish; a topic for each area and metric below `name`."""
        now_ms = time.time_ns() // 1_000_000
        payload = msgspec.json.encode(MqttAlert(event.number, now_ms, "raised", event.value))
        self._socket.sendall(mqtt.publish(f"{name}/{event.area}/{event.metric}", payload))

    def cpu_s(self) -> float:
        """Of the broker."""
        return cpu_s(self._pid)


def program() -> str:
    """Path of mosquitto; `CannotRunError` if there is none."""
    found = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if found is None:
        raise CannotRunError("mosquitto; apt-get install mosquitto")
    return found


class Subscribers:
    """Processes with the connections of one contender."""

    def __init__(
        self,
        folder: Path,
        stack: contextlib.ExitStack,
        kind: str,
        addresses: Sequence[str],
        connections: Sequence[list[Wanted]],
        processes: int,
    ) -> None:
        self._children = []
        size = -(-len(connections) // processes)
        for first in range(0, len(connections), size):
            mine = list(connections[first : first + size])
            file = folder / f"{kind}{first}.json"
            told = Specification(kind, kind, first, list(addresses), mine)
            file.write_bytes(msgspec.json.encode(told))
            command = (sys.executable, "-m", "bench.push.clients", str(file))
            self._children.append(stack.enter_context(process(*command)))
        for child in self._children:
            ready(child)

    def await_deliveries(self, count: int, patience_s: float) -> None:
        """Wait until they have this many, or until no new ones have arrived for this time."""
        found, since = -1, time.monotonic()
        while found < count and time.monotonic() < since + patience_s:
            time.sleep(0.1)
            now = sum(int(line) for line in self._answers("count"))
            if now != found:
                found, since = now, time.monotonic()

    def take(self) -> list[Measured]:
        """The measurements of each since the last call."""
        return [msgspec.json.decode(line, type=Measured) for line in self._answers("take")]

    def _answers(self, question: str) -> Iterator[str]:
        for child in self._children:
            assert child.stdin is not None
            child.stdin.write(f"{question}\n")
            child.stdin.flush()
        for child in self._children:
            yield _line(child)


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    if not (line := child.stdout.readline()):
        sys.exit("error: a process of subscribers ended; it says why above")
    return line
