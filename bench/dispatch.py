"""Dispatch cost: CPU per subtask of the master at fanout 1,000, against a bare synchronous ROUTER
loop.

The nodes are simulated (`bench.peers`); the master is the real process with records on. The floor
is a process that only sends a frame of the same size to every peer and receives one of a result's
size from each, frame by frame.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import zmq

from agent.client import Client
from agent.wire.codec import encode
from agent.wire.messages import Query, Slo, Window
from agent.wire.node_messages import Subtask
from bench.output import Result, report, result
from bench.peers import result_frame
from bench.processes import cpu_s, master, process, ready
from fleet.testbed.ports import free_address

FANOUT = 1_000
ROUNDS = 30
BURST = 5


def floor_loop(address: str, rounds: int) -> None:
    """The bare ROUTER loop, run in a process of its own, which prints its CPU seconds per round."""
    frame = encode(Subtask(123_456, Window(last_s=3_600.0), form="aggregate"))
    size = len(result_frame(123_456))
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.bind(address)
        identities = []
        print("ready", flush=True)
        for _ in range(FANOUT):
            identities.append(router.recv())
            router.recv()
        # Peers echo, so the frame is as long as a result.
        frame = frame.ljust(size, b"\0")
        for _ in range(rounds):
            before = time.process_time()
            for identity in identities:
                router.send(identity, zmq.SNDMORE)
                router.send(frame)
            for _ in range(FANOUT):
                router.recv()
                router.recv()
            print(time.process_time() - before, flush=True)


def floor_s(rounds: int) -> list[float]:
    """CPU seconds per subtask of the bare loop, one figure per round."""
    address = free_address()
    with process(sys.executable, "-m", "bench.dispatch", "floor", address, str(rounds)) as child:
        ready(child)
        with process(sys.executable, "-m", "bench.peers", address, str(FANOUT), "echo") as peers:
            ready(peers)
            assert child.stdout is not None
            return [float(child.stdout.readline()) / FANOUT for _ in range(rounds)]


def run() -> list[Result]:
    """CPU per subtask through the master, query to answer; goal: at most 1.3 times the floor."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        address = free_address()
        with (
            master(folder, address, public=f"ipc://{folder}/public") as pid,
            process(sys.executable, "-m", "bench.peers", address, str(FANOUT), "sanderling") as p,
            Client(f"ipc://{folder}/public") as client,
        ):
            ready(p)
            query = Query(
                "q",
                ("b1",),
                Window(last_s=3_600.0),
                Slo(99.0, 10_000.0),
                form="aggregate",
            )
            ours, floors = [], []
            for round_number in range(ROUNDS):
                before = cpu_s(pid)
                for _ in range(BURST):
                    client.send(query)
                    answer = client.receive(60_000)
                    assert answer.coverage.answered == FANOUT, answer.status
                ours.append((cpu_s(pid) - before) / (FANOUT * BURST))
                if round_number % 10 == 5:
                    floors += floor_s(10)
    return [
        result(
            "dispatch-1000",
            statistics.median(ours),
            "us",
            "CPU of a bare synchronous ROUTER loop per subtask",
            statistics.median(floors),
            least_ratio=1 / 1.3,
        )
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["floor"]:
        floor_loop(sys.argv[2], int(sys.argv[3]))
    else:
        report(run())
