"""A gateway before a master that is played: alerts to browsers, and what 50 browsers cost.

The played master speaks the wire on a real socket: a thousand areas with two channels, a round of
the watch each second, alerts in between. Goals: p99 of an alert from the master to a browser at
most 250 ms, a frame of all areas at most 12 kB, the gateway's memory with 50 streams at most
80 MiB. `watches` is how many watches the master had for all of them. The same with 1,000 browsers,
`gateway-idle`, has no goal but that nothing is missing.
"""

from __future__ import annotations

import json
import math
import random
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import zmq

from agent.gateway import tokens
from agent.wire.about import About, ChannelInfo, ServiceInfo
from agent.wire.base import Message
from agent.wire.codec import Decoder, encode
from agent.wire.messages import (
    Aggregate,
    Answer,
    AreaResult,
    ChannelAggregate,
    Coverage,
    Query,
    TaskReport,
)
from agent.wire.overlay import Notification, Origin
from agent.wire.push import Notified, Subscribe, Subscribed
from agent.wire.unions import PublicRequest
from agent.wire.watches import Cancel, Round, Watch, Watching
from bench.output import Result, result
from bench.processes import cpu_s
from fleet.testbed.ports import free_address, free_ports

AREAS = [f"b1/f{n // 100}/r{n:03}" for n in range(1_000)]
STREAMS = 50
IDLE_STREAMS = 1_000
ALERTS = 300
IDLE_ALERTS = 60
ALERT_EVERY_S = 0.05
WARM_UP_S = 5.0
MIB = 1 << 20
PATIENCE_S = 60.0


class PlayedMaster(threading.Thread):
    """Answers as a master would."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._router = zmq.Context.instance().socket(zmq.ROUTER)
        self._router.setsockopt(zmq.LINGER, 0)
        self._router.bind(address)
        self._random = random.Random(1)
        self._decoder: Decoder[PublicRequest] = Decoder(PublicRequest)
        self._watcher: tuple[bytes, str] | None = None
        self._subscriber: tuple[bytes, str] | None = None
        self._number = 0
        self.is_over = False
        self.watches = 0
        self.subscribed = threading.Event()
        self.wanted = 0  # alerts to be sent

    def run(self) -> None:
        round_s, sent = time.monotonic(), 0
        alert_s = math.inf
        while not self.is_over:
            if self._router.poll(5):
                peer, frame = self._router.recv_multipart()
                self._take(peer, self._decoder.decode(frame)[0])
            now_s = time.monotonic()
            if self._watcher is not None and now_s >= round_s:
                round_s = max(round_s + 1.0, now_s)
                self._round()
            if sent < self.wanted:
                alert_s = min(alert_s, now_s)
                if now_s >= alert_s:
                    alert_s += ALERT_EVERY_S
                    sent += 1
                    self._alert(sent)

    def _send(self, peer: bytes, message: Message) -> None:
        self._router.send_multipart([peer, encode(message)])

    def _take(self, peer: bytes, message: object) -> None:
        match message:
            case Query(form="about"):
                self._send(peer, self._about(message.id))
            case Query():
                self._send(peer, self._answer(message.id))
            case Watch():
                self._watcher = peer, message.id
                self.watches += 1
                self._send(peer, Watching(message.id, "open"))
            case Cancel():
                self._watcher = None
                self._send(peer, Watching(message.id, "cancelled"))
            case Subscribe():
                self._subscriber = peer, message.id
                self._send(peer, Subscribed(message.id, "open", message.after or 0, 60_000.0))
                self.subscribed.set()

    def _about(self, query_id: str) -> Answer:
        channels = (ChannelInfo("temperature", "celsius"), ChannelInfo("humidity", "percent"))
        results = tuple([AreaResult(area, about=About(channels)) for area in AREAS])
        covered = Coverage(len(AREAS), len(AREAS))
        services = (ServiceInfo("default", areas=("b1",)),)
        return Answer(query_id, "complete", 1.0, True, covered, results, services=services)

    def _answer(self, query_id: str) -> Answer:
        now_ms = time.time_ns() // 1_000_000
        covered = Coverage(len(AREAS), len(AREAS))
        report = TaskReport("iad1", 99.0, 1_000.0, covered, 10.0)
        results = []
        for area in AREAS:
            at_ms = now_ms - self._random.randrange(1_000)
            channels = {
                name: ChannelAggregate(1, value, value, value, last=value, last_ms=at_ms)
                for name, value in (
                    ("temperature", self._random.gauss(21.5, 1.0)),
                    ("humidity", self._random.gauss(40.0, 8.0)),
                )
            }
            results.append(AreaResult(area, aggregate=Aggregate(at_ms, at_ms, channels)))
        return Answer(query_id, "complete", 10.0, True, covered, tuple(results), (), (report,))

    def _round(self) -> None:
        assert self._watcher is not None
        peer, watch_id = self._watcher
        self._number += 1
        answer = self._answer(watch_id)
        self._send(peer, Round(watch_id, self._number, self._number - 1, 0, 1, answer))

    def _alert(self, position: int) -> None:
        assert self._subscriber is not None
        peer, subscription_id = self._subscriber
        told = {"iad": "iad1", "kind": "raised", "trigger": "hot", "metric": "temperature",
                "area": AREAS[position], "value": time.perf_counter()}  # fmt: skip
        notification = Notification(Origin("iad1", "h", position), 0, told)
        self._send(peer, Notified(subscription_id, position, notification))


class Browsers:
    """So many streams, of which each is read, and the first is looked into."""

    def __init__(self, port: int, token: str, streams: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.sockets = []
        for number in range(streams):
            made = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            made.sendall(
                b"GET /api/v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n"
                b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
            )
            made.setblocking(False)
            self._selector.register(made, selectors.EVENT_READ, number)
            self.sockets.append(made)
        self._raw = b""
        self._unpack = zlib.decompressobj(wbits=31)
        self._text = b""
        self._has_head = False
        self.bytes = 0
        self.latencies_s: list[float] = []
        self.frames: list[int] = []

    def read(self, seconds: float, until_alerts: int = 0) -> None:
        """Read what comes, for so long or until there were so many alerts."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            if until_alerts and len(self.latencies_s) >= until_alerts:
                return
            for key, _ in self._selector.select(0.05):
                made = key.fileobj
                assert isinstance(made, socket.socket)
                got = made.recv(1 << 18)
                assert got, "a stream ended"
                if key.data == 0:
                    self._look(got)

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        for each in self.sockets:
            each.close()

    def _look(self, got: bytes) -> None:
        at_s = time.perf_counter()
        self._raw += got
        if not self._has_head:
            head, found, self._raw = self._raw.partition(b"\r\n\r\n")
            if not found:
                self._raw = head
                return
            self._has_head = True
        while True:
            size, found, rest = self._raw.partition(b"\r\n")
            if not found or len(rest) < (length := int(size, 16)) + 2:
                break
            self.bytes += length
            text = self._unpack.decompress(rest[:length])
            if text.startswith(b"event: rooms\n"):
                self.frames.append(length)
            self._text += text
            self._raw = rest[length + 2 :]
        *blocks, self._text = self._text.split(b"\n\n")
        for block in blocks:
            if b"event: alert\n" in block:
                data = json.loads(block.partition(b"data: ")[2])
                self.latencies_s.append(at_s - data["attributes"]["value"])


