"""A process with many subscriber connections: ``python -m bench.push.clients SPECIFICATION``.

Prints `ready` when all subscriptions are open. Then each line `count` on stdin is answered with the
number of notifications so far, and `take` with the measurements since the last.
"""

from __future__ import annotations

import contextlib
import select
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import msgspec
import zmq
from msgspec import Struct

from agent.client.subscriptions import MAX_OWED, NAMES
from agent.wire.codec import Decoder, encode
from agent.wire.push import (
    MAX_TOGETHER,
    AcknowledgeNotifications,
    ShortForm,
    ShortNotified,
    Subscribe,
    Subscribed,
)
from agent.wire.unions import PublicReply
from bench.push import mqtt
from bench.push.workload import Wanted

BATCH = 50  # connections opened at once
PATIENCE_S = 60.0
RENEW_S = 20.0  # a third of the lease
# Signs of life: clients that are not in one process do not all give theirs together.
AT_ONCE = 20


class Specification(Struct):
    """`addresses` are used in turn; `name` is the trigger, or the first segment of the topic."""

    kind: str  # alerts, durable, tree or topics
    name: str
    first: int  # number of the first connection
    addresses: list[str]
    connections: list[list[Wanted]]


class Measured(Struct):
    """`deliveries` are the event's number and the monotonic time in ns, `payload` bytes without
    TCP's own."""

    deliveries: list[tuple[int, int]] = []
    messages: int = 0
    payload: int = 0


class Clients(Protocol):
    """Connections in one epoll."""

    measured: Measured

    def subscribe(self, poll: select.epoll, number: int) -> None:
        """Open a connection, with all its subscriptions."""

    def readable(self, file: int) -> None:
        """Read everything that is available."""

    @property
    def subscribed(self) -> int:
        """Connections whose subscriptions are open."""

    def keep(self, now: float) -> None:
        """Send acknowledgements and keep-alives that are due."""


class Alerts:
    """Subscribers at masters: one DEALER each, which acknowledges like
    `agent.client.subscriptions`."""

    def __init__(self, specification: Specification) -> None:
        self.measured = Measured()
        self._specification = specification
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, len(specification.connections) + 16)
        self._sockets: dict[int, zmq.Socket[bytes]] = {}
        self._missing: dict[int, int] = {}
        self._decode = Decoder[PublicReply](PublicReply).decode
        self._ids: list[str] = []  # by the number that they are told apart by
        self._had: dict[str, int] = {}  # positions
        # Of each the time, position and file, to say again, in the order of the next time.
        self._said: dict[str, tuple[float, int, int]] = {}

    def subscribe(self, poll: select.epoll, number: int) -> None:
        of = self._specification
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.connect(of.addresses[(of.first + number) % len(of.addresses)])
        file = int(socket.FD)
        self._sockets[file] = socket
        self._missing[file] = len(of.connections[number])
        for index, wanted in enumerate(of.connections[number]):
            id_ = f"{of.name}-{of.first + number}-{index}"
            self._had[id_] = 0
            self._said[id_] = (time.monotonic(), 0, file)
            short = ShortForm(len(self._ids), NAMES)
            self._ids.append(id_)
            durable = of.kind == "durable"
            asked = Subscribe(id_, wanted.filter(of.name), durable, short=short)
            socket.send(encode(asked))
        poll.register(file, select.EPOLLIN)
        self.readable(file)

    @property
    def subscribed(self) -> int:
        return sum(not missing for missing in self._missing.values())

    def readable(self, file: int) -> None:
        # A socket's file is edge-triggered: it must be checked after sending, too.
        socket = self._sockets[file]
        while int(socket.EVENTS) & zmq.POLLIN:
            got: dict[str, int] = {}
            with contextlib.suppress(zmq.Again):
                while True:
                    self._take(file, socket.recv(zmq.NOBLOCK), got)
            self._had |= got
            self._say([each for each in got if self._owes(each)], file)

    def _take(self, file: int, frame: bytes, got: dict[str, int]) -> None:
        message, _ = self._decode(frame)
        if isinstance(message, ShortNotified):
            number = message.of.notification(NAMES).origin.sequence // 16
            now_ns = time.monotonic_ns()
            self.measured.deliveries += [(number, now_ns)] * len(message.to)
            got |= [(self._ids[of], position) for of, position in message.to]
        elif isinstance(message, Subscribed) and message.state == "open":
            self._missing[file] -= 1
        else:
            sys.exit(f"error: a subscriber got {message}")
        self.measured.messages += 1
        # ZMTP puts 2 bytes before a frame, or 9 before a long one.
        self.measured.payload += len(frame) + (2 if len(frame) < 256 else 9)

    def _owes(self, id_: str) -> bool:
        durable = self._specification.kind == "durable"
        return self._had[id_] - self._said[id_][1] >= (1 if durable else MAX_OWED)

    def _say(self, ids: Sequence[str], file: int) -> None:
        now = time.monotonic()
        for id_ in ids:
            self._said.pop(id_)
            self._said[id_] = (now, self._had[id_], file)
        places = iter([(id_, self._had[id_]) for id_ in ids])
        while few := tuple(islice(places, MAX_TOGETHER)):
            self._sockets[file].send(encode(AcknowledgeNotifications(*few[0], few[1:])))

    def keep(self, now: float) -> None:
        for id_, (said, _, file) in list(islice(self._said.items(), AT_ONCE)):
            if now < said + RENEW_S:
                return
            self._say([id_], file)
            self.readable(file)


