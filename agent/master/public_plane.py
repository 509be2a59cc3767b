"""The public socket: requests of clients and of other masters, each to the plane that takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from agent.board import Board
from agent.sockets.router import REVOKED, Router
from agent.wire.base import Message
from agent.wire.codec import Decoder, WireError, encode
from agent.wire.messages import Answer, Coverage, Refusal
from agent.wire.senders import Sender
from agent.wire.unions import PublicRequest


class Origin(Struct, frozen=True):
    """Where a request came from, and in which codec the reply goes back."""

    identity: bytes
    codec: bytes
    sender: Sender


Handler = Callable[[Origin, Any, float], None]


class PublicPlane:
    """Decodes what arrives and hands it on by its type."""

    def __init__(self, board: Board, router: Router) -> None:
        self._board = board
        self._router = router
        self._decoder: Decoder[PublicRequest] = Decoder(PublicRequest)
        self._handlers: dict[type, Handler] = {}
        self.malformed = 0
        router.refuse = self._refuse
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
        self._router.send(origin.identity, encode(message, origin.codec))

    def _turn(self) -> None:
        # One request a turn: polling again costs no more than finding the socket empty.
        received = self._router.receive()
        if received is None:
            return
        identity, frame = received
        now = self._board.clock()
        try:
            request, codec = self._decoder.decode(frame)
        except WireError as error:
            self.malformed += 1
            self._router.send(identity, malformed_answer(error))
            return
        handler = self._handlers.get(type(request))
        if handler is None:
            text = f"this master takes no {type(request).__struct_config__.tag}"
            self._router.send(identity, malformed_answer(WireError(text, codec, request.id)))
            return
        handler(Origin(identity, codec, self._router.sender(identity)), request, now)

    def _refuse(self, identity: bytes, frame: bytes) -> None:
        try:
            request, codec = self._decoder.decode(frame)
            sender_id = request.id
        except WireError as error:
            sender_id, codec = error.sender_id, error.codec
        self._router.send(identity, _refusal(sender_id, "not_authorised", REVOKED, codec))


def malformed_answer(error: WireError) -> bytes:
    """The one line for the sender of a frame that could not be read."""
    return _refusal(error.sender_id, "malformed", str(error), error.codec)


def _refusal(sender_id: str, reason: Refusal, message: str, codec: bytes) -> bytes:
    answer = Answer(
        id=sender_id,
        status="refused",
        elapsed_ms=0.0,
        slo_met=False,
        coverage=Coverage(0, 0),
        reason=reason,
        message=message,
    )
    return encode(answer, codec)
