"""Container pods: the agent's local socket, to which pods in containers connect.

A container (`agent.edge.pods.pod_container`) sees the history's folder, read-only; readings that
are only in memory travel with the subtask. Frames are [length, 4 bytes][MessagePack], one request
and one answer at a time. If a container disappears while serving, another pod takes over its
subtask; the agent always has a pod in a thread of its own.
"""

# ruff: noqa: PTH101, PTH108, PTH118 - pathlib takes 0.6 MiB; see history.file

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from agent.edge.history.snapshot import Recent
from agent.edge.pods.pods import Pods, ReceivedSubtask
from agent.wire.node_messages import Subtask

SOCKET: Final = "pods.sock"
PATIENCE_S: Final = 30.0  # before a container that neither answers nor closes is dropped
LENGTH: Final = struct.Struct("!I")


class Request(Struct, array_like=True):
    """A subtask for a container; `recent` is the result of `History.recent` for it, `history` the
    file's name in the folder."""

    history: str
    subtask: Subtask
    waited_s: float
    wall_ms: int
    emulated_s: float
    recent: Recent


class PodSocket:
    """The agent's side: each connected container is an additional pod."""

    def __init__(self, pods: Pods) -> None:
        """Listen in the history's folder; OSError if that fails."""
        folder, self._history = os.path.split(pods.history.path)
        self._path = os.path.join(folder, SOCKET)
        self._pods = pods
        self._connections: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # left by a killed agent: this one holds the history's lock
        try:
            self._listener.bind(self._path)
            os.chmod(self._path, 0o660)
            self._listener.listen()
        except OSError:
            self._listener.close()
            raise
        threading.Thread(target=self._accept, name="containers", daemon=True).start()

    def close(self) -> None:
        """Disconnect all containers."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)
        for connection in [self._listener, *self._connections]:
            with suppress(OSError):  # it disconnected by itself
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with self._listener, suppress(OSError):  # shut down
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(connection,), name="container", daemon=True
                ).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        self._connections.add(connection)
        with connection:
            self._pods.serve_elsewhere(lambda received: self._ask(connection, received))
        self._connections.discard(connection)

    def _ask(self, connection: socket.socket, received: ReceivedSubtask) -> bytes:
        start_ms, end_ms = received.subtask.window.bounds_ms(received.wall_ms)
        request = Request(
            self._history,
            received.subtask,
            time.monotonic() - received.at,
            received.wall_ms,
            self._pods.emulated_s(received.subtask),
            self._pods.history.recent(start_ms, end_ms),
        )
        send(connection, msgspec.msgpack.encode(request))
        return receive(connection)


def send(connection: socket.socket, body: bytes) -> None:
    """Send one frame; OSError if the peer is gone."""
    connection.sendall(LENGTH.pack(len(body)) + body)


def receive(connection: socket.socket) -> bytes:
    """Receive one frame; ConnectionError if the connection ends."""
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
    return _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the other side closed")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
