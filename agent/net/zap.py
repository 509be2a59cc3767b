"""ZAP handler: decides for libzmq whether a key may connect (RFC 27)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import zmq
from zmq.utils import z85

from agent.net.options import prepare

ENDPOINT: Final = "inproc://zeromq.zap.01"
VERSION: Final = b"1.0"
# Requests handled before the process's other sockets get their turn.
TURN: Final = 64
LARGEST_REQUEST: Final = 4_096

# (domain, public key in Z85) → why it may not connect; None: it may.
Decide = Callable[[str, str], str | None]


class Zap:
    """The ZAP handler of a context; exists before the context's first keyed socket binds.

    Served by the event loop of the sockets that it protects: libzmq's thread sends the request, and
    holds back only the new connection until the answer arrives.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], decide: Decide) -> None:
        # Not a REP socket: an unreadable request would block that for ever.
        self.socket = prepare(context.socket(zmq.ROUTER), LARGEST_REQUEST)
        self.socket.bind(ENDPOINT)
        self._decide = decide
        self.admitted = 0
        self.refused = 0
        self.malformed = 0

    def turn(self) -> None:
        """Answer the waiting requests."""
        for _ in range(TURN):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._answer(frames)

    def _answer(self, frames: list[bytes]) -> None:
        # identity, "", version, request id, domain, address, routing id, mechanism, credentials…
        if len(frames) < 8 or frames[1] or frames[2] != VERSION:
            self.malformed += 1
            return
        if frames[7] != b"CURVE" or len(frames) != 9 or len(frames[8]) != 32:
            self._reply(frames, b"400", b"a CURVE key is needed")
            return
        key = z85.encode(frames[8])
        why_not = self._decide(frames[4].decode(errors="replace"), key.decode())
        if why_not is None:
            self._reply(frames, b"200", b"OK", user=key)
        else:
            self._reply(frames, b"400", why_not.encode())

    def _reply(self, frames: list[Any], status: bytes, text: bytes, user: bytes = b"") -> None:
        if user:
            self.admitted += 1
        else:
            self.refused += 1
        try:
            self.socket.send_multipart(
                [frames[0], b"", VERSION, frames[3], status, text, user, b""], zmq.NOBLOCK
            )
        except zmq.ZMQError:  # the requester is gone
            return
