"""Non-blocking receive on a DEALER."""

from __future__ import annotations

import zmq


def one_frame(socket: zmq.Socket[bytes]) -> bytes | None:
    """The next message, or None if nothing waits. A multipart message is returned as an empty
    frame, which every decoder rejects."""
    try:
        frame = socket.recv(zmq.NOBLOCK)
    except zmq.Again:
        return None
    while socket.getsockopt(zmq.RCVMORE):
        socket.recv()
        frame = b""
    return frame
