"""Messages over a DEALER: sent without waiting, received and decoded by the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

import zmq

from agent.net.link_backlog import LinkBacklog
from agent.net.router import body
from agent.net.tcp_counters import TcpCounters
from agent.net.unsent import sent_bytes
from agent.wire.base import Message
from agent.wire.codec import Frame, WireError, encode
from agent.wire.config import ConfigError

T = TypeVar("T")
D_co = TypeVar("D_co", covariant=True)

# Messages received from one socket before the others are served, unless they took so long before.
TURN = 64
SLICE_S = 0.001
# Between two connections, if the other end makes this one drop them.
AGAIN_S = 1.0


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


class Decodes(Protocol[D_co]):
    """A `Decoder`, or what stands before one."""

    def decode(self, frame: Frame) -> tuple[D_co, bytes]:
        """The message in `frame` and its codec; WireError if it is none, or is not wanted."""


class MessageSocket(Generic[T]):
    """Sends messages over a connected DEALER and calls `take(message)` for each that arrives.
    `malformed` is called for each frame that cannot be decoded.

    If more messages wait than LinkBacklog allows, or one has several parts, they are dropped
    with the connection, which is made anew, and `flooded` is called, by default `malformed`."""

    def __init__(
        self,
        loop: Loop,
        connect: Callable[[], zmq.Socket[bytes]],
        decoder: Decodes[T],
        take: Callable[[T], object],
        malformed: Callable[[], object],
        *,
        flooded: Callable[[], object] | None = None,
        brief: bool = False,
    ) -> None:
        """Raises what `connect` does, which is called again for another connection."""
        self._loop = loop
        self._connect = connect
        self._decoder = decoder
        self._take = take
        self._malformed = malformed
        self._flooded = flooded or malformed
        self._brief = brief
        self._tcp = TcpCounters()
        self._ended = False
        self._open()

    def _open(self) -> None:
        self._again_s = time.monotonic() + AGAIN_S
        self.socket = self._connect()
        self._keyed = self.socket.getsockopt(zmq.MECHANISM) == zmq.CURVE
        self._backlog = LinkBacklog(self.socket, self._tcp)
        self._loop.listen(self.socket, self._turn, brief=self._brief)

    def _is_open(self) -> bool:
        """Whether there is a socket; one that was dropped is made anew if it is time."""
        if self.socket.closed and not self._ended and time.monotonic() >= self._again_s:
            with suppress(OSError, ConfigError):
                self._open()
        return not self.socket.closed

    @property
    def connected(self) -> bool:
        """Whether the other end has accepted the connection and reads its queue."""
        return self._is_open() and bool(self.socket.poll(0, zmq.POLLOUT))

    def send(self, message: Message) -> bool:
        """Send; False if the other end is not connected or does not read its queue."""
        try:
            self.send_frame(encode(message))
        except zmq.Again:
            return False
        return True

    def send_frame(
        self, frame: bytes, *, copy: bool = True, track: bool = False
    ) -> zmq.MessageTracker | None:
        """Send an encoded message, as pyzmq does; `zmq.Again` as above."""
        if not self._is_open():
            raise zmq.Again
        return self.socket.send(frame, zmq.NOBLOCK, copy=copy, track=track)

    def close(self) -> None:
        """Close the socket; `take` may do so, too."""
        self._ended = True
        self._drop()

    def _drop(self) -> None:
        if not self.socket.closed:
            self._loop.ignore(self.socket)
            self.socket.close()

    def _turn(self) -> None:
        size, last, began_s = 0, None, time.monotonic()
        for count in range(TURN):
            if self.socket.closed:
                return
            if count and time.monotonic() - began_s >= SLICE_S:
                self._settle(last, size, count, more=True)
                return
            if (frame := self._receive()) is None:
                self._settle(last, size, count, more=False)
                return
            if frame.more:
                # Not read on: libzmq aborts, or waits for ever, if the connection goes meanwhile.
                self._malformed()
                self._begin_anew()
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
            self._settle(last, size, TURN, more=True)

    def _receive(self) -> zmq.Frame | None:
        """The next message, or the first part of one; None if no message waits."""
        try:
            return self.socket.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return None

    def _settle(self, last: zmq.Frame | None, size: int, count: int, *, more: bool) -> None:
        """Account for a turn's `count` messages, `size` bytes together; begin anew if too much
        waits. `more`: others may wait."""
        if last is not None and self._backlog.exceeds(last, size, count, more=more):
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Drop the connection with what waits, and connect again: now, or by the first message that
        is sent later."""
        self._drop()
        self._flooded()
        self._is_open()