def rss_mib(pid: int) -> float:
    """Resident memory."""
    text = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1_024


class Measured(NamedTuple):
    """What was measured with so many streams; `share` of a core over the alerts."""

    latencies_s: list[float]
    frames: list[int]
    alone_mib: float
    full_mib: float
    share: float
    watches: int
    ended_s: float

    @property
    def p99_s(self) -> float:
        """Of an alert from the master to a browser."""
        return self.latencies_s[math.ceil(0.99 * len(self.latencies_s)) - 1]

    @property
    def p50_ms(self) -> float:
        """The median of the same."""
        return round(1e3 * self.latencies_s[len(self.latencies_s) // 2], 1)

    @property
    def costs(self) -> dict[str, float]:
        """What stands beside the memory."""
        return {
            "alone": round(self.alone_mib, 1),
            "watches": self.watches,
            "cpu_percent": round(100 * self.share, 1),
        }


def measure(streams: int, alerts: int) -> Measured:
    """One gateway, from its start to its end."""
    address, [port] = free_address(), free_ports(1)
    master = PlayedMaster(address)
    master.start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "gateway.toml"
        config.write_text(
            f'[master]\naddresses = ["{address}"]\n[http]\nlisten = "127.0.0.1:{port}"\n'
            "[console]\nevery_s = 1.0\n[access]\nrate_per_s = 1000.0\n"
            f"most_streams_each = {streams}\n"
        )
        token = tokens.create_token(str(folder / "access.json"), "bench", "viewer")
        command = [sys.executable, "-m", "agent.gateway.main", "--config", str(config)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as gateway:
            assert gateway.stderr is not None
            while "listening" not in gateway.stderr.readline():
                assert gateway.poll() is None
            assert master.subscribed.wait(PATIENCE_S)
            alone_mib = rss_mib(gateway.pid)
            browsers = Browsers(port, token, streams)
            browsers.read(WARM_UP_S)
            cpu_before, began_s = cpu_s(gateway.pid), time.monotonic()
            master.wanted = alerts
            browsers.read(PATIENCE_S, alerts)
            share = (cpu_s(gateway.pid) - cpu_before) / (time.monotonic() - began_s)
            full_mib = rss_mib(gateway.pid)
            began_s = time.monotonic()
            gateway.terminate()
            gateway.wait(PATIENCE_S)
            ended_s = time.monotonic() - began_s
    master.is_over = True
    master.join()
    browsers.close()
    latencies_s = sorted(browsers.latencies_s)
    assert len(latencies_s) == alerts, "an alert is missing"
    return Measured(
        latencies_s, browsers.frames, alone_mib, full_mib, share, master.watches, ended_s
    )


def run() -> Iterable[Result]:
    """The results."""
    found = measure(STREAMS, ALERTS)
    yield result("gateway: alert to browser, p99", found.p99_s, "ms", most=0.25, p50=found.p50_ms)
    yield result("gateway: frame of 1,000 areas", max(found.frames), "B", most=12_000)
    yield result(
        f"gateway: memory, {STREAMS} streams", found.full_mib, "MiB", most=80.0, **found.costs
    )
    yield result("gateway: end with streams open", found.ended_s, "s", most=2.0)


def idle() -> Iterable[Result]:
    """Those with many browsers that only look."""
    found = measure(IDLE_STREAMS, IDLE_ALERTS)
    of = f"{IDLE_STREAMS:,} browsers"
    yield result(f"gateway: memory, {of}", found.full_mib, "MiB", **found.costs)
    yield result(f"gateway: alert to one of {of}, p99", found.p99_s, "ms", p50=found.p50_ms)
    yield result(f"gateway: end with {of}", found.ended_s, "s", most=2.0)
