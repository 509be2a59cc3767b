"""Messages over a DEALER: sent without waiting, received and decoded by the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import zmq

from agent.net.receive_backlog import ReceiveBacklog
from agent.net.router import body
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

    If more messages wait than ReceiveBacklog allows, they are dropped with the connection, which is
    made anew, and `flooded` is called, by default `malformed`."""

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
        size, last = 0, None
        for _ in range(TURN):
            if self.socket.closed:
                return
            if (frame := self._receive()) is None:
                self._settle(last, size)
                return
            last = frame
            size += sent_bytes(len(frame), keyed=self._keyed)
            try:
                message, _codec = self._decoder.decode(body(frame))
            except WireError:
                self._malformed()
                continue
            self._take(message)
        if not self.socket.closed:
            self._settle(last, size, TURN)

    def _receive(self) -> zmq.Frame | None:
        """The next message; a multipart one is an empty frame, which every decoder rejects."""
        try:
            frame = self.socket.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None
        if not frame.more:
            return frame
        while self.socket.recv(copy=False).more:
            pass
        return zmq.Frame()

    def _settle(self, last: zmq.Frame | None, size: int, more: int = 0) -> None:
        """Account for a turn's messages, `size` bytes together; drop the connection if too much
        waits. `more`: as many messages were taken, and others may wait."""
        try:
            fd = int(last.get(zmq.SRCFD)) if last is not None else -1
        except zmq.ZMQError:  # of many parts, or from this process
            return
        if fd == -1:
            return
        backlog, now = self._backlog, time.monotonic()
        backlog.took(fd, size)
        if not more:
            if backlog.empty_is_due(now):
                backlog.emptied(self._tcp.read(fd), now)
        elif backlog.exceeds(self._tcp.read(fd), size, more):
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
