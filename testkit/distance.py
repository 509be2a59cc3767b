"""Distances between processes of one machine: proxies that pass bytes on later, as `tc netem` would
where the kernel has it."""

from __future__ import annotations

import heapq
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

PIECE_BYTES = 1 << 16


class _Way(NamedTuple):
    """Where a connection leads, and how long a byte takes there or back."""

    target: tuple[str, int]
    way_s: float


class _Late(NamedTuple):
    """Bytes that are due at a socket; `number` keeps the order of what is due at once."""

    due_s: float
    number: int
    sink: socket.socket
    data: bytes  # empty: the end


class Distances:
    """Proxies before TCP addresses, all in one thread. Bytes of a connection keep their order."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._opened = [self._wake, self._waker]
        self._asked: list[tuple[socket.socket, _Way]] = []
        self._late: list[_Late] = []
        self._number = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="distances")
        self._thread.start()

    def add(self, address: str, way_s: float) -> str:
        """An address behind which `address` (tcp://127.0.0.1:port) is `way_s` away, both ways."""
        listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        target = ("127.0.0.1", int(address.rpartition(":")[2]))
        self._asked.append((listening, _Way(target, way_s)))
        self._waker.send(b"x")
        return f"tcp://127.0.0.1:{listening.getsockname()[1]}"

    def close(self) -> None:
        """Cut all connections."""
        self._ended = True
        self._waker.send(b"x")
        self._thread.join()
        self._selector.close()
        for each in [*self._opened, *(listening for listening, _ in self._asked)]:
            each.close()

    def _run(self) -> None:
        while not self._ended:
            pause_s = max(0.0, self._late[0].due_s - time.monotonic()) if self._late else None
            for key, _ in self._selector.select(pause_s):
                if key.fileobj is self._wake:
                    self._wake.recv(PIECE_BYTES)
                    self._register()
                else:
                    key.data()
            while self._late and self._late[0].due_s <= time.monotonic():
                late = heapq.heappop(self._late)
                with suppress(OSError):
                    late.sink.sendall(late.data) if late.data else late.sink.shutdown(
                        socket.SHUT_WR
                    )

    def _register(self) -> None:
        while self._asked:
            listening, way = self._asked.pop()
            self._watch(listening, lambda at=listening, way=way: self._accept(at, way))

    def _watch(self, source: socket.socket, act: Callable[[], None]) -> None:
        self._opened.append(source)
        self._selector.register(source, selectors.EVENT_READ, act)

    def _accept(self, listening: socket.socket, way: _Way) -> None:
        near, _ = listening.accept()
        try:
            far = socket.create_connection(way.target)
        except OSError:
            near.close()
            return
        for source, sink in ((near, far), (far, near)):
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._watch(source, lambda at=source, to=sink: self._take(at, to, way.way_s))

    def _take(self, source: socket.socket, sink: socket.socket, way_s: float) -> None:
        try:
            data = source.recv(PIECE_BYTES)
        except OSError:
            data = b""
        self._number += 1
        heapq.heappush(self._late, _Late(time.monotonic() + way_s, self._number, sink, data))
        if not data:
            self._selector.unregister(source)
