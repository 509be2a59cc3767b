"""Links to other masters: one DEALER each, opened and closed while the master runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import zmq
from msgspec import Struct

from agent.board import Board
from agent.sockets.allow_list import Party
from agent.sockets.guard import Guard
from agent.wire.base import Message
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, WireError, encode
from agent.wire.senders import Sender
from agent.wire.unions import PeerReply

# Messages taken from one socket before the others get their turn.
TURN = 64


class _Link(Struct):
    address: str
    keys: tuple[str, ...] | str
    socket: zmq.Socket[bytes]


Handler = Callable[[str, Any, float], None]


class Peers:
    """Other masters by the name of their IAD: the market's, once
    connected to, may connect here too."""

    def __init__(self, board: Board, guard: Guard) -> None:
        self._board = board
        self._guard = guard
        self._decoder: Decoder[PeerReply] = Decoder(PeerReply, MAX_RESULT_BYTES)
        self._links: dict[str, _Link] = {}
        self._handlers: dict[type, Handler] = {}
        self.malformed = 0

    def connect(self, iad: str, address: str, keys: Sequence[str] | str = ()) -> None:
        """Have a link to that IAD's master; an existing one is replaced if address or keys differ.

        `keys` are its public keys, or a file with them. OSError if the address is none, or would
        be reached without keys; ConfigError for the file.
        """
        link = self._links.get(iad)
        keys = keys if isinstance(keys, str) else tuple(keys)
        if link is not None:
            if (link.address, link.keys) == (address, keys):
                return
            self.drop(iad)
        socket = self._guard.dealer(address, MAX_RESULT_BYTES, keys)
        self._links[iad] = _Link(address, keys, socket)
        self._board.listen(socket, partial(self._turn, iad, socket))
        self._tell_guard()

    def drop(self, iad: str) -> None:
        """Close the link, if there is one."""
        link = self._links.pop(iad, None)
        if link is not None:
            self._board.ignore(link.socket)
            link.socket.close()
            self._tell_guard()

    def _tell_guard(self) -> None:
        # A file's are named by the operator, who names them in the allow-list too.
        self._guard.set_parties(
            "peers",
            [
                Party(Sender("iad", iad), link.keys)
                for iad, link in self._links.items()
                if not isinstance(link.keys, str)
            ],
        )

    def takes(self, kind: type, handler: Handler) -> None:
        """`handler(iad, reply, now)` takes replies of this kind."""
        self._handlers[kind] = handler

    def send(self, iad: str, message: Message) -> bool:
        """Send; False if there is no link, or nobody at its other end."""
        link = self._links.get(iad)
        if link is None:
            return False
        try:
            link.socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    @property
    def iads(self) -> tuple[str, ...]:
        """The IADs to which there is a link."""
        return tuple(self._links)

    @property
    def unreachable(self) -> tuple[str, ...]:
        """The IADs whose master is not at the other end of its link."""
        return tuple(
            iad for iad, link in self._links.items() if not link.socket.poll(0, zmq.POLLOUT)
        )

    def _turn(self, iad: str, socket: zmq.Socket[bytes]) -> None:
        for _ in range(TURN):
            if socket.closed:
                return
            try:
                frame = socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            while socket.getsockopt(zmq.RCVMORE):
                socket.recv()
                frame = b""
            try:
                reply, _codec = self._decoder.decode(frame)
            except WireError:
                self.malformed += 1
                continue
            if (handler := self._handlers.get(type(reply))) is not None:
                handler(iad, reply, self._board.clock())
