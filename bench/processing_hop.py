"""A message through a worker with a no-op processor, against a bare two-hop relay of as many bytes.

Ours: client → process with the worker pool → worker, which decodes the message, calls the
processor, encodes what it gives → and back, where the outputs are checked. The relay is the floor
of `bench.query`: two processes that only forward frames, over ZeroMQ on loopback TCP. The client's
hop is the same for both.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import zmq

from agent.master.topics.worker_pool import WorkerPool
from agent.processing.definition import Definition
from agent.processing.events import Arrived, Create, Emit, Instruction
from agent.processing.processing import Processing
from agent.runtime.reactor import Reactor
from agent.runtime.signals import StopSignal
from bench.output import Result, report, result
from bench.processes import process, ready
from bench.query import round_trips
from fleet.testbed.ports import free_address

ROUNDS = 15
READING = {"area": "b1/f4/r413", "time_ms": 2**40, "temperature": 21.5, "humidity": 43.25}
MESSAGES = {
    "processing-hop": READING,
    "processing-hop-4k": READING | {f"text_{n}": "x" * 500 for n in range(8)},
}


def master(front_address: str) -> None:
    """Our first hop: run in a process of its own."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as front:
        front.bind(front_address)
        reactor = Reactor(time.monotonic)
        identity, position = b"", 0

        def deliver(instruction: Instruction) -> None:
            assert isinstance(instruction, Emit), instruction
            front.send(identity, zmq.SNDMORE)
            front.send(msgspec.msgpack.encode(instruction.outputs))

        def turn() -> None:
            nonlocal identity, position
            while front.get(zmq.EVENTS) & zmq.POLLIN:
                identity, body = front.recv(), front.recv()
                position += 1
                pool.handle(Arrived("t", position, body))

        pool = WorkerPool(reactor, Processing(1), lambda one: saved(one) or deliver(one))
        reactor.listen(front, turn)
        pool.start()
        pool.handle(Create(Definition(name="t", processor="noop")))
        print("ready", flush=True)
        with StopSignal(on_stdin_eof=True) as stop:
            reactor.serve(stop)
        pool.close()


def saved(instruction: Instruction) -> bool:
    """Whether it is a checkpoint, which a topic would store."""
    return type(instruction).__name__ == "Save"


def package(folder: Path) -> None:
    """A package with the processor `noop`."""
    info = folder / "noop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: noop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sanderling.processors]\nnoop = noop:process\n")
    (folder / "noop.py").write_text("def process(message, state):\n    return [message]\n")


def run() -> list[Result]:
    """Median round trips; goal of processing-hop: ratio at least 0.5."""
    with tempfile.TemporaryDirectory() as name:
        package(Path(name))
        os.environ["PYTHONPATH"] = name
        try:
            return [measure(name, message) for name, message in MESSAGES.items()]
        finally:
            del os.environ["PYTHONPATH"]


def measure(name: str, message: dict[str, object]) -> Result:
    """Round trips of ours and the floor, alternately."""
    body = msgspec.msgpack.encode(message)
    size = str(len(body))
    ours, front, back = free_address(), free_address(), free_address()
    relay = (sys.executable, "-m", "bench.query")
    with (
        process(sys.executable, "-m", "bench.processing_hop", "master", ours) as first,
        process(*relay, "relay", front, back, size, size) as second,
        process(*relay, "worker", back, size) as third,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as through,
        context.socket(zmq.DEALER) as bare,
    ):
        for child in (first, second, third):
            ready(child)
        through.connect(ours)
        bare.connect(front)
        taken: dict[str, list[float]] = {"ours": [], "bare": []}
        round_trips(through, body)
        for _ in range(ROUNDS):
            taken["ours"] += round_trips(through, body)
            taken["bare"] += round_trips(bare, body)
        through.send(body)
        assert msgspec.msgpack.decode(through.recv()) == [message]
    return result(
        name,
        statistics.median(taken["ours"]),
        "us",
        "bare two-hop relay, same payload",
        statistics.median(taken["bare"]),
        least_ratio=0.5,
        bytes=len(body),
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["master", address]:
            master(address)
        case _:
            report(run())
