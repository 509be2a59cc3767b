"""Decides for one socket whether too much waits on its connection, by what the kernel counts."""

from __future__ import annotations

import time

import zmq

from agent.net.receive_backlog import ReceiveBacklog
from agent.net.tcp_counters import TcpCounters


class LinkBacklog:
    """The backlog of one DEALER, which has one connection at a time. A new socket needs a new
    one."""

    def __init__(self, socket: zmq.Socket[bytes], tcp: TcpCounters) -> None:
        self._tcp = tcp
        self._backlog = ReceiveBacklog(int(socket.getsockopt(zmq.MAXMSGSIZE)))

    def exceeds(self, last: zmq.Frame, size: int, count: int, *, more: bool) -> bool:
        """Account for `count` messages that were taken, `last` the last of them, `size` bytes
        together with their headers; whether too much waits. `more`: others may wait. O(1), two
        system calls."""
        try:
            fd = int(last.get(zmq.SRCFD))
        except zmq.ZMQError:  # from this process
            return False
        now = time.monotonic()
        self._backlog.took(fd, size)
        if more:
            return self._backlog.exceeds(self._tcp.read(fd), size, count)
        if self._backlog.empty_is_due(now):
            self._backlog.emptied(self._tcp.read(fd), now)
        return False
