"""CPU load of a master at its file limit, while unauthenticated connections use up all descriptors.

A real master that may have 1,024 files; 1,100 connections that never send anything are opened to
its public socket, or to that of its nodes, and kept.
"""

from __future__ import annotations

import socket
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from agent.client import Operator
from bench.output import Result, report, result
from bench.processes import PATIENCE_MS, cpu_s, master
from fleet.testbed.ports import free_address

FILES = 1_024
CONNECTIONS = 1_100
PATIENCE_S = 20.0
SETTLING_S = 1.5
MEASURED_S = 4.0
GOAL_PERCENT = 5.0


def burnt_percent(pid: int) -> float:
    """CPU time of a process, in percent of a core."""
    before = cpu_s(pid)
    time.sleep(MEASURED_S)
    return (cpu_s(pid) - before) / MEASURED_S * 100


def measure(flooded: str) -> Result:
    """Measure one socket, "public" or "nodes"."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        nodes, public = free_address(), free_address()
        under = ("prlimit", f"--nofile={FILES}:{FILES}")
        pid = stack.enter_context(master(folder, nodes, public, under=under))
        alone = burnt_percent(pid)
        host, port = {"public": public, "nodes": nodes}[flooded].removeprefix("tcp://").split(":")
        for _ in range(CONNECTIONS):
            # Connections beyond the limit are reset; if none are accepted any more, they wait for
            # ever.
            with suppress(ConnectionResetError, TimeoutError):
                stack.enter_context(socket.create_connection((host, int(port)), PATIENCE_S))
        time.sleep(SETTLING_S)
        at_limit = burnt_percent(pid)
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        with Operator(f"ipc://{folder}/operator") as operator:
            lost = operator.status(PATIENCE_MS).counters["records_lost"]
    return result(
        f"file-limit-{flooded}", at_limit, "% of a core", "before", alone,
        files=files, limit=FILES, records_lost=lost, most=GOAL_PERCENT,
    )  # fmt: skip


def run() -> list[Result]:
    """Both sockets; goal: at most 5 % of a core."""
    return [measure("public"), measure("nodes")]


if __name__ == "__main__":
    report(run())
