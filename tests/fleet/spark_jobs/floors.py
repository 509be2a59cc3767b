"""Three masters of a building, two floors and a hub between them, and people who publish and listen
on one floor at a time."""

from __future__ import annotations

import json
import selectors
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from agent.client import Client, Operator
from agent.wire.messages import Slo
from agent.wire.topics import CreateTopic, ListTopics, Topic
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_S, wait_until
from tests.master.handover_masters import IADS, section
from tests.master.push_rig import PushMaster

PATIENCE_MS = PATIENCE_S * 1e3
MESSAGE = {"area": "b1/r1", "time_ms": 1.8e12, "temperature": 22.0, "humidity": 45.0}
FILTER = 'topic = "{}" and kind = "output"'
OBJECTIVE = Slo(90.0, 1_000.0)
# A record twice a second instead of once a minute, and moves that cost next to nothing: masters on
# one machine are a fraction of a millisecond apart.
MORE = """
[placement]
every_s = 0.2
move_cost = {move_cost}
[processing]
record_s = {record_s}
workers = 1
[clients]
rate_per_s = 100000.0
"""


class Distance:
    """A proxy before `address` that passes everything on `way_s` later, both ways."""

    def __init__(self, address: str, way_s: float) -> None:
        self._target = ("127.0.0.1", int(address.rpartition(":")[2]))
        self._way_s = way_s
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self._wake, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._opened = [self._listening, self._wake, self._waker]
        # Of one delay: in the order of their times.
        self._late: deque[tuple[float, socket.socket, bytes]] = deque()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._waker.send(b"x")
        self._thread.join()
        self._selector.close()
        for each in self._opened:
            each.close()

    def _run(self) -> None:
        while True:
            pause_s = max(0.0, self._late[0][0] - time.monotonic()) if self._late else None
            for key, _ in self._selector.select(pause_s):
                if key.fileobj is self._wake:
                    return
                if key.fileobj is self._listening:
                    self._accept()
                else:
                    self._take(key.fileobj, key.data)
            while self._late and self._late[0][0] <= time.monotonic():
                _, sink, data = self._late.popleft()
                with suppress(OSError):
                    sink.sendall(data) if data else sink.shutdown(socket.SHUT_WR)

    def _accept(self) -> None:
        near, _ = self._listening.accept()
        try:
            far = socket.create_connection(self._target)
        except OSError:
            near.close()
            return
        self._opened += [near, far]
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(source, selectors.EVENT_READ, sink)

    def _take(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        self._late.append((time.monotonic() + self._way_s, sink, data))
        if not data:
            self._selector.unregister(source)


class Building:
    """The masters `a`, `s` and `b`, as a run in `folder`; `a` and `b` are floors. With `way_s` a
    byte takes so long from one master to another."""

    def __init__(
        self, folder: Path, record_s: float = 0.5, move_cost: float = 1e-4, way_s: float = 0.0
    ) -> None:
        self.folder = folder
        own = {iad: free_address() for iad in IADS}
        self.ways = {iad: Distance(each, way_s) for iad, each in own.items()} if way_s else {}
        addresses = own | {iad: each.address for iad, each in self.ways.items()}
        more = MORE.format(record_s=record_s, move_cost=move_cost)
        self.all = {
            iad: PushMaster(folder / iad, iad, address, section(iad, addresses) + more)
            for iad, address in own.items()
        }
        for iad, master in self.all.items():
            # As a run's folder is laid out.
            (folder / iad / "config.toml").write_text(master.config.read_text())
            master.wait_for_links(2 if iad == "s" else 1)
        for one in "ab":
            self.all[one].wait_for(
                lambda one=one: self.all[one].status().unreachable_iads, lambda gone: not gone
            )

    def stop(self) -> None:
        for master in self.all.values():
            master.stop(signal.SIGTERM)
        for way in self.ways.values():
            way.close()

    def create(self, floor: str, *names: str) -> None:
        for name in names:
            topic = Topic(name, processor="comfort_index", slo=OBJECTIVE)
            with Operator(self.all[floor].operator) as operator:
                report = operator.ask_topic(CreateTopic("c", topic), PATIENCE_MS)
            assert report.ok, report.message

    def where(self, name: str) -> list[str]:
        found = []
        for iad in "ab":
            with Operator(self.all[iad].operator) as operator:
                topics = operator.ask_topic(ListTopics("l"), PATIENCE_MS).topics
            found += [iad for each in topics if each.topic.name == name]
        return found

    def wait_until_at(self, name: str, floor: str) -> None:
        wait_until(lambda: self.where(name), lambda found: found == [floor])

    def records(self, iad: str, kind: str, since: datetime) -> list[dict]:
        """What a master has recorded since then."""
        since_ms = since.timestamp() * 1e3
        lines = [
            line
            for file in sorted((self.folder / iad / "records").glob("*.jsonl"))
            for line in file.read_text().splitlines(keepends=True)
            if line.endswith("\n")
        ]
        found = [json.loads(line) for line in lines if f'"record":"{kind}"' in line]
        return [each for each in found if each["wall_ms"] >= since_ms]

    def tell(self, numbers: dict) -> None:
        """Keep a line of numbers with the run."""
        with (self.folder / "numbers.jsonl").open("a") as file:
            file.write(json.dumps(numbers, ensure_ascii=False) + "\n")

    @contextmanager
    def people(self, floor: str, names: tuple[str, ...]) -> Iterator[People]:
        """Somebody who publishes and listens on a floor, to all of these topics."""
        with ExitStack() as stack:
            client = stack.enter_context(Client(self.all[floor].public))
            outputs = {
                name: stack.enter_context(
                    client.subscribe(FILTER.format(name), patience_s=PATIENCE_S)
                )
                for name in names
            }
            yield People(self, client, outputs)


class People:
    """They publish a message to each topic and wait for what becomes of it, again and again."""

    def __init__(self, building: Building, client: Client, outputs: dict) -> None:
        self._building, self._client, self._outputs = building, client, outputs

    def live(self, fewest: int) -> list[float]:
        """Until each master has written so many records of placement from now on. How long each
        message took from the publisher to the subscriber, in ms: each makes one output."""
        began = datetime.now(UTC)
        took = [self._round(name) for name in self._outputs]
        while not all(
            len(self._building.records(iad, "placement", began)) >= fewest
            for iad in self._building.all
        ):
            took += [self._round(name) for _ in range(10) for name in self._outputs]
        return took

    def _round(self, name: str) -> float:
        began_s = time.perf_counter()
        self._client.publish(name, MESSAGE, patience_s=PATIENCE_S)
        told = next(self._outputs[name]).notification.attributes
        assert told["topic"] == name
        return (time.perf_counter() - began_s) * 1e3
