"""A short window of one room, asked by one client with 1, 10 and 100 queries in flight: beside
NATS, MQTT 5 and Zenoh.

Ours is a client, a master and an edge node. The peer's client asks a process that reads as many
rows from SQLite (`bench.query_answerers`): by request and reply through a NATS server, by a
response topic through mosquitto, or with Zenoh from peer to peer. All clients are in Python, decode
the rows, and ask alternately; the servers run as programs of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import queue
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from agent.client import Client, Operator
from agent.wire.messages import Query, Slo, Window
from bench import query_answerers as peer
from bench.output import CannotRunError, Result, result
from bench.processes import agent, master, process, ready
from bench.query import EDGE, PRELOADED, READINGS, first_readings
from fleet.testbed.ports import free_address

IN_FLIGHT: Final = (1, 10, 100)
ROUNDS: Final = 5
# Queries of a round.
LEAST: Final = 300
EACH: Final = 15
PATIENCE_S: Final = 20.0
# Goals with most in flight.
LEAST_PER_S: Final = 4_500.0
LEAST_P99: Final = {"nats": 1 / 1.5, "mqtt": 1.0, "zenoh": 1.0}
# What each needs, and where it comes from: a program, and a Python module.
NEEDS: Final = {
    "nats": ("nats-server", "nats"),
    "mqtt": ("mosquitto", "paho.mqtt"),
    "zenoh": ("", "zenoh"),
}
MOSQUITTO: Final = """
listener {port} 127.0.0.1
allow_anonymous true
set_tcp_nodelay true
persistence false
max_queued_messages 0
log_type error
"""


class Asker(Protocol):
    """A client: asks `count` times, with so many in flight; the seconds that each took."""

    def ask(self, count: int, in_flight: int) -> list[float]:
        """Ask, and wait for the last reply."""


class Ours:
    """Queries to a master."""

    def __init__(self, client: Client, times_ms: list[int]) -> None:
        self._client = client
        self._window = Window(start_ms=times_ms[0], end_ms=times_ms[-1] + 1)

    def ask(self, count: int, in_flight: int) -> list[float]:
        """As `Asker`."""
        client, sent, taken, asked = self._client, {}, [], 0
        slo = Slo(99.0, 10_000.0)
        while len(taken) < count:
            while asked < count and len(sent) < in_flight:
                sent[f"q{asked}"] = time.perf_counter()
                client.send(Query(f"q{asked}", ("b1",), self._window, slo))
                asked += 1
            answer = client.receive(PATIENCE_S * 1e3)
            taken.append(time.perf_counter() - sent.pop(answer.id))
            series = answer.results[0].series
            assert series is not None
            assert len(series.time_ms) == READINGS
        return taken


class _Peer:
    def __init__(self, times_ms: list[int]) -> None:
        self._request = msgspec.msgpack.encode(peer.Request(times_ms[0], times_ms[-1] + 1))
        self._decode = msgspec.msgpack.Decoder(peer.Rows).decode

    def _check(self, payload: bytes) -> None:
        assert len(self._decode(payload)) == READINGS


class Nats(_Peer):
    """NATS's request and reply."""

    def __init__(self, address: str, times_ms: list[int]) -> None:
        super().__init__(times_ms)
        import nats

        self._loop = asyncio.new_event_loop()
        self._connection: Any = self._loop.run_until_complete(nats.connect(f"nats://{address}"))

    def ask(self, count: int, in_flight: int) -> list[float]:
        """As `Asker`."""
        taken: list[float] = []

        async def one_by_one() -> None:
            nonlocal count
            while count:
                count -= 1
                started = time.perf_counter()
                reply = await self._connection.request(peer.SUBJECT, self._request, PATIENCE_S)
                taken.append(time.perf_counter() - started)
                self._check(reply.data)

        async def all_of_them() -> None:
            await asyncio.gather(*[one_by_one() for _ in range(in_flight)])

        self._loop.run_until_complete(all_of_them())
        return taken

    def close(self) -> None:
        """End the connection."""
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


class Mqtt(_Peer):
    """MQTT 5's response topic and correlation data."""

    def __init__(self, address: str, times_ms: list[int]) -> None:
        super().__init__(times_ms)
        # The loop is the caller's thread, so that none waits for another.
        subscribed: list[bool] = []
        self._replies: list[Any] = []
        self._client = peer.mqtt_client(
            address, "replies", self._replies.append, lambda: subscribed.append(True)
        )
        while not subscribed:
            self._client.loop(0.1)

    def ask(self, count: int, in_flight: int) -> list[float]:
        """As `Asker`."""
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        sent: dict[bytes, float] = {}
        taken: list[float] = []
        asked = 0
        while len(taken) < count:
            while asked < count and len(sent) < in_flight:
                told = Properties(PacketTypes.PUBLISH)
                told.ResponseTopic, told.CorrelationData = "replies", asked.to_bytes(4)
                sent[told.CorrelationData] = time.perf_counter()
                self._client.publish(peer.TOPIC, self._request, properties=told)
                asked += 1
            if not self._replies:
                self._client.loop(PATIENCE_S)
            for reply in self._replies:
                taken.append(time.perf_counter() - sent.pop(reply.properties.CorrelationData))
                self._check(reply.payload)
            self._replies.clear()
        return taken

    def close(self) -> None:
        """End the connection."""
        self._client.disconnect()


