"""ZAP handler: decides for libzmq whether a key may connect (RFC 27)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import zmq
from zmq.utils import z85

from agent.net.options import prepare
from agent.runtime.token_bucket import TokenBuckets

ENDPOINT: Final = "inproc://zeromq.zap.01"
VERSION: Final = b"1.0"
# Requests handled before the process's other sockets get their turn.
TURN: Final = 64
MAX_REQUEST: Final = 4_096
# A temporary error: libzmq ends the connection without a word, and its client connects anew.
AGAIN: Final = b"300"

# Connections of one key: all that a client or another master has come back at once after an outage.
# Beyond that it may not search for the identity of a connection to come (agent/net/router.py).
BURST: Final = 2_000
RATE_PER_S: Final = 50.0

# (domain, public key in Z85) → why it may not connect; None: it may.
Decide = Callable[[str, str], str | None]


class Zap:
    """The ZAP handler of a context; exists before the context's first keyed socket binds.

    Served by the event loop of the sockets that it protects: libzmq's thread sends the request, and
    holds back only the new connection until the answer arrives.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        decide: Decide,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Not a REP socket: an unreadable request would block that for ever.
        self.socket = prepare(context.socket(zmq.ROUTER), MAX_REQUEST)
        self.socket.bind(ENDPOINT)
        self._decide = decide
        self._clock = clock
        self.limit = TokenBuckets(BURST, RATE_PER_S)
        self.admitted = 0
        self.deferred = 0
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
        if why_not is not None:
            self._reply(frames, b"400", why_not.encode())
        elif self.limit.admits(key.decode(), self._clock()):
            self._reply(frames, b"200", b"OK", user=key)
        else:
            self._reply(frames, AGAIN, b"too many connections with this key at once; try again")

    def _reply(self, frames: list[Any], status: bytes, text: bytes, user: bytes = b"") -> None:
        if user:
            self.admitted += 1
        elif status == AGAIN:
            self.deferred += 1
        else:
            self.refused += 1
        try:
            self.socket.send_multipart(
                [frames[0], b"", VERSION, frames[3], status, text, user, b""], zmq.NOBLOCK
            )
        except zmq.ZMQError:  # the requester is gone
            return
