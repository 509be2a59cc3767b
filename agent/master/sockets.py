"""ROUTER and DEALER sockets read frame by frame, never blocking."""

from __future__ import annotations

from typing import NamedTuple

import zmq

LINGER_MS = 500
# A frame above the decoder's limit gets an error; one above this only a closed connection.
HARD_LIMIT_FACTOR = 16
# A peer that stopped answering TCP is noticed after this long.
HEARTBEAT_IVL_MS = 2_000
HEARTBEAT_TIMEOUT_MS = 6_000


class Route(NamedTuple):
    """The way back to a peer of a ROUTER: REQ sockets put an empty frame before the payload."""

    identity: bytes
    delimited: bool


def router(context: zmq.Context[zmq.Socket[bytes]], address: str, max_bytes: int) -> Router:
    """Bind a ROUTER; `max_bytes` is what its decoder accepts."""
    socket = _prepare(context.socket(zmq.ROUTER), max_bytes * HARD_LIMIT_FACTOR)
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise OSError(f"cannot listen on {address}: {error.strerror}") from None
    return Router(socket)


def dealer(
    context: zmq.Context[zmq.Socket[bytes]], address: str, max_bytes: int
) -> zmq.Socket[bytes]:
    """Connect a DEALER that refuses to send (`zmq.Again`) while nobody is at the other end."""
    socket = _prepare(context.socket(zmq.DEALER), max_bytes)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5_000)
    socket.connect(address)
    return socket


def _prepare(socket: zmq.Socket[bytes], hard_limit: int) -> zmq.Socket[bytes]:
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, hard_limit)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_IVL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS)
    return socket


class Router:
    """A ROUTER socket as a source of (route, payload)."""

    __slots__ = ("_getsockopt", "_recv", "_send", "socket")

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket
        self._recv = socket.recv
        self._send = socket.send
        self._getsockopt = socket.getsockopt

    def receive(self) -> tuple[Route, bytes] | None:
        """One message, or None when nothing waits. A message that is not a payload with or without
        REQ's empty delimiter before it comes back as an empty payload, which no decoder takes."""
        recv, getsockopt = self._recv, self._getsockopt
        try:
            identity = recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        payload = recv() if getsockopt(zmq.RCVMORE) else b""
        if not getsockopt(zmq.RCVMORE):
            return Route(identity, False), payload
        delimited = not payload
        payload = recv() if delimited else b""
        while getsockopt(zmq.RCVMORE):
            recv()
            payload = b""
        return Route(identity, delimited), payload

    def send(self, route: Route, payload: bytes) -> None:
        """Send; a peer that is gone or has stopped reading (high-water mark) loses the message."""
        send = self._send
        send(route.identity, zmq.SNDMORE)
        if route.delimited:
            send(b"", zmq.SNDMORE)
        send(payload)
