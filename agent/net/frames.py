"""Reading a DEALER, never blocking."""

from __future__ import annotations

import zmq


def one_frame(socket: zmq.Socket[bytes]) -> bytes | None:
    """The next message, or None when nothing waits. One of several frames comes back as an empty
    frame, which no decoder takes."""
    try:
        frame = socket.recv(zmq.NOBLOCK)
    except zmq.Again:
        return None
    while socket.getsockopt(zmq.RCVMORE):
        socket.recv()
        frame = b""
    return frame
