"""Clients that ask for much and read nothing: a master stays small, and others are answered."""

from __future__ import annotations

import threading
from pathlib import Path

import zmq

from agent.client import Client
from agent.scheduling.shared_budget import FULL
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire.codec import JSON, MAX_RESULT_BYTES, Decoder, encode
from agent.wire.packed import Float32Column, Int64Column
from agent.wire.unions import PublicReply
from tests.master.rig import FakeNode, MasterProcess

MIB = 1 << 20
READINGS = 10_800
NODES, SLOW, EACH = 8, 8, 100
SERIES = m.Series(
    Int64Column.of(range(READINGS)),
    {"temperature": Float32Column.of([20.0 + n / 7 for n in range(READINGS)])},
)


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):  # its most so far
            return int(line.split()[1]) / 1024
    raise AssertionError(pid)


class Nodes:
    """Nodes that answer whatever they are asked with three hours of readings, in a thread."""

    def __init__(self, context: zmq.Context, master: MasterProcess) -> None:
        self.nodes = [
            FakeNode(context, master.nodes, f"n{n}", (f"b1/f4/r{n}",)) for n in range(NODES)
        ]
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.serve)

    def serve(self) -> None:
        poller = zmq.Poller()
        for node in self.nodes:
            poller.register(node.socket, zmq.POLLIN)
        while not self.stopping.is_set():
            ready = dict(poller.poll(50))
            for node in self.nodes:
                if node.socket in ready:
                    message = node.receive()
                    if isinstance(message, nm.Subtask):
                        asked = (
                            {"series": SERIES}
                            if message.form == "series"
                            else {"aggregate": m.Aggregate(1, 2, {})}
                        )
                        node.send(nm.SubtaskResult(message.id, "ok", 0.1, 0.2, **asked))
                    elif not isinstance(message, nm.Heartbeat):
                        continue
                    else:
                        node.send(nm.Heartbeat(f"boot-{node.name}"))

    def __enter__(self) -> Nodes:
        self.thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stopping.set()
        self.thread.join()
        for node in self.nodes:
            node.socket.close(0)


def test_who_reads_nothing_is_refused_and_others_are_served(master, context):
    before = resident_mib(master.process.pid)
    query = m.Query("q", ("b1/f4",), m.Window(last_s=10_800.0), m.Slo(99.0, 10_000.0))
    slow = []
    with Nodes(context, master), Client(master.public) as honest:
        assert honest.query(["b1/f4"], last_s=10_800.0, latency_ms=10_000.0).status == "complete"
        try:
            for _ in range(SLOW):
                reader = context.socket(zmq.DEALER)
                for option in (zmq.RCVHWM, zmq.LINGER):
                    reader.setsockopt(option, 1)
                reader.setsockopt(zmq.RCVBUF, 1 << 16)
                reader.connect(master.public)
                slow.append(reader)
            for _ in range(EACH):
                for reader in slow:
                    reader.send(encode(query, JSON))
            came = []

            def served(status):
                # One reads a little: who reads nothing for six seconds is cut by the kernel, and
                # on a busy machine all this takes longer.
                if slow[0].poll(0):
                    came.append(slow[0].recv())
                return status.counters["queries"] >= 1 + SLOW * EACH and not status.open_queries

            refused = master.wait_until(served).counters["queries_refused_overloaded"]
            assert refused > SLOW * EACH // 2
            answer = honest.query(["b1/f4"], last_s=10_800.0, latency_ms=10_000.0)
            assert answer.status == "complete"
            assert resident_mib(master.process.pid) < before + 400
            # Whoever reads at last finds what fitted, and of the rest why.
            decoder = Decoder(PublicReply, MAX_RESULT_BYTES)
            came += [receive(slow[0]) for _ in range(EACH - len(came))]
            told = [decoder.decode(each)[0] for each in came]
            assert {each.status for each in told} == {"complete", "refused"}
            lines = {each.message for each in told if each.status == "refused"}
            assert FULL in lines
        finally:
            for reader in slow:
                reader.close(0)


def receive(reader: zmq.Socket[bytes]) -> bytes:
    assert reader.poll(30_000)
    return reader.recv()
