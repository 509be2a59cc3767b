"""What one hostile client costs the others: attacks on the public socket of a real master.

Each case is a line: the honest client's p99 during the attack, beside the one before it in the same
run, and the master's resident memory before, at its peak, and within a minute after. Goals: p99 at
most 1.5 times (ratio at least 0.67), memory at most 64 MiB more. The attackers are processes of
their own, and take part of the machine's processors with them.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import zmq

from agent.client import Client
from agent.wire.codec import JSON, MESSAGEPACK, encode
from agent.wire.messages import Query, Slo, Window
from agent.wire.standing import Watch
from bench.processes import master, process, ready
from bench.report import Result, result
from fleet.lab.ports import free_address

MEASURED = 400
WARM_UP = 100
ATTACK_S = 6.0
AFTER_S = 60.0
NODES = 32
MIB = 1 << 20
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
WINDOW = Window(last_s=60.0)
SLO = Slo(99.0, 10_000.0)


def rss(pid: int) -> float:
    """Resident memory, MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


# --- attacks: each runs in a process of its own, until it is ended -------------------------------


def _dealers(address: str, count: int) -> list[zmq.Socket[bytes]]:
    sockets = []
    for _ in range(count):
        made = zmq.Context.instance().socket(zmq.DEALER)
        made.setsockopt(zmq.LINGER, 0)
        made.connect(address)
        sockets.append(made)
    return sockets


def _flood(address: str, frame: bytes, connections: int, rate_per_s: float) -> Iterator[None]:
    sockets = _dealers(address, connections)
    pause_s = connections / rate_per_s
    while True:
        for each in sockets:
            while each.poll(0):
                each.recv()
            if each.poll(0, zmq.POLLOUT):
                each.send(frame)
        yield
        time.sleep(pause_s)


def arrays(address: str) -> Iterator[None]:
    """Frames of 1 MB with 250,000 areas in JSON, 500 a second over four connections."""
    frame = b'10J{"type":"query","id":"a","areas":[' + b",".join([b'"b"'] * 250_000) + b"]}"
    return _flood(address, frame, 4, 500.0)


def areas(address: str) -> Iterator[None]:
    """Valid queries with 1,024 unknown areas, 200 a second over two connections."""
    asked = tuple(f"x{n}/y" for n in range(1_024))
    frame = encode(Query("a", asked, WINDOW, SLO), MESSAGEPACK)
    return _flood(address, frame, 2, 200.0)


def _raw(address: str) -> socket.socket:
    host, port = address.removeprefix("tcp://").split(":")
    made = socket.create_connection((host, int(port)))
    made.sendall(GREETING)
    missing = 64
    while missing:
        missing -= len(made.recv(missing)) or missing
    made.sendall(READY)
    return made


def multipart(address: str) -> Iterator[None]:
    """One message whose last part never comes, again and again."""
    part = b"\x03" + (MIB // 2).to_bytes(8) + b"x" * (MIB // 2)
    while True:
        connection = _raw(address)
        try:
            while True:
                connection.sendall(part)
                yield
        except OSError:
            connection.close()
            time.sleep(0.02)


def partial(address: str) -> Iterator[None]:
    """A hundred connections that send all but the end of the largest frame, and stop."""
    half = b"\x02" + MIB.to_bytes(8) + b"x" * (MIB - 1_000)
    held: list[socket.socket] = []
    for _ in range(100):
        try:
            held.append(_raw(address))
            held[-1].sendall(half)
        except OSError:
            pass
        yield
    while True:
        time.sleep(0.1)
        yield


def watches(address: str) -> Iterator[None]:
    """200 watches of everything for three hours, every 0.05 s, over two connections."""
    sockets = _dealers(address, 2)
    for number in range(200):
        asked = Watch(f"w{number}", ("b1",), SLO, "periodic", 0.05, window_s=10_800.0)
        sockets[number % 2].send(encode(asked, JSON))
        yield
    while True:
        for each in sockets:
            while each.poll(10):
                each.recv()
        yield


ATTACKS: dict[str, Callable[[str], Iterator[None]]] = {
    "arrays": arrays,
    "areas": areas,
    "multipart": multipart,
    "partial": partial,
    "watches": watches,
}


# --- the honest client ---------------------------------------------------------------------------


def _asked_s(client: Client, count: int) -> list[float]:
    """What room queries took, one after the other."""
    taken = []
    for number in range(count):
        started = time.perf_counter()
        answer = client.query([f"b1/r{number % NODES}"], last_s=60.0, latency_ms=10_000.0)
        taken.append(time.perf_counter() - started)
        assert answer.status == "complete", answer
    return taken


def _p99_s(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.99)]


def measure(name: str) -> Result:
    """One attack."""
    module = (sys.executable, "-m")
    with tempfile.TemporaryDirectory() as folder:
        nodes, public = free_address(), free_address()
        with (
            master(Path(folder), nodes, public) as pid,
            process(*module, "bench.hostile_nodes", nodes, str(NODES)) as fleet,
            Client(public) as client,
        ):
            ready(fleet)
            _asked_s(client, WARM_UP)
            before_s, resident = _p99_s(_asked_s(client, MEASURED)), rss(pid)
            peak, done = [resident], threading.Event()

            def watch_memory() -> None:
                while not done.wait(0.02):
                    peak[0] = max(peak[0], rss(pid))

            watching = threading.Thread(target=watch_memory)
            watching.start()
            try:
                with process(*module, "bench.hostile", name, public) as attacker:
                    ready(attacker)
                    ends_s = time.monotonic() + ATTACK_S
                    during = _asked_s(client, MEASURED)
                    while time.monotonic() < ends_s:
                        during += _asked_s(client, 10)
            finally:
                done.set()
                watching.join()
            started = time.monotonic()
            while rss(pid) > resident + 16.0 and time.monotonic() < started + AFTER_S:
                time.sleep(0.2)
            after_s, after = time.monotonic() - started, rss(pid)
            back_s = _p99_s(_asked_s(client, MEASURED))
    return result(
        f"hostile-{name}",
        _p99_s(during),
        "ms",
        "the same client before",
        before_s,
        p99_after_ms=round(back_s * 1e3, 2),
        rss_mib={"before": round(resident), "peak": round(peak[0]), "after": round(after)},
        back_after_s=round(after_s, 1),
    )


def run(name: str) -> list[Result]:
    """One attack; goals: ratio at least 0.67, memory at most 64 MiB more."""
    return [measure(name)]


if __name__ == "__main__":
    attack = ATTACKS[sys.argv[1]](sys.argv[2])
    next(attack)
    print("ready", flush=True)
    for _ in attack:
        pass
