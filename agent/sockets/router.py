"""ROUTER sockets read frame by frame, never blocking."""

from __future__ import annotations

import zmq

from agent.sockets.options import prepare
from agent.wire.senders import Sender

SEND_FIRST = int(zmq.SNDMORE | zmq.NOBLOCK)
# A frame above the decoder's limit gets an error; one above this only a closed connection.
HARD_LIMIT_BYTES = 1 << 24
# A peer that stopped answering TCP is noticed after this long.
DEAD_AFTER_MS = 6_000
# Frames of a message with too many that are thrown away before others get their turn.
DISCARDED_A_TURN = 1_000


class DelimitedIdentity(bytes):
    """The identity of a peer that puts REQ's empty frame before its payload, and expects it back.

    Other peers are plain bytes: the way back to a peer is one hashable value, and making it costs
    nothing for the nodes, which send most of the messages.
    """

    __slots__ = ()


def router(context: zmq.Context[zmq.Socket[bytes]], address: str) -> Router:
    """Bind a ROUTER; OSError if that cannot be."""
    socket = prepare(context.socket(zmq.ROUTER), HARD_LIMIT_BYTES)
    # Not ZMTP heartbeats: with them libzmq 4.3 aborts the process when a client goes away while its
    # messages fill the receive queue (libzmq issue 4364). The kernel notices a dead peer too, and
    # one that stopped reading.
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 2)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, 4)
    socket.setsockopt(zmq.TCP_MAXRT, DEAD_AFTER_MS)
    # Without it a message to a peer that is gone or does not read would vanish uncounted.
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise OSError(f"cannot listen on {address}: {error.strerror}") from None
    return Router(socket)


class Router:
    """A ROUTER socket as a source of (identity, payload)."""

    __slots__ = ("_discarding", "_recv", "_send", "dropped", "socket")

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self.socket = socket
        self._recv = socket.recv
        self._send = socket.send
        self.dropped = 0
        self._discarding = False

    def receive(self) -> tuple[bytes, bytes] | None:
        """One message, or None when nothing waits. A message that is not a payload with or without
        REQ's empty delimiter before it comes back as an empty payload, which no decoder takes."""
        recv = self._recv
        if self._discarding and not self._discard():
            return None
        try:
            # At least one frame always follows the identity.
            identity = recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        # A Frame knows whether more follows; asking the socket (RCVMORE) costs three times as much.
        frame = recv(0, False)
        if not frame.more:
            return identity, frame.bytes
        delimited = not frame.bytes
        if delimited:
            frame = recv(0, False)
        payload = b"" if frame.more or not delimited else frame.bytes
        if frame.more:
            self._discarding = True
            self._discard()
        return DelimitedIdentity(identity) if delimited else identity, payload

    def sender(self, identity: bytes) -> Sender:
        """Who is at the other end."""
        return Sender("anyone", identity.hex())

    def _discard(self) -> bool:
        """Throw away frames of a message with too many; whether that was the last."""
        for _ in range(DISCARDED_A_TURN):
            if not self._recv(0, False).more:
                self._discarding = False
                return True
        return False

    def send(self, identity: bytes, payload: bytes) -> None:
        """Send. A peer that is gone, or does not read what waits for it (high-water mark), loses
        the message, and `dropped` counts it."""
        send = self._send
        try:
            send(identity, SEND_FIRST)
        except zmq.ZMQError:
            self.dropped += 1
            return
        if type(identity) is DelimitedIdentity:
            send(b"", zmq.SNDMORE)
        send(payload)
