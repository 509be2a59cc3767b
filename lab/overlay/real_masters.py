"""Real masters as the brokers of an overlay, simulated nodes that publish at them, and the process
of their subscribers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import msgspec
import zmq

from agent.client import NoReplyError, Operator
from agent.net.keys import new, read_publics
from agent.overlay.forwarding import Routing
from agent.overlay.scot import BrokerId
from agent.wire import master_config as config
from agent.wire.base import TRIGGER_RAISED
from agent.wire.codec import Decoder, encode
from agent.wire.config import Trust
from agent.wire.node_messages import EventsTaken, Hello, MasterMessage, NodeEvent, NodeEvents
from agent.wire.overlay_config import OverlayAdvertisement
from fleet.common.toml import dump
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.testbed import processes
from lab.overlay import real_load
from lab.overlay.real_load import Wish
from lab.overlay.real_network import Network
from lab.overlay.real_subscribers import Delivery, Specification, Wanted

PATIENCE_S: Final = 300.0
STOP_PATIENCE_S: Final = 10.0
LOOK_EVERY_S: Final = 0.25
STATUS_MS: Final = 2_000.0
CLIENT: Final = "lab"
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
# A simulated node sends no heartbeats.
LIVENESS: Final = config.MasterLiveness(heartbeat_s=3_600.0)
CLIENTS: Final = config.MasterClients(rate_per_s=1e6, most_subscriptions=10_000)

Counters = dict[str, dict[str, int]]


class MastersError(RuntimeError):
    """The masters did not do what was requested; the text says which and why."""


def make_keys(plan: OverlayPlan, folder: Path) -> None:
    """A key for each master and for the client, and one allow-list for all masters."""
    folder.mkdir(parents=True)
    for name in (CLIENT, *plan.places):
        new(str(folder / name))
    rows = [("client", CLIENT), *(("iad", iad) for iad in plan.places)]
    publics = {name: list(read_publics(str(folder / f"{name}.public"))) for _, name in rows}
    text = "".join(f'[[{role}]]\nname = "{name}"\nkeys = {publics[name]}\n' for role, name in rows)
    (folder / "allow").write_text(text, encoding="utf-8")


class Masters:
    """A master at each place of `plan` with the advertisements in `announced`, with its files below
    `folder` and the keys of `keys`. A context manager: leaving it stops all.

    Sockets are in a temporary folder, since Linux permits their paths 107 bytes: `folder` may be
    anywhere.
    """

    def __init__(
        self,
        plan: OverlayPlan,
        network: Network,
        folder: Path,
        keys: Path,
        announced: Mapping[BrokerId, Sequence[str]],
        *,
        routing: Routing = "idr",
        leash: processes.Leash,
    ) -> None:
        self.plan = plan
        self._network = network
        self._folder = folder
        self._keys = keys
        self._announced = announced
        self._routing = routing
        self._leash = leash
        self._children: dict[str, processes.Child] = {}
        self._nodes: dict[str, Node] = {}

    def __enter__(self) -> Self:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, len(self.plan.places) + 16)
        self._sockets = tempfile.TemporaryDirectory(prefix="overlay-")
        for iad in self.plan.places:
            (self._folder / iad).mkdir(parents=True)
            (self._folder / iad / "master.toml").write_text(dump(self._config(iad)), "utf-8")
        command = processes.agent_command("sanderling-master")
        with processes.interrupts_deferred():
            for iad in self.plan.places:
                file = str(self._folder / iad / "master.toml")
                words = [*self._network.enter(iad), *command, "--config", file]
                log = self._folder / iad / "output.log"
                self._children[iad] = processes.Child(
                    iad, [*words, "--exit-on-stdin-eof"], log, self._leash
                )
        return self

    def __exit__(self, *_: object) -> None:
        with processes.interrupts_deferred():
            self._context.destroy(linger=0)
            processes.stop(self._children.values(), STOP_PATIENCE_S)
            self._sockets.cleanup()

    def _config(self, iad: str) -> config.MasterConfig:
        texts = self._announced.get(self.plan.places[iad], (real_load.NOTHING_ELSE,))
        section = self.plan.section(iad, self._reach)
        return config.MasterConfig(
            iad=config.MasterIdentity(name=iad),
            sockets=config.MasterSockets(
                public=self._network.address(iad),
                nodes=self._ipc(iad, "nodes"),
                operator=self._ipc(iad, "operator"),
            ),
            trust=Trust(key=str(self._keys / f"{iad}.secret"), allow=str(self._keys / "allow")),
            clients=CLIENTS,
            liveness=LIVENESS,
            overlay=msgspec.structs.replace(
                section,
                routing=self._routing,
                advertise=tuple(OverlayAdvertisement(text) for text in texts),
            ),
        )

    def _reach(self, iad: str) -> tuple[str, str]:
        return self._network.address(iad), str(self._keys / f"{iad}.public")

    def _ipc(self, iad: str, name: str) -> str:
        return f"ipc://{self._sockets.name}/{iad}-{name}"

    # --- observation -----------------------------------------------------------------------------

    def counters(self, iads: Iterable[str] = ()) -> Counters:
        """Counters of all masters, or of these, by IAD. MastersError if one has ended or does not
        answer."""
        return {iad: self._counters_of(iad) for iad in tuple(iads) or tuple(self.plan.places)}

    def _counters_of(self, iad: str) -> dict[str, int]:
        child, give_up_s = self._children[iad], time.monotonic() + PATIENCE_S
        while time.monotonic() < give_up_s:
            if not child.running:
                raise MastersError(child.how_it_ended())
            with suppress(NoReplyError), Operator(self._ipc(iad, "operator")) as operator:
                return operator.status(STATUS_MS).counters
        raise MastersError(f"{iad} is silent; see {self._folder / iad}")

    def wait(self, settled: Callable[[Counters], bool], what: str) -> Counters:
        """Wait until their counters satisfy this, and their message counts are equal twice in a
        row."""
        give_up_s = time.monotonic() + PATIENCE_S
        before: dict[str, int] = {}
        while True:
            counters = self.counters()
            said = sent(counters)
            if settled(counters) and said == before:
                return counters
            if time.monotonic() > give_up_s:
                raise MastersError(f"{what}: not in {PATIENCE_S:g} s; see {self._folder}")
            before = said
            time.sleep(LOOK_EVERY_S)

    def wait_for_links(self) -> Counters:
        """Wait until all links are up, and both ends have each other's tables."""
        links = {iad: len(self.plan.neighbours(iad)) for iad in self.plan.places}
        return self.wait(
            lambda counters: all(
                each["overlay_links_up"] == links[iad] and not each["overlay_unknown"]
                for iad, each in counters.items()
            ),
            "links to all neighbours",
        )

    def cpu_s(self) -> float:
        """CPU time of all of them, in seconds."""
        # The clock id of another process's CPU time, as clock_getcpuclockid(3) makes it.
        return sum(time.clock_gettime(~each.pid << 3 | 2) for each in self._children.values())

    def memory_bytes(self) -> int:
        """Their private memory in use, in all."""
        return sum(_private_bytes(each.pid) for each in self._children.values())

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, iad: str, trigger: str, value: float) -> int:
        """Publish as a trigger at a node of that IAD; returns the number of the alert, from 1 on in
        each IAD."""
        if iad not in self._nodes:
            self._nodes[iad] = Node(self._context, self._ipc(iad, "nodes"))
        return self._nodes[iad].publish(trigger, value)

    def untaken(self) -> int:
        """Alerts that no master has on disk yet."""
        return sum(each.untaken() for each in self._nodes.values())


