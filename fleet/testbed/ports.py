"""Allocates TCP ports for processes that are about to start on this machine."""

from __future__ import annotations

import os
import socket
from collections import deque
from pathlib import Path
from typing import Final

# Ports come from below the kernel's range for outgoing connections: otherwise the fleet's own nodes
# would sometimes occupy the port of a master that is about to start.
LOWEST_PORT: Final = 20_000
EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_EPHEMERAL: Final = 32_768
# Descriptors of ports that were given away last.
MAX_BOUND: Final = 200
# A master's port for clients, where pages name one.
USUAL: Final = 5_700


class Ports:
    """Hands out ports of 127.0.0.1 in turn, so that none comes twice before all have come: whoever
    got one may not listen on it yet. Until then no other process is given it, either: it stays
    bound here, which keeps nobody from listening that sets SO_REUSEADDR, as servers do."""

    def __init__(self, first: int, end: int, start: int) -> None:
        """Ports are from `first` to `end` - 1; the search begins `start` after the first."""
        self._first = first
        self._span = end - first
        self._next = start % self._span
        self._bound: deque[int] = deque()

    def take(self, count: int) -> list[int]:
        """Ports that are free now; OSError if there are not enough."""
        found: list[int] = []
        for _ in range(self._span):
            port = self._first + self._next
            self._next = (self._next + 1) % self._span
            if self._bind(port):
                found.append(port)
            if len(found) == count:
                return found
        raise OSError("too few free TCP ports on 127.0.0.1")

    def _bind(self, port: int) -> bool:
        """Whether it is free; then it is bound here, and the one is given up that was long ago."""
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.close()
            return False
        # Not before: with this it could be bound beside another process.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._bound.append(probe.detach())
        if len(self._bound) > MAX_BOUND:
            os.close(self._bound.popleft())
        return True


def _end() -> int:
    try:
        end = int(EPHEMERAL.read_text("ascii").split()[0])
    except (OSError, ValueError):
        end = USUAL_EPHEMERAL
    return end if end > LOWEST_PORT + 1_000 else 65_536  # an unusual range leaves no room below it


# A different start for each process, so that two fleets that start together rarely collide.
_ports = Ports(LOWEST_PORT, _end(), os.getpid() * 64)


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that are free now; OSError if there are too few."""
    return _ports.take(count)


def claimed(port: int) -> socket.socket | None:
    """Something to hold on to for as long as `port` of 127.0.0.1 is wanted; None if somebody
    listens there, or holds it in this way, too. Connections of the run before, which the kernel
    remembers for a minute, are no obstacle."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        # An abstract name: there is no file, it goes with the process, and two fleets that start
        # together do not both find the port free.
        claim.bind(f"\0sanderling-port-{port}")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return None
    return claim


def free_address() -> str:
    """A free address of 127.0.0.1, for ZeroMQ."""
    return f"tcp://127.0.0.1:{free_ports(1)[0]}"
