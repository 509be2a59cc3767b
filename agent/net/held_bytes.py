"""Accounts for the bytes that connections hold: received, but not taken as a complete message yet.
Pure: counts and times are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

# What the connections of a socket may hold together, and one alone. The largest message has 1 MiB.
# Another master may send thirty of these while the event loop is busy: what policing lets through
# at once (BURST_BYTES in agent/net/policing.py).
MAX_HELD_BYTES: Final = 36 << 20
MAX_HELD_BY_ONE_BYTES: Final = 32 << 20
# Connections are closed until the rest holds this share of the limit: the memory of a closed one is
# freed only when libzmq comes to it, and others go on meanwhile.
LEFT: Final = 0.75
# The same of small answers that connections do not read.
MAX_UNREAD_BYTES: Final = 24 << 20
MAX_UNREAD_BY_ONE_BYTES: Final = 8 << 20
# An empty message comes in two bytes and takes 64. Once the process has grown by so much more than
# connections hold, they may hold only that share.
AMPLIFIED_BYTES: Final = 32 << 20
AMPLIFICATION: Final = 32
# What takes at most half of that growth is little.
LITTLE_HELD_BYTES: Final = AMPLIFIED_BYTES // 2 // AMPLIFICATION
# Less than this on a connection that completes messages is frame headers and heartbeats.
SMALL_BYTES: Final = 1 << 16
# Upper bounds on heartbeats per second, and on one heartbeat: with keys, some forty bytes every two
# seconds.
HEARTBEATS_BYTES_PER_S: Final = 64
# Bytes arriving as slowly as heartbeats count as held once the process grew by this much since the
# connection last completed a message. Otherwise the heartbeats of five days would exceed the limit
# of one connection, and those of one day on many links that of a socket.
GROWN_MEANWHILE_BYTES: Final = 24 << 20


class Held(NamedTuple):
    """Bytes of a connection in this process: what it sent and nobody took yet, and small answers
    that it does not read."""

    untaken: int
    unread: int

    def exceeds(self, most: Held) -> bool:
        """Whether it is more of either."""
        return self.untaken > most.untaken or self.unread > most.unread


MOST = Held(MAX_HELD_BYTES, MAX_UNREAD_BYTES)
MOST_OF_ONE = Held(MAX_HELD_BY_ONE_BYTES, MAX_UNREAD_BY_ONE_BYTES)


class Cut(NamedTuple):
    """A connection to close, and the bytes that it holds."""

    fd: int
    held: int


class Bounds:
    """Decides which connections hold too much; `resident` is the memory of the process."""

    def __init__(self, resident: int) -> None:
        # The memory when connections last held little.
        self._before = resident

    def little_is_held(self, untaken: int, resident: int) -> None:
        """Connections together held so much just now: if that is little, what the process has grown
        by is not theirs."""
        if untaken <= LITTLE_HELD_BYTES:
            self._before = resident
        self._before = min(self._before, resident)

    def amplified(self, held: Mapping[int, Held], resident: int) -> bool:
        """Whether the process has grown by much more than connections hold."""
        return resident > self._before + sum(map(sum, held.values())) + AMPLIFIED_BYTES

    def beyond(self, held: Mapping[int, Held], resident: int) -> tuple[list[Cut], list[Cut]]:
        """The connections to cut for what they sent, and those for what they do not read."""
        untaken = {fd: each.untaken for fd, each in held.items()}
        unread = {fd: each.unread for fd, each in held.items()}
        share = AMPLIFICATION if self.amplified(held, resident) else 1
        self.little_is_held(sum(untaken.values()), resident)
        return (
            excess(untaken, MOST_OF_ONE.untaken // share, MOST.untaken // share),
            excess(unread, MOST_OF_ONE.unread, MOST.unread),
        )


def excess(held: Mapping[int, int], most_of_one: int, most: int) -> list[Cut]:
    """The connections to cut, given the bytes that each holds: all above the limit of one, then, if
    the rest is above the total, the largest until it is well below (`LEFT`). O(n log n) if anything
    is cut."""
    cut = [Cut(fd, size) for fd, size in held.items() if size > most_of_one]
    rest = sum(held.values()) - sum(each.held for each in cut)
    if rest > most:
        large = [(size, fd) for fd, size in held.items() if size <= most_of_one]
        for size, fd in sorted(large, reverse=True):
            cut.append(Cut(fd, size))
            rest -= size
            if rest <= LEFT * most:
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
