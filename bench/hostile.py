"""Attacks on a real master's public socket: the cost of one hostile client to the others.

Each case is a line: the honest client's p99 during the attack, against the one without it, and the
master's resident memory before, at its peak, and within a minute after. Attacks alternate with
quiet phases, so that what else slows the machine down slows both. Goals: p99 at most 1.5 times
(ratio at least 0.67), memory at most 64 MiB more.

A real attacker sits on another machine, where its own work costs the master nothing; here it would
compete for the master's processors as an equal. So it runs as SCHED_IDLE, on time that the others
leave; `sent_mb_s` tells what it sent, and `percent` the processor share of each process. `as_equal`
is the same attack in the ordinary class afterwards: the difference is the attacker's.

`on_another_ms` is the honest client's p99 while the same attack is on another master of this
machine, in turn with the others. That master keeps its threads busy and no client waits for its
loop: what a master of one's own leaves of an attack, and a floor for what one loop can reach here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import string
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zmq

from agent.client import Client
from agent.wire.codec import JSON, MESSAGEPACK, encode
from agent.wire.messages import Query, Slo, Window
from agent.wire.push import Subscribe, Unsubscribe
from agent.wire.watches import Cancel, Watch
from bench.output import Result, result
from bench.processes import cpu_s, master, process, ready
from fleet.testbed.ports import free_address

ROUNDS = 8
# Of the honest client, in each phase of a round.
MEASURED = 250
WARM_UP = 100
ATTACK_S = 1.5
# What an attack left in queues is gone then.
SETTLING_S = 0.5
AFTER_S = 60.0
BACK_MIB = 16.0  # above what it had before
NODES = 32
MIB = 1 << 20
GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06DEALER"
# As by default; the honest client stays below it.
RATE_PER_S = 1_000.0
HONEST_PAUSE_S = 0.001
WINDOW = Window(last_s=60.0)
SLO = Slo(99.0, 10_000.0)


def rss(pid: int) -> float:
    """Resident memory, MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


# --- attacks: each runs in a process of its own until it is ended, and yields the bytes sent ----


def _dealers(address: str, count: int) -> list[zmq.Socket[bytes]]:
    sockets = []
    for _ in range(count):
        made = zmq.Context.instance().socket(zmq.DEALER)
        made.setsockopt(zmq.LINGER, 0)
        made.connect(address)
        sockets.append(made)
    return sockets


def _flood(address: str, frame: bytes, connections: int, rate_per_s: float) -> Iterator[int]:
    sockets = _dealers(address, connections)
    pause_s = connections / rate_per_s
    while True:
        sent = 0
        for each in sockets:
            while each.poll(0):
                each.recv()
            if each.poll(0, zmq.POLLOUT):
                each.send(frame)
                sent += len(frame)
        yield sent
        time.sleep(pause_s)


def arrays(address: str) -> Iterator[int]:
    """Frames of 1 MB with 250,000 areas in JSON, 500 a second over four connections."""
    frame = b'10J{"type":"query","id":"a","areas":[' + b",".join([b'"b"'] * 250_000) + b"]}"
    return _flood(address, frame, 4, 500.0)


def areas(address: str) -> Iterator[int]:
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


