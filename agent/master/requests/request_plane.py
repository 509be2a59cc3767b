"""Request server: decodes requests from a socket, dispatches them by type, and sends the
replies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from msgspec import Struct

from agent.master.requests.reply_writer import ReplyWriter
from agent.net.router import REVOKED, Router
from agent.net.unsent import MAX_A_PEER, MAX_BYTES
from agent.runtime.reactor import Reactor
from agent.scheduling.shared_budget import payer_of
from agent.wire.base import Message
from agent.wire.codec import NO_BULK, Decoder, Frame, WireError, encode
from agent.wire.messages import Answer, Refusal, TaskResult
from agent.wire.principals import Role, Sender

# Principals whose requests are all small.
SMALL_SENDERS: Final = frozenset[Role]({"client", "node"})
UNREAD = (
    "the answer was dropped, as too much waits to be read: more than "
    f"{MAX_A_PEER >> 20} MiB by you, or {MAX_BYTES >> 20} MiB by all clients"
)


class RequestOrigin(Struct, frozen=True):
    """The origin of a request, and the codec of its reply."""

    identity: bytes
    codec: bytes
    sender: Sender


Handler = Callable[[RequestOrigin, Any, float], None]
# (id of the request if seen, reason, line) → the reply that says so.
Refuse = Callable[[str, Refusal, str], Message]


class RequestPlane:
    """Decodes requests and dispatches them by type; each kind in `union` must have its handler
    before the reactor serves."""

    # Encoder of large replies, if not the loop itself.
    writer: ReplyWriter | None = None

    def __init__(
        self,
        reactor: Reactor,
        router: Router,
        union: object,
        refuse: Refuse,
        *,
        bulk: Mapping[tuple[bytes, str], int] = NO_BULK,
    ) -> None:
        """`bulk`, as in `Decoder`: messages that only other masters and operators may send, where
        there are keys."""
        self._reactor = reactor
        self._router = router
        self._decoder: Decoder[Any] = Decoder(union, bounded=True, bulk=bulk)
        self._refuse = refuse
        self._handlers: dict[type, Handler] = {}
        self.malformed = 0
        router.refuse = self._revoked
        reactor.listen(router.socket, self._turn, brief=True)

    @property
    def dropped(self) -> int:
        """Replies that their receivers did not read."""
        return self._router.dropped

    def takes(self, kind: type, handler: Handler, *, brief: bool = False) -> None:
        """Register `handler(origin, request, now)` for requests of this kind; `brief` as in
        `Reactor.listen`."""
        self._handlers[kind] = handler if brief else self._reactor.changing(handler)

    def reply(self, origin: RequestOrigin, message: Message) -> bool:
        """Send `message` back. True: it was dropped, as the connection was found to be gone, or its
        sender may not have it any more."""
        owner = self._router.owner(origin.identity, origin.sender)
        pushed = not isinstance(message, Answer | TaskResult)
        if owner is None or (pushed and owner.services != origin.sender.services):
            self._router.dropped += 1
            if isinstance(message, Answer | TaskResult):
                self.refuse(origin.identity, origin.codec, message.id, "not_authorised", REVOKED)
            return True
        payer = payer_of(origin.sender)
        if self.writer is not None and self.writer.takes(
            origin.identity, origin.codec, message, payer
        ):
            return False
        gone = self._router.gone
        self.send(origin.identity, origin.codec, message, encode(message, origin.codec), payer)
        return self._router.gone > gone

    def send(
        self,
        identity: bytes,
        codec: bytes,
        message: Message,
        frame: bytes | bytearray,
        payer: Hashable,
    ) -> None:
        """Send the frame of `message`; while it is not read it counts for `payer`. A client that
        leaves too much unread is told so in its place, if it is a result that it waits for."""
        sent = self._router.send(identity, frame, payer)
        if not sent and isinstance(message, Answer | TaskResult):
            self.refuse(identity, codec, message.id, "overloaded", UNREAD)

    def refuse(
        self, identity: bytes, codec: bytes, sender_id: str, reason: Refusal, line: str
    ) -> None:
        """Answer that a request is refused, and why."""
        self._router.send(identity, encode(self._refuse(sender_id, reason, line), codec))

    def _turn(self) -> None:
        if (received := self._router.receive()) is not None:
            self._take(*received, self._router.sender(received[0]))

    def _take(self, identity: bytes, frame: Frame, sender: Sender) -> None:
        now = self._reactor.clock()
        try:
            request, codec = self._decoder.decode(frame, bulk=sender.role not in SMALL_SENDERS)
        except WireError as error:
            self.malformed += 1
            self.refuse(identity, error.codec, error.sender_id, "malformed", str(error))
            return
        origin = RequestOrigin(identity, codec, sender)
        self._handlers[type(request)](origin, request, now)

    def _revoked(self, identity: bytes, frame: Frame) -> None:
        try:
            request, codec = self._decoder.decode(frame, bulk=False)
            sender_id = getattr(request, "id", "")
        except WireError as error:
            sender_id, codec = error.sender_id, error.codec
        self.refuse(identity, codec, sender_id, "not_authorised", REVOKED)
