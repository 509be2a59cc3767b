"""Requests of subscribers that wait for their turn."""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from agent.master.request_plane import Origin
from agent.wire.push import PushRequest

# Of all requests that wait.
MOST_BYTES: Final = 1 << 24
# Of one, besides its own size: where it came from, and its place in the queue.
OVERHEAD_BYTES: Final = 1_024
FULL: Final = "too many requests wait here; try again later"


class SubscriberQueue:
    """Bounded by bytes. Requests wait encoded: the parts of a filter take a dozen times the room
    when they are read."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Origin, bytes]] = deque()
        self._bytes = 0
        self._buffer = bytearray()
        self._encode = msgspec.msgpack.Encoder().encode_into
        self._decode = msgspec.msgpack.Decoder[PushRequest](PushRequest).decode

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, origin: Origin, request: PushRequest) -> str:
        """At the end, or why there is no room. O(size)."""
        # What `encode` returns holds half as much again.
        self._encode(request, self._buffer)
        encoded = bytes(self._buffer)
        charge = OVERHEAD_BYTES + len(encoded)
        if self._bytes + charge > MOST_BYTES:
            return FULL
        self._bytes += charge
        self._waiting.append((origin, encoded))
        return ""

    def pop(self) -> tuple[Origin, PushRequest]:
        """The next one; IndexError if there is none. O(size)."""
        origin, encoded = self._waiting.popleft()
        self._bytes -= OVERHEAD_BYTES + len(encoded)
        return origin, self._decode(encoded)