def multipart(address: str) -> Iterator[int]:
    """One message whose last part never comes, again and again."""
    part = b"\x03" + (MIB // 2).to_bytes(8) + b"x" * (MIB // 2)
    while True:
        connection = _raw(address)
        try:
            while True:
                connection.sendall(part)
                yield len(part)
        except OSError:
            connection.close()
            time.sleep(0.02)


def partial(address: str) -> Iterator[int]:
    """A hundred connections that send all but the end of the largest frame, and stop."""
    half = b"\x02" + MIB.to_bytes(8) + b"x" * (MIB - 1_000)
    held: list[socket.socket] = []
    for _ in range(100):
        try:
            held.append(_raw(address))
            held[-1].sendall(half)
        except OSError:
            pass
        yield len(half)
    while True:
        time.sleep(0.1)
        yield 0


def watches(address: str) -> Iterator[int]:
    """200 watches of everything for three hours, every 0.05 s, over two connections."""
    sockets = _dealers(address, 2)
    for number in range(200):
        asked = Watch(f"w{number}", ("b1",), SLO, "periodic", 0.05, window_s=10_800.0)
        sockets[number % 2].send(frame := encode(asked, JSON))
        yield len(frame)
    while True:
        for each in sockets:
            while each.poll(10):
                each.recv()
        yield 0


def changes(address: str) -> Iterator[int]:
    """Watches opened and cancelled, and filters that take long to multiply out: 1,000 requests a
    second over two connections."""
    any_of = "(" + " or ".join(f"a > {n}" for n in range(20)) + ")"
    text = any_of + "".join(f" and a < {n + 100}" for n in range(20))
    watch = [encode(each) for each in (Watch("w", ("b1/r1",), SLO, "periodic", 60.0), Cancel("w"))]
    # No two alike in a row: what was read lately is remembered.
    texts = [text.replace("a ", f"{letter} ") for letter in string.ascii_letters]
    subscriptions = itertools.cycle([encode(Subscribe("s", each)) for each in texts])
    ended = encode(Unsubscribe("s"))
    sockets = _dealers(address, 2)
    while True:
        sent = 0
        frames = (*watch, next(subscriptions), ended)
        for each, frame in itertools.product(sockets, frames):
            while each.poll(0):
                each.recv()
            if each.poll(0, zmq.POLLOUT):
                each.send(frame)
                sent += len(frame)
        yield sent
        time.sleep(len(sockets) * len(frames) / 1_000.0)


def unread(address: str) -> Iterator[int]:
    """Queries for 400 unknown areas, whose answers have some 30 KB: 400 a second over eight
    connections that read none of them."""
    asked = tuple(f"x{n}/{'y' * 40}" for n in range(400))
    frame = encode(Query("a", asked, WINDOW, SLO), JSON)
    sockets = []
    for _ in range(8):
        made = zmq.Context.instance().socket(zmq.DEALER)
        for option, value in ((zmq.LINGER, 0), (zmq.RCVHWM, 1), (zmq.RCVBUF, 1 << 16)):
            made.setsockopt(option, value)
        made.connect(address)
        sockets.append(made)
    while True:
        sent = 0
        for each in sockets:
            if each.poll(0, zmq.POLLOUT):
                each.send(frame)
                sent += len(frame)
        yield sent
        time.sleep(len(sockets) / 400.0)


ATTACKS: dict[str, Callable[[str], Iterator[int]]] = {
    "arrays": arrays,
    "areas": areas,
    "multipart": multipart,
    "partial": partial,
    "watches": watches,
    "changes": changes,
    "unread": unread,
}


# --- the honest client ---------------------------------------------------------------------------


def _asked_s(client: Client, count: int) -> list[float]:
    """Latencies of queries for a room."""
    taken = []
    for number in range(count):
        started = time.perf_counter()
        answer = client.query([f"b1/r{number % NODES}"], last_s=60.0, latency_ms=10_000.0)
        taken.append(time.perf_counter() - started)
        assert answer.status == "complete", answer
        time.sleep(HONEST_PAUSE_S)
    return taken


def _p99_s(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * 0.99)]


def _busy_s(pid: int) -> dict[str, float]:
    """CPU time of a master: its loop, libzmq's thread for sockets, all other threads."""
    found = {"loop": 0.0, "sockets": 0.0, "other_threads": 0.0}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has ended
            kind = "sockets" if "IO" in (thread / "comm").read_text() else "other_threads"
            ran_ns = int((thread / "schedstat").read_text().split()[0])
            found["loop" if thread.name == str(pid) else kind] += ran_ns / 1e9
    return found


