"""Refusal of a query whose answer exceeds the size of a message: its cost, and the cost to others.

Real processes: a master, a node with three sensors of two channels at 1 Hz over three days, and
another node, for the small queries of another client, which go on meanwhile. Phases with and
without the large queries, which follow each other without a pause, alternate.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from agent.client import Client, Operator
from bench.big_json import EDGE, GOAL, PHASE_S, PHASES, SMALL, p99, small_queries
from bench.output import Result, report, result
from bench.processes import PATIENCE_MS, agent, cpu_s, master, process
from fleet.testbed.ports import free_address

ROWS = 3 * 86_400
SENSORS = 3
LARGE = ["b1/large"]
ASKED = 50
FURTHER_SENSOR = """
[[sensor]]
name = "further{number}"
driver = "synthetic"
interval_s = 1.0
options = {{ seed = {number}, preload_rows = {rows} }}
[sensor.channels.temperature]
name = "temperature{number}"
[sensor.channels.humidity]
name = "humidity{number}"
"""


def refused(client: Client) -> float:
    """Query everything; returns the time to the refusal, in seconds. The refusal names the window
    that would fit."""
    started = time.perf_counter()
    answer = client.query(LARGE, last_s=ROWS + 3_600.0, latency_ms=PATIENCE_MS)
    taken = time.perf_counter() - started
    (gap,) = answer.missing
    assert (gap.reason, answer.results) == ("too_large", ()), answer
    assert gap.longest_s is not None
    assert 86_400 <= gap.longest_s < ROWS
    return taken


class Asking(threading.Thread):
    """Queries without a pause until `end`."""

    def __init__(self, public: str) -> None:
        super().__init__(name="large queries")
        self._public = public
        self._end = threading.Event()
        self.asked = 0
        self.start()

    def run(self) -> None:
        """Run the thread."""
        with Client(self._public) as client:
            while not self._end.is_set():
                refused(client)
                self.asked += 1

    def end(self) -> int:
        """Stop; returns the number of refusals."""
        self._end.set()
        self.join()
        return self.asked


def _nodes(stack: ExitStack, folder: Path, nodes: str) -> int:
    """Start both; yields the process of the one with too much data."""
    pids = []
    for name, areas, rows, sensors in (("large", LARGE, ROWS, SENSORS), ("small", SMALL, 600, 1)):
        (home := folder / name).mkdir()
        text = EDGE.format(name=name, areas=json.dumps(areas), nodes=nodes, rows=rows)
        for number in range(1, sensors):
            text += FURTHER_SENSOR.format(number=number, rows=rows)
        (home / "edge.toml").write_text(text)
        arguments = (agent("edge"), "--config", str(home / "edge.toml"), "--exit-on-stdin-eof")
        pids.append(stack.enter_context(process(*arguments)).pid)
    return pids[0]


def run() -> list[Result]:
    """A refusal, with the CPU time that master and node spent on it; and the other client's p99
    beside it. Goal of loop-too-large: at most 1.5 times that without."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        nodes, public = free_address(), free_address()
        pid = stack.enter_context(master(folder, nodes, public))
        node = _nodes(stack, folder, nodes)
        with Operator(f"ipc://{folder}/operator") as operator:
            while len(operator.status(PATIENCE_MS).nodes) < 2:
                pass
        client = stack.enter_context(Client(public))
        refused(client)
        spent = cpu_s(pid), cpu_s(node)
        taken = [refused(client) for _ in range(ASKED)]
        master_s, node_s = cpu_s(pid) - spent[0], cpu_s(node) - spent[1]
        small_queries(client, 1.0)
        alone: list[float] = []
        beside: list[float] = []
        asked = 0
        for _ in range(PHASES):
            alone += small_queries(client, PHASE_S)
            asking = Asking(public)
            beside += small_queries(client, PHASE_S)
            asked += asking.end()
    times = p99(beside) / p99(alone)
    return [
        result(
            "too-large", statistics.median(taken), "ms", "a small query", statistics.median(alone),
            p99_ms=round(p99(taken) * 1e3, 2), asked=ASKED,
            master_cpu_ms=round(master_s / ASKED * 1e3, 3),
            node_cpu_ms=round(node_s / ASKED * 1e3, 3),
        ),
        result(
            "loop-too-large", p99(beside), "ms", "p99 without the large queries", p99(alone),
            times=round(times, 2), refused=asked, least_ratio=1 / GOAL,
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    report(run())
