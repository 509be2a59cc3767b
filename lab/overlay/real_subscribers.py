"""A process of subscribers at many masters: ``python -m lab.overlay.real_subscribers FILE``.

A connection to each master carries the subscriptions there. A line on stdin is a command:
`subscribe N` opens those with a number below N and answers `open`; `count` is answered with the
number of notifications so far; `take` with those since the last, as JSON.
"""

from __future__ import annotations

import contextlib
import select
import sys
import time
from itertools import islice
from pathlib import Path

import msgspec
import zmq
from msgspec import Struct

from agent.net.keys import KeyFiles
from agent.wire.codec import Decoder, encode
from agent.wire.push import (
    MAX_TOGETHER,
    AcknowledgeNotifications,
    Notified,
    Subscribe,
    Subscribed,
)
from agent.wire.unions import PublicReply

# Requested and not open yet.
AT_ONCE = 32
PATIENCE_S = 60.0
# A third of the lease; at most this many at a time.
RENEW_S = 20.0
RENEWED_AT_ONCE = 20


class Wanted(Struct):
    """A subscription at the master number `master`."""

    id: str
    master: int
    filter: str


class Specification(Struct):
    """Addresses of masters, each with the file of its public keys, and the subscriptions."""

    key: str
    masters: list[tuple[str, str]]
    subscriptions: list[Wanted]


class Delivery(Struct, array_like=True):
    """A subscription got number `sequence` of a publisher, at monotonic nanoseconds."""

    id: str
    publisher: str
    sequence: int
    time_ns: int


class Subscribers:
    """All connections, in one epoll."""

    def __init__(self, specification: Specification) -> None:
        self.came: list[Delivery] = []
        self.count = 0
        self._wanted = specification.subscriptions
        self._asked = self._open = 0
        self._poll = select.epoll()
        self._decode = Decoder[PublicReply](PublicReply).decode
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        context.set(zmq.MAX_SOCKETS, len(specification.masters) + 16)
        self._sockets = []
        self._by_file = {}
        for address, keys in specification.masters:
            socket = context.socket(zmq.DEALER)
            socket.setsockopt(zmq.LINGER, 0)
            KeyFiles(specification.key, keys).handshake(0).apply(socket)
            socket.connect(address)
            self._sockets.append(socket)
            self._by_file[int(socket.FD)] = socket
            self._poll.register(int(socket.FD), select.EPOLLIN)
        # The time and position of each subscription's last activity; the next one to be renewed is
        # first.
        self._said: dict[str, tuple[float, int, zmq.Socket[bytes]]] = {}

    def subscribe(self, until: int) -> None:
        """Open all below that number, in their order; the process exits if that takes too long."""
        give_up = time.monotonic() + PATIENCE_S
        while self._open < until:
            while self._asked < min(until, self._open + AT_ONCE):
                one = self._wanted[self._asked]
                socket = self._sockets[one.master]
                self._said[one.id] = (time.monotonic(), 0, socket)
                socket.send(encode(Subscribe(one.id, one.filter)))
                self._asked += 1
                self._readable(socket)
            self.turn(0.1)
            if time.monotonic() > give_up:
                sys.exit(f"error: {self._open} of {until} subscriptions are open")

    def turn(self, timeout_s: float, stop: int | None = None) -> bool:
        """Handle messages within that time; returns whether the file `stop` is readable."""
        stopped = False
        for file, _ in self._poll.poll(timeout_s):
            if file == stop:
                stopped = True
            else:
                self._readable(self._by_file[file])
        self._renew()
        return stopped

    def watch(self, file: int) -> None:
        """Wake `turn` for this file, too."""
        self._poll.register(file, select.EPOLLIN)

    def _readable(self, socket: zmq.Socket[bytes]) -> None:
        # A socket's file is edge-triggered: it must be checked after sending, too.
        while int(socket.EVENTS) & zmq.POLLIN:
            had: dict[str, int] = {}
            with contextlib.suppress(zmq.Again):
                while True:
                    self._take(socket.recv(zmq.NOBLOCK), had)
            self._say(had, socket)

    def _take(self, frame: bytes, had: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        message, _ = self._decode(frame)
        if isinstance(message, Notified):
            origin = message.notification.origin
            for each in message.apart():
                self.came.append(Delivery(each.id, origin.publisher, origin.sequence, now_ns))
                self.count += 1
                had[each.id] = each.position
        elif isinstance(message, Subscribed) and message.state == "open":
            self._open += 1
        else:
            sys.exit(f"error: a subscriber got {message}")

    def _say(self, had: dict[str, int], socket: zmq.Socket[bytes]) -> None:
        now = time.monotonic()
        for id_, position in had.items():
            self._said.pop(id_)
            self._said[id_] = (now, position, socket)
        places = iter(had.items())
        while few := tuple(islice(places, MAX_TOGETHER)):
            socket.send(encode(AcknowledgeNotifications(*few[0], few[1:])))

    def _renew(self) -> None:
        now = time.monotonic()
        for id_, (said, position, socket) in list(islice(self._said.items(), RENEWED_AT_ONCE)):
            if now < said + RENEW_S:
                return
            self._say({id_: position}, socket)
            self._readable(socket)


def main() -> None:
    """Run the command."""
    file = Path(sys.argv[1])
    subscribers = Subscribers(msgspec.json.decode(file.read_bytes(), type=Specification))
    subscribers.watch(sys.stdin.fileno())
    while True:
        if subscribers.turn(0.2, sys.stdin.fileno()) and not _answered(subscribers):
            return


def _answered(subscribers: Subscribers) -> bool:
    """Whether there was a command."""
    match sys.stdin.readline().split():
        case ["subscribe", number]:
            subscribers.subscribe(int(number))
            print("open", flush=True)
        case ["count"]:
            print(subscribers.count, flush=True)
        case ["take"]:
            print(msgspec.json.encode(subscribers.came).decode(), flush=True)
            subscribers.came = []
        case _:
            return False
    return True


if __name__ == "__main__":
    main()
