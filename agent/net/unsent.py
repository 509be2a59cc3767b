"""Send buffers: counts the bytes that a socket holds for peers that do not read them.

libzmq bounds its queues in messages, but an answer may have a hundred megabytes. Large frames are
handed over without a copy, and libzmq reports when it releases one, so the bytes held are known
exactly. Small frames are bounded by their number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Final

import zmq

# Smaller frames are copied by pyzmq and not counted; libzmq queues at most 1,000 per peer.
LARGE: Final = 1 << 16
MAX_A_PEER: Final = 1 << 26
MAX_BYTES: Final = 1 << 28


class _Frames:
    """The frames that wait for one peer, in the order of sending."""

    __slots__ = ("bytes", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[zmq.MessageTracker, int, Hashable]] = deque()
        self.bytes = 0


class Unsent:
    """Large frames that are queued for sending, by peer. `tell(payer, bytes)`, if set, is called
    when a frame is queued, and with negative bytes when libzmq has released it."""

    __slots__ = ("_by_payer", "_by_peer", "_most", "_most_a_peer", "bytes", "tell")

    def __init__(self, most_a_peer: int = MAX_A_PEER, most: int = MAX_BYTES) -> None:
        self._most_a_peer = most_a_peer
        self._most = most
        self._by_peer: dict[Hashable, _Frames] = {}
        self._by_payer: Counter[Hashable] = Counter()
        self.bytes = 0
        self.tell: Callable[[Hashable, int], object] | None = None

    def has_room(self, peer: Hashable, size: int) -> bool:
        """Whether `size` more bytes may wait for `peer`. A frame of any size may, if no other large
        frame waits. O(frames released since the last call), and O(peers) if the total is used
        up."""
        waiting = self._waiting(peer)
        if waiting and waiting + size > self._most_a_peer:
            return False
        if self.bytes and self.bytes + size > self._most:
            self.collect()
        return not self.bytes or self.bytes + size <= self._most

    def has_share(self, payer: Hashable, size: int) -> bool:
        """Whether so much more may wait for all peers of `payer`: as much as is left free, so that
        one that reads nothing leaves room for others. Who has nothing waiting may have a frame of
        any size. O(peers) if not."""
        if self._shares(payer, size):
            return True
        self.collect()
        return self._shares(payer, size)

    def _shares(self, payer: Hashable, size: int) -> bool:
        held = self._by_payer[payer]
        return not held or held + size <= self._most - self.bytes - size

    def collect(self) -> None:
        """Count the frames that libzmq has released. O(peers + released frames)."""
        for peer in list(self._by_peer):
            self._waiting(peer)

    def add(
        self, peer: Hashable, tracker: zmq.MessageTracker, size: int, payer: Hashable = None
    ) -> None:
        """A frame was handed to the socket."""
        frames = self._by_peer.setdefault(peer, _Frames())
        frames.waiting.append((tracker, size, payer))
        frames.bytes += size
        self._count(payer, size)

    def _waiting(self, peer: Hashable) -> int:
        frames = self._by_peer.get(peer)
        if frames is None:
            return 0
        waiting = frames.waiting
        while waiting and waiting[0][0].done:
            _, size, payer = waiting.popleft()
            frames.bytes -= size
            self._count(payer, -size)
        if not waiting:
            del self._by_peer[peer]
        return frames.bytes

    def _count(self, payer: Hashable, size: int) -> None:
        self.bytes += size
        self._by_payer[payer] += size
        if not self._by_payer[payer]:
            del self._by_payer[payer]
        if self.tell is not None:
            self.tell(payer, size)
