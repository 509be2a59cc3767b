"""The start of the commands: `fleet --help`, and `fleet query` end to end on loopback, beside a
Python that imports what they cannot do without.

python -m bench.cli_start
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agent.client import Client
from bench.output import Result, interleaved, report, result
from bench.processes import agent, master, process
from bench.query import EDGE, READINGS, first_readings
from fleet.testbed.ports import free_address

ROUNDS = 15
GOAL_S = 0.15
BARE = (sys.executable, "-c", "import zmq, msgspec, click")
FLEET = str(Path(sys.executable).with_name("fleet"))


def duration(bytecode: Path, *command: str) -> Callable[[], float]:
    """A measure of a command from its start to its end, in seconds. Bytecode is kept in a folder of
    the benchmark, whatever the environment says of it: an installed command has it, too."""
    kept = os.environ | {"PYTHONPYCACHEPREFIX": str(bytecode)}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)

    def measure() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, env=kept, capture_output=True)
        return time.perf_counter() - started

    measure()  # compiles
    return measure


def run() -> list[Result]:
    """Medians; goal of cli-query: 150 ms, on a quiet machine."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "edge.toml").write_text(EDGE.format(nodes=(nodes := free_address())))
        with (
            master(folder, nodes, public=(public := free_address())),
            process(agent("edge"), "--config", str(folder / "edge.toml")),
        ):
            with Client(public) as client:
                first_readings(client, READINGS)
            bytecode = folder / "bytecode"
            query = ("query", "--master", public, "--area", "b1/r1", "--last", "10s")
            bare_s, help_s, query_s = interleaved(
                ROUNDS,
                duration(bytecode, *BARE),
                duration(bytecode, FLEET, "--help"),
                duration(bytecode, FLEET, *query),
            )
    bare = "python -c 'import zmq, msgspec, click'"
    return [
        result("cli-start", help_s, "ms", bare, bare_s),
        result("cli-query", query_s, "ms", bare, bare_s, most=GOAL_S),
    ]


if __name__ == "__main__":
    report(run())
