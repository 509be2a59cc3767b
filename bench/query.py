"""A one-subtask query through the master and a real edge node, against a bare two-hop relay.

The relay is the floor: two processes that only forward frames of the same sizes, client → relay →
worker and back, over the same kind of sockets on loopback TCP. The windows are fixed intervals of
the past, so that both sides carry the same payload throughout: one lies in the node's memory, where
the main loop serves it at once; the other in its file, and goes through a pod. Other work on the
machine makes round trips longer, so the processor time of both processes is told, too.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import zmq

from agent.client import Client, Operator
from agent.wire.codec import encode
from agent.wire.messages import Answer, Query, Slo, Window
from agent.wire.node_messages import Subtask, SubtaskResult
from bench.output import Result, report, result
from bench.processes import agent, cpu_s, master, process, ready
from fleet.testbed.ports import free_address

ROUNDS = 15
QUERIES = 200
READINGS = 60
# The preloaded readings are in the file, 18 row groups; later ones grow in memory.
PRELOADED = 18 * 600
# Goals: the longest that a query takes, as a multiple of the floor.
LONGEST = {"query-two-hop": 1.3, "query-two-hop-pod": 1.6}

EDGE = """
[node]
name = "n1"
areas = ["b1/r1"]
[master]
address = "{nodes}"
[[sensor]]
driver = "synthetic"
interval_s = 0.05
options = {{ preload_rows = 10800 }}
"""


def relay(front_address: str, back_address: str, subtask_bytes: int, answer_bytes: int) -> None:
    """The floor's first hop: run in a process of its own."""
    with zmq.Context() as context:
        front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        front.bind(front_address)
        back.bind(back_address)
        subtask, answer = b"s" * subtask_bytes, b"a" * answer_bytes
        print("ready", flush=True)
        while True:
            identity = front.recv()
            front.recv()
            back.send(subtask)
            back.recv()
            front.send(identity, zmq.SNDMORE)
            front.send(answer)


def worker(address: str, result_bytes: int) -> None:
    """The floor's second hop: run in a process of its own."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.connect(address)
        frame = b"r" * result_bytes
        print("ready", flush=True)
        while True:
            socket.recv()
            socket.send(frame)


def ask_for(times: Sequence[int]) -> bytes:
    """The frame of a query for the readings of `times`."""
    window = Window(start_ms=times[0], end_ms=times[-1] + 1)
    return encode(Query("q", ("b1",), window, Slo(99.0, 10_000.0)))


def round_trips(socket: zmq.Socket[bytes], frame: bytes) -> list[float]:
    """Duration of each of QUERIES round trips, in seconds."""
    taken = []
    for _ in range(QUERIES):
        started = time.perf_counter()
        socket.send(frame)
        socket.recv()
        taken.append(time.perf_counter() - started)
    return taken


def first_readings(client: Client, count: int) -> Sequence[int]:
    """The times of the node's first `count` readings, in ms, once it has stored them."""
    while True:
        found = client.query(["b1"], last_s=86_400.0, latency_ms=10_000.0).results
        series = found[0].series if found else None
        if series is not None and len(series.time_ms) >= count:
            return series.time_ms.numbers()[:count]


def run() -> list[Result]:
    """Median round trips, and processor time of all processes between. Goals: query-two-hop at most
    1.3 times the floor, query-two-hop-pod 1.6 times."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "edge.toml").write_text(EDGE.format(nodes=(nodes := free_address())))
        edge = agent("edge")
        with (
            master(folder, nodes, public=(public := free_address())) as first,
            process(edge, "--config", str(folder / "edge.toml")) as second,
            Client(public) as client,
        ):
            with Operator(f"ipc://{folder}/operator") as operator:
                while not operator.status().nodes:
                    pass
            times = first_readings(client, PRELOADED + READINGS)
            frames = {
                "query-two-hop": ask_for(times[-READINGS:]),
                "query-two-hop-pod": ask_for(times[PRELOADED - READINGS : PRELOADED]),
            }
            for frame in frames.values():
                client.socket.send(frame)
                answer = client.receive(10_000)
                series = answer.results[0].series
                assert series is not None
                assert len(series.time_ms) == READINGS
            cost = partial(cpu_of, first, second.pid)
            floor, ours, cpu = measure(client, frames, answer, cost)
    peer = "bare two-hop relay, same payload"
    trips = [
        result(
            name,
            statistics.median(ours[name]),
            "us",
            peer,
            statistics.median(floor),
            least_ratio=1 / LONGEST[name],
        )
        for name in frames
    ]
    return [
        *trips,
        result("query-two-hop-cpu", min(cpu["query-two-hop"]), "us", peer, min(cpu["floor"])),
    ]


def cpu_of(*pids: int) -> float:
    """Processor time of these processes so far, all their threads, in seconds."""
    return sum(map(cpu_s, pids))


def measure(
    client: Client, frames: dict[str, bytes], answer: Answer, cost_s: Callable[[], float]
) -> tuple[list[float], dict[str, list[float]], dict[str, list[float]]]:
    """Round trips of the floor and of each frame, alternately, and what one took of the time that
    `cost_s` tells, in each round."""
    found = SubtaskResult(1, "ok", 0.1, 0.1, series=answer.results[0].series)
    subtask = Subtask(1, Window(start_ms=2**41, end_ms=2**41 + 1))
    subtask_bytes, answer_bytes, result_bytes = (
        str(len(encode(message))) for message in (subtask, answer, found)
    )
    front, back = free_address(), free_address()
    module = (sys.executable, "-m", "bench.query")
    floor: list[float] = []
    ours: dict[str, list[float]] = {name: [] for name in frames}
    cpu: dict[str, list[float]] = {name: [] for name in (*frames, "floor")}
    with (
        process(*module, "relay", front, back, subtask_bytes, answer_bytes) as first,
        process(*module, "worker", back, result_bytes) as second,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as bare,
    ):
        ready(first)
        ready(second)
        bare.connect(front)
        for _ in range(ROUNDS):
            for name, frame in frames.items():
                before_s = cost_s()
                ours[name] += round_trips(client.socket, frame)
                cpu[name].append((cost_s() - before_s) / QUERIES)
            before_s = cpu_of(first.pid, second.pid)
            floor += round_trips(bare, frames["query-two-hop"])
            cpu["floor"].append((cpu_of(first.pid, second.pid) - before_s) / QUERIES)
    return floor, ours, cpu


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["relay", front, back, subtask_bytes, answer_bytes]:
            relay(front, back, int(subtask_bytes), int(answer_bytes))
        case ["worker", address, result_bytes]:
            worker(address, int(result_bytes))
        case _:
            report(run())
