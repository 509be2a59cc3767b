"""The operator's socket: state, policy, services of this IAD, for its own operator only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.board import Board
from agent.master.public_plane import Origin
from agent.sockets.router import REVOKED, Router
from agent.wire.base import Message
from agent.wire.codec import Decoder, WireError, encode
from agent.wire.operator import OperatorError
from agent.wire.unions import OperatorRequest

Handler = Callable[[Origin, Any, float], None]


class OperatorPlane:
    """Decodes what the operator sends and hands it on by its type."""

    def __init__(self, board: Board, router: Router) -> None:
        self._board = board
        self._router = router
        self._decoder: Decoder[OperatorRequest] = Decoder(OperatorRequest)
        self._handlers: dict[type, Handler] = {}
        router.refuse = self._refuse
        board.listen(router.socket, self._turn)

    def takes(self, kind: type, handler: Handler) -> None:
        """`handler(origin, request, now)` takes requests of this kind."""
        self._handlers[kind] = handler

    def reply(self, origin: Origin, message: Message) -> None:
        """Send `message` back."""
        self._router.send(origin.identity, encode(message, origin.codec))

    def _turn(self) -> None:
        received = self._router.receive()
        if received is None:
            return
        identity, frame = received
        try:
            request, codec = self._decoder.decode(frame)
        except WireError as error:
            self._router.send(identity, encode(OperatorError(str(error)), error.codec))
            return
        origin = Origin(identity, codec, self._router.sender(identity))
        handler = self._handlers.get(type(request))
        if handler is None:
            self.reply(origin, OperatorError("this master has no market; set market.directories"))
        else:
            handler(origin, request, self._board.clock())

    def _refuse(self, identity: bytes, _frame: bytes) -> None:
        self._router.send(identity, encode(OperatorError(REVOKED)))
