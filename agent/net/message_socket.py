"""Messages over a DEALER: sent without waiting, received and decoded by the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import zmq

from agent.net.receive_backlog import ReceiveBacklog
from agent.net.router import MAX_PARTS, body
from agent.net.tcp_counters import TcpCounters
from agent.net.unsent import sent_bytes
from agent.wire.base import Message
from agent.wire.codec import Decoder, WireError, encode

T = TypeVar("T")

# Messages received from one socket before the others are served.
TURN = 64
# Messages discarded in a turn, after a flood.
DISCARDED_A_TURN = 1_000


class Loop(Protocol):
    """The part of the event loop (agent.runtime.reactor) that this package uses without importing
    it."""

    def listen(self, source: Any, turn: Callable[[], None], *, brief: bool = False) -> None:
        """Call `turn` whenever `source` is readable; a `brief` turn itself says when timers may
        have changed."""

    def ignore(self, source: Any) -> None:
        """Stop listening to `source`."""

    def add_timer(self, part: Any) -> None:
        """Call `part.tick` whenever it is due."""


class MessageSocket(Generic[T]):
    """Sends messages over a connected DEALER and calls `take(message)` for each that arrives.
    `malformed` is called for each frame that cannot be decoded, multipart ones included.

    If more messages wait than ReceiveBacklog allows, or one has more than MAX_PARTS parts, they are
    dropped with the connection, which is made anew, and `flooded` is called, by default
    `malformed`."""

    def __init__(
        self,
        loop: Loop,
        socket: zmq.Socket[bytes],
        decoder: Decoder[T],
        take: Callable[[T], object],
        malformed: Callable[[], object],
        *,
        flooded: Callable[[], object] | None = None,
        brief: bool = False,
    ) -> None:
        self.socket = socket
        self._loop = loop
        self._decoder = decoder
        self._take = take
        self._malformed = malformed
        self._flooded = flooded or malformed
        self._keyed = socket.getsockopt(zmq.MECHANISM) == zmq.CURVE
        self._backlog = ReceiveBacklog(int(socket.getsockopt(zmq.MAXMSGSIZE)))
        self._tcp = TcpCounters()
        # The address of a connection that was dropped and has messages left in the queue.
        self._dropped = ""
        # A message of too many parts has some left in the queue.
        self._in_message = False
        loop.listen(socket, self._turn, brief=brief)

    @property
    def connected(self) -> bool:
        """Whether the other end has accepted the connection and reads its queue."""
        return bool(self.socket.poll(0, zmq.POLLOUT))

    def send(self, message: Message) -> bool:
        """Send; False if the other end is not connected or does not read its queue."""
        try:
            self.socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Close the socket; `take` may do so, too."""
        self._loop.ignore(self.socket)
        self.socket.close()

    def _turn(self) -> None:
        if self._dropped:
            self._discard(self._dropped)
            return
        if self._in_message:
            self._skip_parts()
            return
        size, count, last = 0, 0, None
        for _ in range(TURN):
            if self.socket.closed:
                return
            if not (parts := self._receive()):
                self._settle(last, size)
                return
            first, last = parts[0], parts[-1]
            count += len(parts)
            size += sum([sent_bytes(len(part), keyed=self._keyed) for part in parts])
            if last.more:
                self._in_message = True
                self._malformed()
                return
            try:
                # A message of several parts is an empty one, which every decoder rejects.
                message, _codec = self._decoder.decode(body(first) if first is last else b"")
            except WireError:
                self._malformed()
                continue
            self._take(message)
        if not self.socket.closed:
            self._settle(last, size, count)

    def _receive(self) -> list[zmq.Frame]:
        """The parts of the next message, at most MAX_PARTS; none if no message waits."""
        try:
            parts = [self.socket.recv(zmq.NOBLOCK, copy=False)]
        except zmq.Again:
            return []
        while parts[-1].more and len(parts) < MAX_PARTS:
            parts.append(self.socket.recv(copy=False))
        return parts

    def _skip_parts(self) -> None:
        """Read on in a message of too many parts; drop the connection after the last. libzmq ends
        the process if a connection goes in the middle of a message."""
        for _ in range(DISCARDED_A_TURN):
            if not self.socket.recv(copy=False).more:
                self._in_message = False
                self._drop()
                return

    def _settle(self, last: zmq.Frame | None, size: int, more: int = 0) -> None:
        """Account for a turn's messages, `size` bytes together; drop the connection if too much
        waits. `more`: as many parts were taken, and others may wait."""
        if last is None:
            return
        try:
            fd = int(last.get(zmq.SRCFD))
        except zmq.ZMQError:  # from this process
            return
        backlog, now = self._backlog, time.monotonic()
        backlog.took(fd, size)
        if not more:
            if backlog.empty_is_due(now):
                backlog.emptied(self._tcp.read(fd), now)
        elif backlog.exceeds(self._tcp.read(fd), size, more):
            self._drop()

    def _drop(self) -> None:
        endpoint = bytes(self.socket.getsockopt(zmq.LAST_ENDPOINT))
        self._dropped = endpoint.decode().rstrip("\0")
        self.socket.disconnect(self._dropped)
        self._flooded()
        # Now, as a socket without messages has no turn.
        self._discard(self._dropped)

    def _discard(self, address: str) -> None:
        """Discard messages of the connection that was dropped; connect again after the last."""
        for _ in range(DISCARDED_A_TURN):
            try:
                self.socket.recv(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
        else:
            return
        self._dropped = ""
        with suppress(zmq.ZMQError):  # unless a KeyedLink dialled in the meantime
            self.socket.disconnect(address)
        self.socket.connect(address)