class Mqtt:
    """Subscribers at an MQTT broker, who filter messages themselves. A payload is decoded only if
    some subscription of the connection wants its floor and metric."""

    def __init__(self, specification: Specification) -> None:
        self.measured = Measured()
        self.subscribed = 0
        self._specification = specification
        self._connections: dict[int, Connection] = {}
        host, port = specification.addresses[0].split(":")
        self._address = host, int(port)

    def subscribe(self, poll: select.epoll, number: int) -> None:
        of = self._specification
        made = Connection(self._address, of.connections[number])
        filters = {f"{of.name}/#"}
        if of.kind == "topics":
            filters = {f"{of.name}/b1/{floor}/+/{metric}" for floor, metric in made.wanted}
        made.socket.sendall(mqtt.connect(f"{of.name}{of.first + number}"))
        made.socket.sendall(mqtt.subscribe(sorted(filters)))
        made.socket.setblocking(False)
        self._connections[made.socket.fileno()] = made
        poll.register(made.socket, select.EPOLLIN)

    def readable(self, file: int) -> None:
        of = self._connections[file]
        data = of.socket.recv(1 << 16)
        if not data:
            sys.exit("error: the MQTT broker closed a connection")
        self.measured.payload += len(data)
        for kind, body in of.packets.feed(data):
            self.measured.messages += 1
            if kind == mqtt.PUBLISH:
                self._take(of, body)
            else:
                self.subscribed += kind == mqtt.SUBACK

    def _take(self, of: Connection, body: bytes) -> None:
        topic, payload = mqtt.topic_and_payload(body)
        segments = topic.split("/")
        wanted = of.wanted.get((segments[2], segments[4]))
        if wanted is None:
            return
        alert = msgspec.json.decode(payload, type=MqttAlert)
        for low, high in wanted:
            if low <= alert.value <= high:
                self.measured.deliveries.append((alert.number, time.monotonic_ns()))

    def keep(self, now: float) -> None:
        pass


class MqttAlert(Struct):
    """The payload; the topic says where and which metric."""

    number: int
    time_ms: int
    kind: str
    value: float


class Connection:
    """A connection to the MQTT broker: its subscriptions by floor and metric."""

    def __init__(self, address: tuple[str, int], wanted: list[Wanted]) -> None:
        self.socket = mqtt.opened(address)
        self.packets = mqtt.Packets()
        self.wanted: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for each in wanted:
            self.wanted[each.topic].append((each.low, each.high))


def main() -> None:
    """Run the command."""
    specification = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Specification)
    kinds = {"alerts": Alerts, "durable": Alerts}
    clients = kinds.get(specification.kind, Mqtt)(specification)
    with select.epoll() as poll:
        _subscribe(poll, clients, len(specification.connections))
        clients.measured = Measured()
        poll.register(sys.stdin, select.EPOLLIN)
        print("ready", flush=True)
        while True:
            for file, _ in poll.poll(0.1):
                if file != sys.stdin.fileno():
                    clients.readable(file)
                elif not _asked(clients):
                    return
            clients.keep(time.monotonic())


def _subscribe(poll: select.epoll, clients: Clients, count: int) -> None:
    give_up = time.monotonic() + PATIENCE_S
    for number in range(count):
        clients.subscribe(poll, number)
        while clients.subscribed < (number + 1 if number + 1 == count else number + 1 - BATCH):
            for file, _ in poll.poll(0.1):
                clients.readable(file)
            if time.monotonic() > give_up:
                sys.exit(f"error: {clients.subscribed} of {count} connections are subscribed")


def _asked(clients: Clients) -> bool:
    """Answer a line; False at the end."""
    match sys.stdin.readline().strip():
        case "count":
            print(len(clients.measured.deliveries), flush=True)
        case "take":
            print(msgspec.json.encode(clients.measured).decode(), flush=True)
            clients.measured = Measured()
        case _:
            return False
    return True


if __name__ == "__main__":
    main()
