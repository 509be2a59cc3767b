"""Send buffers: counts the bytes that a socket holds for peers that do not read them.

libzmq bounds its queues in messages, but an answer may have a hundred megabytes. Large frames are
handed over without a copy, and libzmq reports when it releases one, so the bytes held are known
exactly. Small frames are bounded by their number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final

import zmq

# pyzmq copies smaller frames, of which a peer may leave 1,000 unread.
LARGE: Final = 1 << 16
MAX_A_PEER: Final = 1 << 26
MOST: Final = 1 << 29


class Unsent:
    """Large frames that are still in libzmq, by peer."""

    __slots__ = ("_by_peer", "_most", "_most_a_peer", "bytes")

    def __init__(self, most_a_peer: int = MAX_A_PEER, most: int = MOST) -> None:
        self._most_a_peer = most_a_peer
        self._most = most
        self._by_peer: dict[Hashable, deque[tuple[zmq.MessageTracker, int]]] = {}
        self.bytes = 0

    def has_room(self, peer: Hashable, size: int) -> bool:
        """Whether `size` more bytes may wait for `peer`. A frame of any size may if no other large
        frame waits. O(frames waiting for the peer); at the total limit, O(all waiting frames)."""
        waiting = self._waiting(peer)
        if waiting and waiting + size > self._most_a_peer:
            return False
        if self.bytes and self.bytes + size > self._most:
            for other in list(self._by_peer):
                self._waiting(other)
        return not self.bytes or self.bytes + size <= self._most

    def add(self, peer: Hashable, tracker: zmq.MessageTracker, size: int) -> None:
        """A frame was handed to the socket."""
        self._by_peer.setdefault(peer, deque()).append((tracker, size))
        self.bytes += size

    def _waiting(self, peer: Hashable) -> int:
        frames = self._by_peer.get(peer)
        if frames is None:
            return 0
        # Frames leave in order.
        while frames and frames[0][0].done:
            self.bytes -= frames.popleft()[1]
        if not frames:
            del self._by_peer[peer]
        return sum([size for _, size in frames])
