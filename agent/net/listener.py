"""TCP listeners of a CURVE socket: the key can be rotated without closing connections.

A libzmq listener keeps the keys that were set when it was bound, and unbinding it closes its
connections. A new key therefore gets an additional listener on the same port, to which the kernel
directs all new connections (docs/decisions/0006-trust.md). The older listeners stay open and accept
nothing.
"""

from __future__ import annotations

import os
import socket
from typing import Final

import zmq

from agent.net.socket_filters import drop_resets, take_all

BACKLOG: Final = 100


class TcpListener:
    """The listeners of one zmq socket on one address. Without `takes_resets` the kernel drops
    resets of connections; where it refuses to, libzmq may hold any number of their messages."""

    def __init__(
        self, zmq_socket: zmq.Socket[bytes], address: str, *, takes_resets: bool = True
    ) -> None:
        self._zmq = zmq_socket
        self._takes_resets = takes_resets
        self._address = address
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._host = "" if host == "*" else host.strip("[]")
        self._port = int(port)
        # Owned and closed by libzmq.
        self._fds: list[int] = []

    def bind(self) -> None:
        """Listen with the zmq socket's current keys; OSError if that fails."""
        listening = self._open()
        # libzmq owns and closes this descriptor.
        fd = listening.detach()
        try:
            self._zmq.setsockopt(zmq.USE_FD, fd)
            self._zmq.bind(self._address)
        except zmq.ZMQError as error:
            os.close(fd)
            raise OSError(error.errno, error.strerror) from None
        finally:
            self._zmq.setsockopt(zmq.USE_FD, -1)
        self._fds.append(fd)

    def _open(self) -> socket.socket:
        family, _, _, _, where = socket.getaddrinfo(
            self._host or None,
            self._port,
            type=socket.SOCK_STREAM,
            family=socket.AF_INET6 if ":" in self._host else socket.AF_INET,
            flags=socket.AI_PASSIVE,
        )[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._fds:
                # Only from the second listener on: another process on the port is an error.
                for fd in self._fds:
                    with socket.socket(fileno=os.dup(fd)) as before:
                        before.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind(where)
            listening.listen(BACKLOG)
            listening.setblocking(False)
            if not self._takes_resets:
                try:
                    drop_resets(listening)
                except PermissionError:
                    # Recent kernels want CAP_NET_ADMIN for it. A queue that is never full is the
                    # other way to survive a reset (agent/net/router.py).
                    self._zmq.setsockopt(zmq.RCVHWM, 0)
            if self._fds:
                take_all(listening, len(self._fds))
        except OSError:
            listening.close()
            raise
        return listening
