"""DEALER sockets to other agents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import zmq

from agent.sockets.keys import Handshake
from agent.sockets.options import prepare

# A peer that stopped answering is noticed after this long.
HEARTBEAT_IVL_MS = 2_000
DEAD_AFTER_MS = 6_000
# A connection that is not there after this long is tried with the next key.
REDIAL_S = 2.0


def dealer(
    context: zmq.Context[zmq.Socket[bytes]],
    address: str,
    max_bytes: int,
    handshake: Handshake | None = None,
) -> zmq.Socket[bytes]:
    """Connect a DEALER that refuses to send (`zmq.Again`) while nobody is at the other end;
    OSError if the address is none."""
    socket = prepare(context.socket(zmq.DEALER), max_bytes)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    # Only results of our own tasks come in. A queue that is never full keeps heartbeats safe, and
    # they notice a master that is stopped, which the kernel does not.
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_IVL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, DEAD_AFTER_MS)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5_000)
    try:
        if handshake is not None:
            handshake.apply(socket)
        socket.connect(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise OSError(f"cannot connect to {address}: {error.strerror}") from None
    return socket


def redial(socket: zmq.Socket[bytes], address: str, handshake: Handshake) -> None:
    """Connect the socket anew, with other keys; what it was about to send is lost."""
    with suppress(zmq.ZMQError):  # libzmq gives up an endpoint that refused the key
        socket.disconnect(address)
    handshake.apply(socket)
    socket.connect(address)


class KeyedLink:
    """Keeps one DEALER connected while either end changes its key: whenever it is found without
    a connection for REDIAL_S, the next of `handshakes()` is tried."""

    def __init__(
        self, socket: zmq.Socket[bytes], address: str, handshakes: Callable[[], list[Handshake]]
    ) -> None:
        self.socket = socket
        self._address = address
        self._handshakes = handshakes
        self._attempts = 0
        self._since_s: float | None = None

    def look(self, now: float) -> None:
        """Call about once a second. ConfigError if a key file cannot be read now."""
        if int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLOUT:
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now
        elif now - self._since_s >= REDIAL_S:
            self._since_s = now
            self._attempts += 1
            found = self._handshakes()
            redial(self.socket, self._address, found[self._attempts % len(found)])
