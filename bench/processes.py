"""Processes for benchmarks: the real master, and helpers that print a line when ready."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from agent.client import Operator

MASTER = """
[iad]
name = "iad1"
[sockets]
public = "{public}"
nodes = "{nodes}"
operator = "ipc://{folder}/operator"
[[pool]]
iad = "iad1"
address = "{public}"
areas = ["b1"]
[liveness]
heartbeat_s = {heartbeat_s}
lost_after = 2
[clients]
rate_per_s = {rate_per_s}
"""


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A child process that is ended with the block."""
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdout=pipe, stdin=pipe, text=True) as child:
        try:
            yield child
        finally:
            child.terminate()
            child.wait(10)


def ready(child: subprocess.Popen[str]) -> None:
    """Wait for the child's line."""
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "ready"


def cpu_s(pid: int) -> float:
    """CPU time of a process, all its threads, in seconds, to the nanosecond."""
    # The clock id of another process's CPU time, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime(~pid << 3 | 2)


def agent(name: str) -> str:
    """The command of an installed agent: "edge", "master"."""
    return str(Path(sys.executable).with_name(f"sanderling-{name}"))


@contextlib.contextmanager
def master(
    folder: Path,
    nodes: str,
    public: str,
    *,
    heartbeat_s: float = 3_600.0,
    rate_per_s: float = 1e6,
    under: tuple[str, ...] = (),
) -> Iterator[int]:
    """A running master that covers b1; yields its process id. Simulated nodes send no heartbeats,
    so one per hour is enough. `under` is a command that runs its command, and becomes it."""
    config = folder / "master.toml"
    config.write_text(
        MASTER.format(
            folder=folder,
            nodes=nodes,
            public=public,
            heartbeat_s=heartbeat_s,
            rate_per_s=rate_per_s,
        )
    )
    arguments = (*under, agent("master"), "--config", str(config), "--exit-on-stdin-eof")
    with process(*arguments) as child:
        with Operator(f"ipc://{folder}/operator") as operator:
            operator.status(60_000)
        yield child.pid
