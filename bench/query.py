"""A one-subtask query through the master and a real edge node, beside a bare two-hop relay.

The relay is the floor: two processes that only pass frames of the same sizes on, client → relay →
worker and back, over the same kind of sockets on loopback TCP.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import zmq

from agent.client import Client, Operator
from agent.wire.codec import encode
from agent.wire.messages import Query, Slo, Subtask, SubtaskResult, Window
from bench.processes import free_address, master, process, ready
from bench.report import Result, report, result

ROUNDS = 15
QUERIES = 200
WINDOW_S = 60.0

EDGE = """
[node]
name = "n1"
areas = ["b1/r1"]
[master]
address = "{nodes}"
[sensor]
driver = "synthetic"
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


def run() -> list[Result]:
    """Median round trip of both; goal: ratio at least 0.5."""
    query = Query("q", ("b1",), Window(last_s=WINDOW_S), Slo(99.0, 10_000.0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "edge.toml").write_text(EDGE.format(nodes=(nodes := free_address())))
        edge = str(Path(sys.executable).with_name("sanderling-edge"))
        with (
            master(folder, nodes, public=(public := free_address())),
            process(edge, "--config", str(folder / "edge.toml")),
            Client(public) as client,
        ):
            with Operator(f"ipc://{folder}/operator") as operator:
                while not operator.status().nodes:
                    pass
            # One reading is taken a second; two are there when the first answer is not empty.
            while not (answer := client.query(["b1"], last_s=WINDOW_S)).results:
                pass
            found = SubtaskResult(1, "ok", 0.1, 0.1, series=answer.results[0].series)
            front, back = free_address(), free_address()
            sizes = [str(len(encode(m))) for m in (Subtask(1, query.window), answer, found)]
            module = (sys.executable, "-m", "bench.query")
            with (
                process(*module, "relay", front, back, sizes[0], sizes[1]) as first,
                process(*module, "worker", back, sizes[2]) as second,
                zmq.Context() as context,
                context.socket(zmq.DEALER) as bare,
            ):
                ready(first)
                ready(second)
                bare.connect(front)
                frame = encode(query)
                ours: list[float] = []
                floor: list[float] = []
                for _ in range(ROUNDS):
                    for _ in range(QUERIES):
                        started = time.perf_counter()
                        client.socket.send(frame)
                        client.socket.recv()
                        ours.append(time.perf_counter() - started)
                    for _ in range(QUERIES):
                        started = time.perf_counter()
                        bare.send(frame)
                        bare.recv()
                        floor.append(time.perf_counter() - started)
    return [
        result(
            "query-two-hop",
            statistics.median(ours),
            "us",
            "bare two-hop relay, same payload",
            statistics.median(floor),
        )
    ]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["relay", front, back, subtask_bytes, answer_bytes]:
            relay(front, back, int(subtask_bytes), int(answer_bytes))
        case ["worker", address, result_bytes]:
            worker(address, int(result_bytes))
        case _:
            report(run())
