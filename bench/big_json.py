"""Latency of small queries while another client continuously asks for 32 rooms × 3 h in JSON.

Real processes: a master, the node of the 32 rooms, another node for the small queries, and the
other client, which reads and discards its answers. Phases with and without it alternate.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from pathlib import Path

import zmq

from agent.client import Client, Operator
from agent.wire.codec import JSON, encode
from agent.wire.messages import Query, Slo, Window
from bench.output import Result, report, result
from bench.processes import PATIENCE_MS, agent, master, process, ready
from fleet.testbed.ports import free_address

ROOMS = 32
SMALL = ["b1/s"]
ROWS = 3 * 3_600
PHASES = 6
PHASE_S = 4.0
PAUSE_S = 0.005
GOAL = 1.5

EDGE = """
[node]
name = "{name}"
areas = {areas}
[master]
address = "{nodes}"
[[sensor]]
driver = "synthetic"
interval_s = 1.0
options = {{ preload_rows = {rows} }}
"""


def ask_large(address: str) -> None:
    """The other client, run in a process of its own: each line on its standard input starts or
    stops its queries. Prints how many answers it had, and the bytes of the last."""
    query = Query(
        "large",
        tuple(f"b1/r{number}" for number in range(ROOMS)),
        Window(last_s=float(ROWS)),
        Slo(99.0, 30_000.0),
    )
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(address)
        poller = zmq.Poller()
        poller.register(sys.stdin, zmq.POLLIN)
        print("ready", flush=True)
        while sys.stdin.readline():
            answers = size = 0
            while not poller.poll(0):
                socket.send(encode(query, JSON))
                size = len(socket.recv())
                answers += 1
            sys.stdin.readline()
            print(answers, size, flush=True)


def small_queries(client: Client, seconds: float) -> list[float]:
    """Latencies of consecutive small queries, in seconds."""
    taken = []
    until = time.perf_counter() + seconds
    while (started := time.perf_counter()) < until:
        answer = client.query(SMALL, last_s=10.0, latency_ms=10_000.0)
        taken.append(time.perf_counter() - started)
        assert answer.status == "complete", answer
        time.sleep(PAUSE_S)
    return taken


def p99(taken: list[float]) -> float:
    """The 99th percentile."""
    return statistics.quantiles(taken, n=100)[98]


def run() -> list[Result]:
    """Goal of loop-big-json: p99 with the other client at most 1.5 times that without."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        nodes, public = free_address(), free_address()
        rooms = [f"b1/r{number}" for number in range(ROOMS)]
        edge = agent("edge")
        stack.enter_context(master(folder, nodes, public))
        for node, areas, rows in (("large", rooms, ROWS), ("small", SMALL, 600)):
            (home := folder / node).mkdir()
            text = EDGE.format(name=node, areas=areas, nodes=nodes, rows=rows).replace("'", '"')
            (home / "edge.toml").write_text(text)
            stack.enter_context(process(edge, "--config", str(home / "edge.toml")))
        with Operator(f"ipc://{folder}/operator") as operator:
            while len(operator.status(PATIENCE_MS).nodes) < 2:
                time.sleep(0.05)
        client = stack.enter_context(Client(public))
        other = stack.enter_context(process(sys.executable, "-m", "bench.big_json", "ask", public))
        ready(other)
        assert other.stdin is not None
        assert other.stdout is not None
        small_queries(client, 1.0)
        alone: list[float] = []
        beside: list[float] = []
        answers = size = 0
        for _ in range(PHASES):
            alone += small_queries(client, PHASE_S)
            other.stdin.write("ask\n")
            other.stdin.flush()
            beside += small_queries(client, PHASE_S)
            other.stdin.write("stop\n")
            other.stdin.flush()
            count, size = map(int, other.stdout.readline().split())
            answers += count
    ratio = p99(beside) / p99(alone)
    return [
        result(
            "loop-big-json", p99(beside), "ms", "p99 without the other client", p99(alone),
            times=round(ratio, 2), p50_ms=round(statistics.median(beside) * 1e3, 3),
            p50_alone_ms=round(statistics.median(alone) * 1e3, 3),
            worst_ms=round(max(beside) * 1e3, 1), large_answers=answers,
            large_mb=round(size / 1e6, 1), least_ratio=1 / GOAL,
        )
    ]  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:2] == ["ask"]:
        ask_large(sys.argv[2])
    else:
        report(run())
