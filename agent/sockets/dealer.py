"""DEALER sockets to other agents."""

from __future__ import annotations

import zmq

from agent.sockets.options import prepare

# A peer that stopped answering is noticed after this long.
HEARTBEAT_IVL_MS = 2_000
DEAD_AFTER_MS = 6_000


def dealer(
    context: zmq.Context[zmq.Socket[bytes]], address: str, max_bytes: int
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
        socket.connect(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise OSError(f"cannot connect to {address}: {error.strerror}") from None
    return socket