class Node:
    """A simulated node."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(address)
        self._history = os.urandom(8).hex()
        self._sequence = 0
        self._taken = 0
        self._decode = Decoder[MasterMessage](MasterMessage).decode
        hello = Hello("n1", "boot", self._history, ("b1",), ("close",), 1, "lab")
        self._socket.send(encode(hello))

    def publish(self, trigger: str, value: float) -> int:
        """Publish; returns its number."""
        self._sequence += 1
        event = NodeEvent(
            self._sequence,
            TRIGGER_RAISED,
            time.time_ns() // 1_000_000,
            True,
            channel="close",
            trigger=trigger,
            value=value,
        )
        told = NodeEvents("boot", self._history, (event,), oldest=self._sequence)
        self._socket.send(encode(told))
        self.untaken()
        return self._sequence

    def untaken(self) -> int:
        """Number of alerts without acknowledgement."""
        with suppress(zmq.Again):
            while True:
                message, _ = self._decode(self._socket.recv(zmq.NOBLOCK))
                if isinstance(message, EventsTaken):
                    self._taken += len(message.sequences)
        return self._sequence - self._taken


class Subscribers:
    """A process with the connections of all subscribers; a context manager."""

    def __init__(
        self, masters: Masters, network: Network, keys: Path, wishes: Sequence[Wish], file: Path
    ) -> None:
        iads = list(masters.plan.places)
        number = {masters.plan.places[iad]: at for at, iad in enumerate(iads)}
        told = Specification(
            str(keys / f"{CLIENT}.secret"),
            [(network.address(iad), str(keys / f"{iad}.public")) for iad in iads],
            [Wanted(each.id, number[each.place], real_load.wanted(each)) for each in wishes],
        )
        file.write_bytes(msgspec.json.encode(told))
        module = "lab.overlay.real_subscribers"
        self._command = [*network.clients, sys.executable, "-m", module, str(file)]

    def __enter__(self) -> Self:
        with processes.interrupts_deferred():
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                process_group=0,
            )
        return self

    def __exit__(self, *_: object) -> None:
        with processes.interrupts_deferred(), self._process as process:
            process.terminate()

    def subscribe(self, until: int) -> None:
        """Open all subscriptions below that number."""
        self._ask(f"subscribe {until}")

    def count(self) -> int:
        """Number of notifications they got."""
        return int(self._ask("count"))

    def take(self) -> list[Delivery]:
        """The deliveries since the last call."""
        return msgspec.json.decode(self._ask("take"), type=list[Delivery])

    def _ask(self, question: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise MastersError("the process of the subscribers ended; it says why above")
        return line


def sent(counters: Counters) -> dict[str, int]:
    """Messages between masters by kind, without heartbeats, of all masters together."""
    prefix = "overlay_sent_"
    total: dict[str, int] = {}
    for each in counters.values():
        for name, count in each.items():
            if name.startswith(prefix):
                kind = name.removeprefix(prefix)
                total[kind] = total.get(kind, 0) + count
    return total


def total(counters: Counters, name: str) -> int:
    """Sum over all masters."""
    return sum(each[name] for each in counters.values())


def _private_bytes(pid: int) -> int:
    resident, shared = Path(f"/proc/{pid}/statm").read_text("ascii").split()[1:3]
    return (int(resident) - int(shared)) * PAGE_BYTES
