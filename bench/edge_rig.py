"""Test rig of the edge benchmarks: a stub master, simulated sensors, and process figures from
/proc. Standard Linux only."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import zmq

from agent.wire import codec
from agent.wire.node_messages import Heartbeat, Hello, NodeMessage, Welcome

ROOT = Path(__file__).resolve().parent.parent
BYTECODE = ROOT / "build" / "bench-bytecode"
PATIENCE_S = 30.0
# Same as sanderling-edge; the reader of the dht opens a sensor of this benchmark in place of a pin.
AGENT = """
import sys
import sensors.dht.driver
sensors.dht.driver.ADAFRUIT = "bench.edge_sensor:open_sensor"
from agent.edge.main import main
sys.exit(main())
"""
IDENTITY = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "{address}"
"""
REPLAY = """
[[sensor]]
driver = "replay"
options = { room = "413", start_row = 10800, preload_rows = 10800 }
"""
# Channel names are unique on a node.
OTHERS = """
[[sensor]]
driver = "dht"
interval_s = 2.0
options = {{ pin = "D4" }}
[sensor.channels.temperature]
name = "dht_temperature"
[sensor.channels.humidity]
name = "dht_humidity"

[[sensor]]
driver = "iio"
interval_s = 2.5
options = {{ sysfs = "{root}/sensors/iio/fixtures/dht22" }}
[sensor.channels.temperature]
name = "iio_temperature"
[sensor.channels.humidity]
name = "iio_humidity"

[[sensor]]
driver = "serial_line"
[sensor.options]
port = "{port}"
format = "csv"
channels = [
    {{ name = "serial_temperature", unit = "celsius", field = 1, low = -40, high = 80 }},
    {{ name = "serial_humidity", unit = "percent", field = 2, low = 0, high = 100 }},
]

[[sensor]]
driver = "synthetic"
[sensor.channels.temperature]
name = "synthetic_temperature"
[sensor.channels.humidity]
name = "synthetic_humidity"
"""


class StubMaster:
    """A ROUTER that welcomes every node that says hello, and answers heartbeats."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.address = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.decoder: codec.Decoder[NodeMessage] = codec.Decoder(NodeMessage)
        self.joined = False

    def await_node(self) -> None:
        """Serve until a node says hello; TimeoutError."""
        self.joined = False
        self.serve(time.monotonic() + PATIENCE_S)
        if not self.joined:
            raise TimeoutError(f"the edge agent sent no hello within {PATIENCE_S:g} s")

    def serve(self, until: float) -> None:
        """Serve messages until the monotonic time `until`, or until the first hello."""
        waiting = not self.joined
        while (left_s := until - time.monotonic()) > 0 and not (waiting and self.joined):
            if not self.socket.poll(int(left_s * 1000) + 1):
                continue
            peer, frame = self.socket.recv_multipart()
            message, _ = self.decoder.decode(frame)
            if isinstance(message, Hello):
                self.joined = True
                self.send(peer, Welcome(message.incarnation, 1.0))
            elif isinstance(message, Heartbeat):
                self.send(peer, message)

    def send(self, peer: bytes, message: Welcome | Heartbeat) -> None:
        """Send to one node."""
        self.socket.send_multipart([peer, codec.encode(message)])

    def close(self) -> None:
        """Release the port."""
        self.socket.close()
        self.context.term()


@contextmanager
def talking_port() -> Iterator[str]:
    """A pseudo-terminal with a sensor that sends a line of CSV per second; yields its path."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    silent = threading.Event()

    def talk() -> None:
        count = 0
        while not silent.wait(1.0):
            count += 1
            os.write(ours, b"%.2f,%.2f\r\n" % (20 + count % 7 / 10, 40 + count % 11 / 10))

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield os.ttyname(theirs)
    finally:
        silent.set()
        thread.join()
        os.close(ours)
        os.close(theirs)


def one_sensor(_port: str) -> str:
    """The configuration of a node with a recording of two channels."""
    return REPLAY


def all_sensors(port: str) -> str:
    """The configuration of a node with all five drivers."""
    return REPLAY + OTHERS.format(root=ROOT, port=port)


def environment() -> dict[str, str]:
    """Environment of the agent: its modules are compiled once, as in an installation. Compiling at
    each start would cost it a MiB and half a second."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(BYTECODE)}


def live_sensor(_port: str) -> str:
    """The configuration of a node with a sensor without recorded past, like a real one."""
    return '[[sensor]]\ndriver = "synthetic"\n'


@contextmanager
def agent(
    master: StubMaster, sensors: Callable[[str], str], folder: str | None = None
) -> Iterator[int]:
    """A running agent that has joined `master`; yields its process id. `sensors` returns its
    sensors for the path of a serial port; its history is in `folder`, or a new one."""
    with ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
        port = stack.enter_context(talking_port())
        file = Path(folder) / "edge.toml"
        file.write_text(IDENTITY.format(address=master.address) + sensors(port))
        command = [sys.executable, "-c", AGENT, "--config", str(file)]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL
        ) as process:
            try:
                master.await_node()
                yield process.pid
            finally:
                process.terminate()


def resident_kib(pid: int | str) -> int:
    """Resident memory in KiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1])
    raise ValueError("no Rss in smaps_rollup")


def resident_mib(pid: int) -> float:
    """Resident memory in MiB."""
    return resident_kib(pid) / 1024


def helpers(pid: int) -> list[int]:
    """Child processes, whose cost is not included in the parent's."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]