class _Attacks:
    """Latencies of the honest client during attacks of one scheduling class, and the resources
    used."""

    def __init__(self, name: str, public: str, pids: tuple[int, int], how: str) -> None:
        self._command = (sys.executable, "-m", "bench.hostile", name, public, how)
        self._master, self._nodes = pids
        self._took_s = 0.0
        self._sent = 0
        self._busy_s: dict[str, float] = {}
        self.queries_s: list[float] = []

    def _cpu_s(self, attacker: int) -> dict[str, float]:
        others = {"attacker": cpu_s(attacker), "nodes": cpu_s(self._nodes)}
        return _busy_s(self._master) | others

    def query(self, client: Client) -> None:
        """Query while an attack runs, until both have done enough."""
        with process(*self._command) as attacker:
            ready(attacker)
            started_s = time.monotonic()
            before = self._cpu_s(attacker.pid)
            self.queries_s += _asked_s(client, MEASURED)
            while time.monotonic() < started_s + ATTACK_S:
                self.queries_s += _asked_s(client, 10)
            self._took_s += time.monotonic() - started_s
            for part, until_s in self._cpu_s(attacker.pid).items():
                self._busy_s[part] = self._busy_s.get(part, 0.0) + until_s - before[part]
            attacker.terminate()
            assert attacker.stdout is not None
            self._sent += int(attacker.stdout.readline())
        time.sleep(SETTLING_S)

    def told(self) -> dict[str, Any]:
        """What the attacker sent, and the processor share of each process."""
        percent = {part: round(100 * s / self._took_s) for part, s in self._busy_s.items()}
        return {"sent_mb_s": round(self._sent / self._took_s / 1e6, 1), "percent": percent}


@contextlib.contextmanager
def _serving() -> Iterator[tuple[str, tuple[int, int]]]:
    """A master with its nodes: its public address, and the ids of the two processes."""
    with tempfile.TemporaryDirectory() as folder:
        nodes, public = free_address(), free_address()
        command = (sys.executable, "-m", "bench.hostile_nodes", nodes, str(NODES))
        with (
            master(Path(folder), nodes, public, rate_per_s=RATE_PER_S) as pid,
            process(*command) as fleet,
        ):
            ready(fleet)
            yield public, (pid, fleet.pid)


def measure(name: str) -> Result:
    """Measure one attack."""
    with _serving() as (public, pids), _serving() as (other, other_pids):
        pid = pids[0]
        with Client(public) as client:
            _asked_s(client, WARM_UP)
            resident = rss(pid)
            peak, done = [resident], threading.Event()

            def watch_memory() -> None:
                while not done.wait(0.02):
                    peak[0] = max(peak[0], rss(pid))

            watching = threading.Thread(target=watch_memory)
            watching.start()
            apart, equal = (_Attacks(name, public, pids, how) for how in ("apart", "equal"))
            on_another = _Attacks(name, other, other_pids, "apart")
            quiet: list[float] = []
            try:
                for _ in range(ROUNDS):
                    quiet += _asked_s(client, MEASURED)
                    apart.query(client)
                    on_another.query(client)
            finally:
                done.set()
                watching.join()
            started = time.monotonic()
            while rss(pid) > resident + BACK_MIB and time.monotonic() < started + AFTER_S:
                time.sleep(0.2)
            after_s, after = time.monotonic() - started, rss(pid)
            back_s = _p99_s(_asked_s(client, MEASURED))
            for _ in range(max(1, ROUNDS // 4)):
                equal.query(client)
    during_s, quiet_s = _p99_s(apart.queries_s), _p99_s(quiet)
    return result(
        f"hostile-{name}",
        during_s,
        "ms",
        "the same client without the attack",
        quiet_s,
        least_ratio=0.67,
        also={
            "at most 64 MiB more": peak[0] - resident <= 64.0,
            "back within a minute": after <= resident + BACK_MIB,
        },
        times=round(during_s / quiet_s, 2),
        on_another_ms=round(_p99_s(on_another.queries_s) * 1e3, 2),
        p99_after_ms=round(back_s * 1e3, 2),
        rss_mib={"before": round(resident), "peak": round(peak[0]), "after": round(after)},
        back_after_s=round(after_s, 1),
        **apart.told(),
        as_equal={"p99_ms": round(_p99_s(equal.queries_s) * 1e3, 2)} | equal.told(),
    )


def run(name: str) -> list[Result]:
    """One attack; goals: ratio at least 0.67, memory at most 64 MiB more."""
    return [measure(name)]


def attack() -> None:
    """Run as the attacker until ended; then print how many bytes were sent."""
    name, address, how = sys.argv[1:]
    if how == "apart":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    steps = ATTACKS[name](address)
    sent = next(steps)

    def end(_number: int, _frame: object) -> None:
        # Not print: the signal may come while that prints "ready".
        os.write(1, f"{sent}\n".encode())
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    for more in steps:
        sent += more


if __name__ == "__main__":
    attack()
