"""A socket that takes requests: each goes to the plane that takes its kind, replies go back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from agent.board import Board
from agent.master.reply_writer import ReplyWriter
from agent.sockets.router import REVOKED, Router
from agent.sockets.unsent import MOST, MOST_A_PEER
from agent.wire.base import Message
from agent.wire.codec import Decoder, WireError, encode
from agent.wire.messages import Answer, Refusal, TaskResult
from agent.wire.senders import Sender

UNREAD = (
    f"there is an answer, and too much waits for you to read it: {MOST_A_PEER >> 20} MiB here, or"
    f" {MOST >> 20} MiB for all clients"
)


class Origin(Struct, frozen=True):
    """Where a request came from, and in which codec the reply goes back."""

    identity: bytes
    codec: bytes
    sender: Sender


Handler = Callable[[Origin, Any, float], None]
# (id of the request if seen, reason, line) → the reply that says so.
Refuse = Callable[[str, Refusal, str], Message]


class RequestPlane:
    """Decodes what arrives and hands it on by its type; each kind in `union` has its handler
    before the board serves."""

    # Who writes large replies, if not the loop itself.
    writer: ReplyWriter | None = None

    def __init__(
        self, board: Board, router: Router, union: object, refuse: Refuse, *, most: int = 1
    ) -> None:
        """At most so many requests are taken in one turn."""
        self._board = board
        self._router = router
        self._decoder: Decoder[Any] = Decoder(union)
        self._refuse = refuse
        self._most = most
        self._handlers: dict[type, Handler] = {}
        self.malformed = 0
        router.refuse = self._revoked
        board.listen(router.socket, self._turn)

    @property
    def dropped(self) -> int:
        """Replies that their receivers did not read."""
        return self._router.dropped

    def takes(self, kind: type, handler: Handler) -> None:
        """`handler(origin, request, now)` takes requests of this kind."""
        self._handlers[kind] = handler

    def reply(self, origin: Origin, message: Message) -> None:
        """Send `message` back."""
        if self.writer is not None and self.writer.takes(origin.identity, origin.codec, message):
            return
        self.send(origin.identity, origin.codec, message, encode(message, origin.codec))

    def send(
        self, identity: bytes, codec: bytes, message: Message, frame: bytes | bytearray
    ) -> None:
        """Send the frame of `message`. A client that leaves too much unread is told so in its
        place, if it is a result that it waits for."""
        if not self._router.send(identity, frame) and isinstance(message, Answer | TaskResult):
            refusal = self._refuse(message.id, "overloaded", UNREAD)
            self._router.send(identity, encode(refusal, codec))

    def _turn(self) -> None:
        for _ in range(self._most):
            if (received := self._router.receive()) is None:
                return
            self._take(*received)

    def _take(self, identity: bytes, frame: bytes) -> None:
        now = self._board.clock()
        try:
            request, codec = self._decoder.decode(frame)
        except WireError as error:
            self.malformed += 1
            refusal = self._refuse(error.sender_id, "malformed", str(error))
            self._router.send(identity, encode(refusal, error.codec))
            return
        origin = Origin(identity, codec, self._router.sender(identity))
        self._handlers[type(request)](origin, request, now)

    def _revoked(self, identity: bytes, frame: bytes) -> None:
        try:
            request, codec = self._decoder.decode(frame)
            sender_id = getattr(request, "id", "")
        except WireError as error:
            sender_id, codec = error.sender_id, error.codec
        refusal = self._refuse(sender_id, "not_authorised", REVOKED)
        self._router.send(identity, encode(refusal, codec))
