"""Options common to all sockets."""

from __future__ import annotations

import zmq

LINGER_MS = 500
# libzmq's threads in a process that serves strangers. One alone reads what they send, so that the
# messages of nodes and of other masters do not wait while it reads a flood.
IO_THREADS = 2
OF_STRANGERS, OF_OTHERS = 1, 2  # bits of ZMQ_AFFINITY


def prepare(
    socket: zmq.Socket[bytes], hard_limit: int, *, strangers: bool = False
) -> zmq.Socket[bytes]:
    """Bound the size of a message and the time that closing takes. `strangers`: anybody may connect
    to the socket."""
    if socket.context.get(zmq.IO_THREADS) == IO_THREADS:
        socket.setsockopt(zmq.AFFINITY, OF_STRANGERS if strangers else OF_OTHERS)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, hard_limit)
    return socket
