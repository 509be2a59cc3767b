"""What stands in place of sockets: frames go in by hand, and what is sent is kept."""

from __future__ import annotations

from typing import Any, Final

import zmq

from agent.net.message_socket import MessageSocket
from agent.net.secure_sockets import SecureSockets
from agent.net.unsent import Unsent
from agent.wire import node_messages as nm
from agent.wire import unions as u
from agent.wire.codec import MAX_RESULT_BYTES, Decoder
from agent.wire.principals import Sender
from tests.fuzz.frames import Heard

PUBLIC: Final = Decoder[Any](u.PublicReply, MAX_RESULT_BYTES)
OPERATOR: Final = Decoder[Any](u.OperatorReply, MAX_RESULT_BYTES)
NODES: Final = Decoder[Any](nm.MasterMessage)


class Router:
    """In place of a socket: one frame comes in, and replies are kept."""

    def __init__(self) -> None:
        self.unsent = Unsent()
        self.dropped = self.gone = 0
        self.refuse = self.on_gone = None
        self.socket = self
        self.empty = True
        self.address = ""
        self.from_ = Sender("anyone", "")
        self.waiting: tuple[bytes, bytes] | None = None
        self.sent: list[tuple[bytes, bytes]] = []
        self.heard: dict[bytes, Heard] = {}

    def hears(self, identity: bytes) -> Heard:
        """What is sent to that end."""
        return self.heard.setdefault(identity, Heard())

    def receive(self) -> tuple[bytes, bytes] | None:
        """The frame that waits."""
        found, self.waiting = self.waiting, None
        return found

    def sender(self, _identity: bytes) -> Sender:
        """Whose frame it was."""
        return self.from_

    def owner(self, _identity: bytes, before: Sender) -> Sender:
        """No key is revoked."""
        return before

    def send(self, identity: bytes, payload: bytes | bytearray, payer: object = None) -> bool:
        """Keep a reply."""
        self.sent.append((identity, bytes(payload)))
        del self.sent[:-64]
        self.hears(identity).take(bytes(payload))
        return True


class Nowhere(SecureSockets):
    """Whatever address somebody names, nobody is there."""

    def dealer(self, address: str, max_bytes: int, *_: Any, **__: Any) -> Any:
        """A socket that nobody has bound."""
        super().dealer(address, max_bytes).close(0)
        return super().dealer(f"ipc://{self._folder}/none", max_bytes)


def hear(socket: MessageSocket[Any], frame: bytes) -> None:
    """Let a frame arrive at a DEALER."""
    waiting = [zmq.Frame(frame)]
    socket._receive = lambda: waiting.pop() if waiting else None  # type: ignore[method-assign]
    socket._turn()
