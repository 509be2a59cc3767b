"""Options common to all sockets."""

from __future__ import annotations

import zmq

LINGER_MS = 500


def prepare(socket: zmq.Socket[bytes], hard_limit: int) -> zmq.Socket[bytes]:
    """Bound the size of a message and the time that closing takes."""
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, hard_limit)
    return socket
