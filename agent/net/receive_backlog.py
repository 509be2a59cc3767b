"""Receive backlog: what the other end of a link sent and this process has not taken yet.

libzmq reads a link without a limit (RCVHWM in agent/net/dealer.py). Its bytes follow from those
that the kernel counts and those of the messages taken; the messages that they are, from the size of
those. Pure: counts are arguments.
"""

from __future__ import annotations

import math
from typing import Final

# May wait beside the largest message that the link takes.
MAX_BYTES: Final = 32 << 20
# An empty message has two bytes and takes 64 in libzmq, one of a hundred bytes takes three hundred.
MAX_MESSAGES: Final = 1 << 17
# Messages in a row whose size says that too many wait: something large may wait behind a few small
# ones.
IN_A_ROW: Final = 1 << 10
# Interval of the checks of a link that has nothing to read.
EMPTY_S: Final = 1.0


class ReceiveBacklog:
    """Decides whether too much waits on a link: the bytes that the process has read from its
    connection, less those of the messages taken. What else comes, a handshake and heartbeats, is
    written off whenever the link has nothing to read."""

    def __init__(self, largest: int) -> None:
        self._most = largest + MAX_BYTES
        self._fd = -1
        # Bytes of this connection that do not count, or were taken. Of a message that is read in
        # part when the link is empty, more than were read.
        self._settled = 0
        self._read = 0
        self._small = 0  # messages in a row whose size says that too many wait
        self._due_s = -math.inf

    def took(self, fd: int, size: int) -> None:
        """Messages of `size` bytes together, headers included, were taken from connection `fd`."""
        if fd != self._fd:
            self._fd, self._settled, self._read, self._small, self._due_s = fd, 0, 0, 0, -math.inf
        self._settled += size

    def empty_is_due(self, now: float) -> bool:
        """Whether to call `emptied` if nothing waits now."""
        return now >= self._due_s

    def emptied(self, read: int, now: float) -> None:
        """Nothing waits, and the process has read `read` bytes from the connection in all."""
        self._settled, self._read, self._small, self._due_s = read, read, 0, now + EMPTY_S

    def exceeds(self, read: int, size: int, count: int) -> bool:
        """Whether too much waits; the last `count` messages taken have `size` bytes together."""
        if read < self._read:  # another connection with its descriptor
            self._settled = size
        self._read = read
        waiting = read - self._settled
        too_many = waiting * count > MAX_MESSAGES * size
        self._small = self._small + count if too_many else 0
        return waiting > self._most or self._small >= IN_A_ROW