class Zenoh(_Peer):
    """Zenoh's queryable."""

    def __init__(self, address: str, times_ms: list[int]) -> None:
        super().__init__(times_ms)
        self._session = peer.zenoh_session(address, listens=False)
        self._replies: queue.SimpleQueue[tuple[float, Any]] = queue.SimpleQueue()
        # Until the other's queryable is known here, a question has no reply.
        give_up = time.monotonic() + PATIENCE_S
        while not list(self._session.get(peer.TOPIC, payload=self._request)):
            assert time.monotonic() < give_up
            time.sleep(0.1)

    def ask(self, count: int, in_flight: int) -> list[float]:
        """As `Asker`."""
        taken: list[float] = []
        for _ in range(min(count, in_flight)):
            self._send()
        for number in range(count):
            started, reply = self._replies.get(timeout=PATIENCE_S)
            taken.append(time.perf_counter() - started)
            if number + in_flight < count:
                self._send()
            self._check(bytes(reply.ok.payload))
        return taken

    def _send(self) -> None:
        started, put = time.perf_counter(), self._replies.put
        self._session.get(peer.TOPIC, lambda reply: put((started, reply)), payload=self._request)

    def close(self) -> None:
        """End the session."""
        self._session.close()


PEERS: Final = {"nats": Nats, "mqtt": Mqtt, "zenoh": Zenoh}


def lacking(name: str) -> str:
    """What is missing on this host to measure beside that peer; empty: nothing."""
    program, module = NEEDS[name]
    if program and _path(program) is None:
        return f"{program}; apt-get install {program}"
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        return f"the Python package of {name}; make setup, and the extra `dev`"
    return ""


def _path(program: str) -> str | None:
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin")


@contextlib.contextmanager
def served(name: str, folder: Path, address: str) -> Iterator[None]:
    """The peer's broker, if it has one, and its answering side."""
    port = address.rpartition(":")[2]
    with contextlib.ExitStack() as stack:
        if name == "nats":
            command = [_path("nats-server") or "", "-a", "127.0.0.1", "-p", port]
            stack.enter_context(process(*command, "-l", str(folder / "nats.log")))
        if name == "mqtt":
            config = folder / "mosquitto.conf"
            config.write_text(MOSQUITTO.format(port=port))
            stack.enter_context(process(_path("mosquitto") or "", "-c", str(config)))
        if NEEDS[name][0]:
            _await(address)
        module = (sys.executable, "-m", "bench.query_answerers")
        ready(stack.enter_context(process(*module, name, address, str(folder / "readings"))))
        yield


def _await(address: str) -> None:
    host, port = address.split(":")
    give_up = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((host, int(port))).close()
            return
        if time.monotonic() > give_up:
            raise TimeoutError(address)
        time.sleep(0.02)


@contextlib.contextmanager
def _ours(folder: Path) -> Iterator[tuple[Ours, list[int]]]:
    """A master, its node, and a client, with the times of the readings to ask for."""
    (folder / "edge.toml").write_text(EDGE.format(nodes=(nodes := free_address())))
    with (
        master(folder, nodes, public=(public := free_address())),
        process(agent("edge"), "--config", str(folder / "edge.toml")),
        Client(public) as client,
    ):
        with Operator(f"ipc://{folder}/operator") as operator:
            while not operator.status().nodes:
                pass
        times = [int(at) for at in first_readings(client, PRELOADED + READINGS)]
        yield Ours(client, times[-READINGS:]), times


def run(name: str) -> Iterator[Result]:
    """Goals: with 100 in flight at least 4,500 queries a second, p99 below MQTT's and Zenoh's and
    within 1.5 times that of NATS; with one, p50 within 1.2 times that of each."""
    if missing := lacking(name):
        raise CannotRunError(missing)
    with tempfile.TemporaryDirectory() as made, _ours(Path(made)) as (ours, times):
        peer.fill(Path(made) / "readings", times)
        address = free_address().removeprefix("tcp://")
        with served(name, Path(made), address):
            other = PEERS[name](address, times[-READINGS:])
            with contextlib.closing(other):
                for in_flight in IN_FLIGHT:
                    yield from _compare(name, ours, other, in_flight)


def _compare(name: str, ours: Asker, other: Asker, in_flight: int) -> Iterator[Result]:
    count = max(LEAST, EACH * in_flight)
    taken: dict[Asker, list[float]] = {ours: [], other: []}
    spent: dict[Asker, list[float]] = {ours: [], other: []}
    for asker in taken:
        asker.ask(LEAST, in_flight)
    for _ in range(ROUNDS):
        for asker in taken:
            started = time.perf_counter()
            taken[asker] += asker.ask(count, in_flight)
            spent[asker].append(time.perf_counter() - started)
    measured = f"query-{name}-{in_flight}"
    alone, most = in_flight == 1, in_flight == IN_FLIGHT[-1]
    for percent, goal in (
        (50, 1 / 1.2 if alone else None),
        (99, LEAST_P99[name] if most else None),
    ):
        times = (statistics.quantiles(taken[each], n=100)[percent - 1] for each in (ours, other))
        (mine, theirs), of = times, f"{name}, p{percent}"
        yield result(f"{measured}-p{percent}", mine, "ms", of, theirs, least_ratio=goal)
    mine, theirs = (count / statistics.median(spent[each]) for each in (ours, other))
    least = LEAST_PER_S if most else None
    yield result(f"{measured}-rate", mine, "queries/s", name, theirs, least=least)
