"""Accounts for the bytes that connections hold: received, but part of no complete message yet.
Pure: counts and times are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

# What the connections of a socket may hold together, and one alone. The largest message has 1 MiB,
# and the complete messages waiting do not exceed what one connection may hold (OPEN_WAITING in
# agent/net/router.py).
MAX_HELD_BYTES: Final = 24 << 20
MAX_HELD_BY_ONE_BYTES: Final = 8 << 20
# Less than this on a connection that completes messages is frame headers and heartbeats.
SMALL_BYTES: Final = 1 << 16
# Upper bounds on heartbeats per second, and on one heartbeat: with keys, some forty bytes every two
# seconds.
HEARTBEATS_BYTES_PER_S: Final = 64
# Bytes arriving as slowly as heartbeats count as held once the process grew by this much since the
# connection last completed a message. Otherwise the heartbeats of five days would exceed the limit
# of one connection, and those of one day on many links that of a socket.
GROWN_MEANWHILE_BYTES: Final = MAX_HELD_BYTES


class Cut(NamedTuple):
    """A connection to close, and the bytes that it holds."""

    fd: int
    held: int


def excess(
    held: Mapping[int, int],
    most_of_one: int = MAX_HELD_BY_ONE_BYTES,
    most: int = MAX_HELD_BYTES,
) -> list[Cut]:
    """The connections to cut, given the bytes that each holds: all above the limit of one, then the
    largest until the rest is within the total. O(n log n) if anything is cut."""
    cut = [Cut(fd, size) for fd, size in held.items() if size > most_of_one]
    rest = sum(held.values()) - sum(each.held for each in cut)
    if rest > most:
        large = [(size, fd) for fd, size in held.items() if size <= most_of_one]
        for size, fd in sorted(large, reverse=True):
            cut.append(Cut(fd, size))
            rest -= size
            if rest <= most:
                break
    return cut


class _Settled(NamedTuple):
    """A connection's state at the last check: bytes taken; bytes that are overhead and not held;
    bytes that arrived slowly since a message was completed; all bytes read, and when; and the
    process's minimum memory since a message was completed."""

    taken: int
    excused: int
    slow: int
    read: int
    now: float
    least: int


class ByteAccounting:
    """Accounts for bytes received and taken on each connection, to estimate the bytes held."""

    def __init__(self) -> None:
        # Counted by the thread that reads the socket.
        self.taken: dict[int, int] = {}
        self._settled: dict[int, _Settled] = {}

    def opened(self, fd: int) -> None:
        """A connection was opened, perhaps with the descriptor of an earlier one."""
        self.taken[fd] = 0
        self._settled.pop(fd, None)

    def closed(self, fd: int) -> None:
        """A connection was closed."""
        self.taken.pop(fd, None)
        self._settled.pop(fd, None)

    def held(self, fd: int, read: int, now: float, resident: int) -> int:
        """Bytes that a connection holds: part of `read`, all bytes that libzmq has read from it by
        `now`. The process has `resident` bytes of memory.

        `read` includes frame headers, handshakes and heartbeats, which are never taken. If a
        connection completed a message since the last check and the remainder is small, the
        remainder is written off as such overhead. No message completes after an endless one;
        therefore bytes that arrived as slowly as heartbeats before a completed message are written
        off in any amount. The same holds while the process's memory has not grown: on a link idle
        for weeks they are heartbeats.
        """
        taken = self.taken.get(fd, 0)
        first = _Settled(0, 0, 0, 0, now, resident)
        seen, excused, slow, before, before_s, least = self._settled.get(fd, first)
        grown = read - before
        if 0 <= grown <= HEARTBEATS_BYTES_PER_S * (1.0 + now - before_s):
            slow += grown
        held = max(0, read - taken - excused)
        if taken > seen and held < SMALL_BYTES + slow:
            excused, held, slow, least = read - taken, 0, 0, resident
        least = min(least, resident)
        self._settled[fd] = _Settled(taken, excused, slow, read, now, least)
        return held if resident > least + GROWN_MEANWHILE_BYTES else max(0, held - slow)
