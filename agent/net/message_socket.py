"""Messages over a DEALER: sent without waiting, received and decoded by the event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import zmq

from agent.wire.base import Message
from agent.wire.codec import Decoder, WireError, encode

T = TypeVar("T")

# Messages received from one socket before the others are served.
TURN = 64


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
    `malformed` is called for each frame that cannot be decoded, multipart ones included."""

    def __init__(
        self,
        loop: Loop,
        socket: zmq.Socket[bytes],
        decoder: Decoder[T],
        take: Callable[[T], object],
        malformed: Callable[[], object],
        *,
        brief: bool = False,
    ) -> None:
        self.socket = socket
        self._loop = loop
        self._decoder = decoder
        self._take = take
        self._malformed = malformed
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
        for _ in range(TURN):
            if self.socket.closed or (frame := self._receive()) is None:
                return
            try:
                message, _codec = self._decoder.decode(frame)
            except WireError:
                self._malformed()
                continue
            self._take(message)

    def _receive(self) -> bytes | None:
        """The next message; a multipart one is an empty frame, which every decoder rejects."""
        try:
            frame = self.socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        while self.socket.getsockopt(zmq.RCVMORE):
            self.socket.recv()
            frame = b""
        return frame
