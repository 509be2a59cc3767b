"""Fair queue of subscribers' requests, bounded by bytes."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from agent.master.requests.request_plane import RequestOrigin
from agent.overlay.round_robin_queue import Flow, RoundRobinQueue
from agent.wire.principals import Sender
from agent.wire.push import PushRequest

# Limit on all requests that wait.
MAX_BYTES: Final = 1 << 25
# Limit per client: a hundred subscriptions with the largest filters.
MAX_BYTES_OF_ONE: Final = 1 << 20
# Overhead of one, besides its own size: its origin, and its place in the queue.
OVERHEAD_BYTES: Final = 2_048
TOO_MANY: Final = "too many of your requests wait; send more when these are answered"
FULL: Final = "too many requests wait here; try again later"


class SubscriberQueue:
    """Clients are served round-robin, and so are a client's connections, so that no client waits
    for all requests of another. Without keys each connection is a client. Each connection is first
    in, first out.

    Bounded by bytes. Requests wait encoded: a decoded filter takes a dozen times the room.
    """

    def __init__(self) -> None:
        self._waiting: RoundRobinQueue[tuple[RequestOrigin, bytes]] = RoundRobinQueue()
        self._bytes = 0
        self._bytes_of: Counter[tuple[str, str]] = Counter()
        self._buffer = bytearray()
        self._encode = msgspec.msgpack.Encoder().encode_into
        self._decode = msgspec.msgpack.Decoder[PushRequest](PushRequest).decode

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, origin: RequestOrigin, request: PushRequest) -> str:
        """Append to the connection's queue; returns the reason if there is no room. O(size)."""
        # The buffer that `encode` returns is half as large again.
        self._encode(request, self._buffer)
        charge = OVERHEAD_BYTES + len(self._buffer)
        who = _who(origin.sender)
        if self._bytes_of[who] + charge > MAX_BYTES_OF_ONE:
            return TOO_MANY
        if self._bytes + charge > MAX_BYTES:
            return FULL
        self._bytes += charge
        self._bytes_of[who] += charge
        self._waiting.put(Flow(who, origin.identity, kept=False), (origin, bytes(self._buffer)))
        return ""

    def pop(self) -> tuple[RequestOrigin, PushRequest]:
        """The next request; IndexError if there is none. O(size)."""
        origin, encoded = self._waiting.pop()
        charge = OVERHEAD_BYTES + len(encoded)
        who = _who(origin.sender)
        self._bytes -= charge
        self._bytes_of[who] -= charge
        if not self._bytes_of[who]:
            del self._bytes_of[who]
        return origin, self._decode(encoded)


def _who(sender: Sender) -> tuple[str, str]:
    return sender.role, sender.name
