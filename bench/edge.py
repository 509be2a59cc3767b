"""What the edge agent costs while nobody asks it anything: memory, and CPU at one reading a second.

The real process samples a shipped recording with three hours preloaded, against a stub master that
welcomes it and exchanges heartbeats. Standard Linux only: the numbers come from /proc.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import zmq

from agent.wire import codec
from agent.wire.messages import Heartbeat, Hello, NodeMessage, Welcome
from bench.processes import cpu_s
from bench.report import Result, report, result

ROOT = Path(__file__).resolve().parent.parent
MEASURED_S = 20.0
SETTLING_S = 5.0  # start-up is over: imports, preload, first commit and heartbeats
BARE = "import zmq, sqlite3, msgspec; print(flush=True); input()"
AGENT = "import sys; from agent.edge.main import main; sys.exit(main())"  # as sanderling-edge does
CONFIG = """
[node]
name = "n1"
areas = ["b1/f4/r413"]
[master]
address = "{address}"
[[sensor]]
driver = "replay"
options = {{ room = "413", start_row = 10800, preload_rows = 10800 }}
"""


class StubMaster:
    """A ROUTER that welcomes whoever says hello, and answers heartbeats."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.address = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.decoder: codec.Decoder[NodeMessage] = codec.Decoder(NodeMessage)
        self.joined = False

    def serve(self, until: float) -> None:
        """Answer what arrives until the monotonic time `until`, or until the first hello."""
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


def resident_mib(pid: int) -> float:
    """Resident memory in MiB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) / 1024
    raise ValueError("no Rss in smaps_rollup")


def bare_mib() -> float:
    """Resident memory of a Python process that only imports zmq, sqlite3 and msgspec."""
    with subprocess.Popen(
        [sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        found = resident_mib(process.pid)
        process.stdin.write(b"\n")
    return found


def run() -> list[Result]:
    """edge-rss: resident MiB beside the bare process (aim: a ratio of 0.8 or more); edge-cpu: per
    cent of a core beside 1 % (aim: a ratio of 1 or more)."""
    master = StubMaster()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "edge.toml"
        file.write_text(CONFIG.format(address=master.address))
        command = [sys.executable, "-c", AGENT, "--config", str(file)]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
            try:
                master.serve(time.monotonic() + 30)
                if not master.joined:
                    raise TimeoutError("the edge agent sent no hello within 30 s")
                master.serve(time.monotonic() + SETTLING_S)
                start, start_s = cpu_s(process.pid), time.monotonic()
                master.serve(start_s + MEASURED_S)
                used, elapsed_s = cpu_s(process.pid) - start, time.monotonic() - start_s
                rss = resident_mib(process.pid)
                children = len(helpers(process.pid))
            finally:
                process.terminate()
    master.close()
    bare = bare_mib()
    percent = 100 * used / elapsed_s
    return [
        result(
            "edge-rss", rss, "MiB", "bare Python with zmq, sqlite3, msgspec", bare, helpers=children
        ),
        result("edge-cpu", percent, "% of a core", "the aim", 1.0, helpers=children),
    ]


def helpers(pid: int) -> list[str]:
    """Child processes of the agent: their cost is not in its own."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [child for task in tasks for child in (task / "children").read_text().split()]


if __name__ == "__main__":
    report(run())
