"""Send buffers: counts the bytes that a socket holds for peers that do not read them.

libzmq bounds its queues in messages, but an answer may have a hundred megabytes. Large frames are
handed over without a copy, and libzmq reports when it releases one, so the bytes held are known
exactly (`Unsent`), and a sender that leaves too many unread is refused. Small frames are copied,
and nothing is reported; the bytes of them that libzmq holds follow from those that the kernel took
(`SmallUnsent`), and the intake guard closes a connection that leaves too many unread.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Final

import zmq

# Smaller frames are copied by pyzmq; libzmq queues at most 1,000 per peer, which may be 64 MB.
LARGE: Final = 1 << 16
MAX_A_PEER: Final = 1 << 26
MAX_BYTES: Final = 1 << 28
# What ZMTP adds to a frame: flags and a size of one byte, or of eight from 256 bytes on; with keys
# a command's name, a nonce, an authenticator and the inner flags, too.
SHORT_HEADER, LONG_HEADER, SHORT_BYTES = 2, 9, 255
KEYED_BYTES: Final = 33


def sent_bytes(size: int, *, keyed: bool) -> int:
    """Bytes that a frame of this size has on a connection."""
    size += KEYED_BYTES if keyed else 0
    return size + (SHORT_HEADER if size <= SHORT_BYTES else LONG_HEADER)


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


class _Stream:
    """Bytes handed to libzmq for one connection, as positions in its stream of bytes. Frames
    leave in their order, so what the kernel has taken tells which libzmq still holds. One thread
    hands over, another asks."""

    __slots__ = ("_lead", "_seen", "fd", "handed", "key", "large")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.key = ""
        self.handed = 0
        self.large: deque[tuple[int, int]] = deque()  # begin and end of each
        # Bytes that the kernel took and nobody handed over: a handshake, replies to heartbeats.
        self._lead = 0
        self._seen = -1

    def small_bytes(self, written: int, *, empty: bool) -> int:
        """Bytes of small frames that libzmq holds, if the kernel has taken `written` bytes.
        `empty`: it has passed them all on. If nothing was handed over since the last call either,
        then libzmq holds nothing, and the rest is overhead."""
        handed = self.handed
        if empty and handed == self._seen:
            self._lead = written - handed
        self._seen = handed
        position = written - self._lead
        while self.large and self.large[0][1] <= position:
            self.large.popleft()
        large = sum(end - max(begin, position) for begin, end in list(self.large))
        return max(0, handed - position - large)


class SmallUnsent:
    """Bytes of small frames that a socket holds, by connection (its descriptor). The socket's
    thread tells who speaks on which connection and what is sent; the intake guard asks. O(1), but
    for the large frames that wait on a connection."""

    def __init__(self) -> None:
        self._streams: dict[bytes, _Stream] = {}
        self._identities: dict[int, bytes] = {}

    def heard(self, identity: bytes, fd: int) -> None:
        """A message of this peer came on this connection."""
        known = self._streams.get(identity)
        if known is None or known.fd != fd:
            self.closed(fd)
            self._streams[identity] = _Stream(fd)
            self._identities[fd] = identity

    def came_with(self, identity: bytes, key: str) -> None:
        """The public key with which this peer's connection was made."""
        if (stream := self._streams.get(identity)) is not None:
            stream.key = key

    def key_of(self, identity: bytes) -> str:
        """The public key of this peer's connection; empty if none is known."""
        stream = self._streams.get(identity)
        return "" if stream is None else stream.key

    def sent(self, identity: bytes, size: int, *, keyed: bool, large: bool = False) -> None:
        """A frame was handed to libzmq."""
        stream = self._streams.get(identity)
        if stream is None:
            return
        begin = stream.handed
        end = begin + sent_bytes(size, keyed=keyed)
        if large:
            stream.large.append((begin, end))
        stream.handed = end

    def closed(self, fd: int) -> None:
        """A connection was closed, or its descriptor belongs to another one now."""
        identity = self._identities.pop(fd, None)
        if identity is None:
            return
        stream = self._streams.get(identity)
        if stream is not None and stream.fd == fd:
            self._streams.pop(identity, None)

    def identity(self, fd: int) -> bytes | None:
        """The peer that spoke on this connection."""
        return self._identities.get(fd)

    def held(self, fd: int, written: int, *, empty: bool) -> int:
        """Bytes held for a connection, of which the kernel took `written`; `empty` as for a
        stream."""
        stream = self._streams.get(self._identities.get(fd, b""))
        if stream is None or stream.fd != fd:
            return 0
        return stream.small_bytes(written, empty=empty)
