"""Idle cost of the edge agent: memory, CPU, and start-up time.

The real process samples against a stub master that welcomes it and exchanges heartbeats: a shipped
recording with three hours preloaded, alone or with the four other drivers on simulated sensors. It
starts on a history of three hours. Standard Linux only: the numbers come from /proc.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from bench.edge_rig import (
    ROOT,
    StubMaster,
    agent,
    all_sensors,
    environment,
    helpers,
    live_sensor,
    one_sensor,
    resident_mib,
)
from bench.edge_triggers import triggers
from bench.edge_week import week
from bench.output import Result, report, result
from bench.processes import cpu_s

MEASURED_S = 20.0
BARE = "import zmq, sqlite3, msgspec; print(flush=True); input()"
# Start-up is over: imports, preload, first commit and heartbeats.
SETTLING_S = 15.0
STARTS = 7


def bare(measure: Callable[[subprocess.Popen[bytes]], float]) -> float:
    """The result of `measure` for a Python process that only imports zmq, sqlite3 and msgspec."""
    command = [sys.executable, "-c", BARE]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        found = measure(process)
        process.stdin.write(b"\n")
    return found


def idle(master: StubMaster, sensors: Callable[[str], str]) -> tuple[float, float, list[float]]:
    """For an agent with `sensors`: resident MiB, per cent of a core, and the MiB of each helper."""
    with agent(master, sensors) as pid:
        master.serve(time.monotonic() + SETTLING_S)
        start, start_s = cpu_s(pid), time.monotonic()
        master.serve(start_s + MEASURED_S)
        used, elapsed_s = cpu_s(pid) - start, time.monotonic() - start_s
        mib = [round(resident_mib(helper), 1) for helper in helpers(pid)]
        return resident_mib(pid), 100 * used / elapsed_s, mib


def starts(master: StubMaster, folder: str) -> float:
    """Seconds from the start of the process to its hello, with the history in `folder`."""
    begun = time.monotonic()
    with agent(master, live_sensor, folder):
        return time.monotonic() - begun


def bare_starts() -> float:
    """The same from the bare process to its line."""
    begun = time.monotonic()
    return bare(lambda _: time.monotonic() - begun)


def run() -> list[Result]:
    """edge-rss: resident MiB with all five drivers against the bare process (goal: a ratio of 0.8
    or more); edge-cpu: per cent of a core against 1 % (goal: 1 or more); edge-start: time until
    queries are served against the bare process's (goal: 0.2 or more); edge-week: growth in a week
    against 1 % (goal: 1 or more); edge-triggers: readings with ten triggers against some without
    (goal: 0.8)."""
    master = StubMaster()
    try:
        with agent(master, all_sensors):
            pass  # compiles changed modules
        rss, percent_all, mib = idle(master, all_sensors)
        rss_one, percent, _ = idle(master, one_sensor)
        with tempfile.TemporaryDirectory() as folder:
            with agent(master, one_sensor, folder):
                pass  # writes a history of three hours
            pairs = [(starts(master, folder), bare_starts()) for _ in range(STARTS)]
    finally:
        master.close()
    start_s, bare_s = map(statistics.median, zip(*pairs, strict=True))
    imports = "bare Python with zmq, sqlite3, msgspec"
    floor = bare(lambda process: resident_mib(process.pid))
    return [
        result(
            "edge-rss",
            rss,
            "MiB",
            imports,
            floor,
            least_ratio=1 / 1.25,
            one_sensor=rss_one,
            helpers_mib=mib,
        ),
        result("edge-cpu", percent, "% of a core", most=1.0, all_drivers=percent_all),
        result("edge-start", start_s, "ms", imports, bare_s, least_ratio=0.2),
        week(),
        *triggers(),
    ]


if __name__ == "__main__":
    report(run())
