"""What every socket has in common."""

from __future__ import annotations

import zmq

LINGER_MS = 500


def prepare(socket: zmq.Socket[bytes], hard_limit: int) -> zmq.Socket[bytes]:
    """Bound what a socket may cost: memory of one message, time to close."""
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, hard_limit)
    return socket
