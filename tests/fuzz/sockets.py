"""What stands in place of sockets: frames go in by hand, and what is sent is kept. A master that is
opened without sockets and threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import zmq
from msgspec import Struct

from agent.master import master as masters
from agent.net.message_socket import MessageSocket
from agent.net.secure_sockets import SecureSockets
from agent.net.unsent import Unsent
from agent.wire import node_messages as nm
from agent.wire import unions as u
from agent.wire.codec import MAX_RESULT_BYTES, Decoder
from agent.wire.master_config import MasterConfig
from agent.wire.principals import Sender
from tests.fuzz.disk import Disk
from tests.fuzz.frames import Heard

PUBLIC: Final = Decoder[Any](u.PublicReply, MAX_RESULT_BYTES)
OPERATOR: Final = Decoder[Any](u.OperatorReply, MAX_RESULT_BYTES)
KEPT: Final = 4_096  # of what was sent, if nobody takes it
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
        del self.sent[:-KEPT]
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


class Driven(Struct):
    """A master whose sockets and disk are these, and whose turns come by hand."""

    master: masters.Master
    public: Router
    nodes: Router
    operator: Router
    disk: Disk

    def _works(self) -> bool:
        """Whether a worker has yet to answer: with all their answers here, a seed gives the same
        again."""
        workers = self.master._processors._processing._workers.values()
        return any(each.state in ("starting", "busy", "ending") for each in workers)

    def turn(self, now: float) -> None:
        """What is readable is read, and what is due is done."""
        self.disk.work()
        reactor = self.master._reactor
        for _ in range(64):
            for source, _ in reactor._poller.poll(200 if self._works() else 0):
                if source in reactor._turns:
                    reactor._turns[source]()
            if not self._works():
                break
        reactor.changed()
        if now >= reactor._next_due():
            reactor._tick(now)


def open_master(
    config: MasterConfig,
    folder: Path,
    run: str,
    clock: Callable[[], float],
    said: Callable[[str], None],
) -> Driven:
    """A master with `Router` in place of its sockets, which tells its operator by `said`."""
    disk = Disk(clock)
    with (
        mock.patch.object(masters, "DiskWriterThread", return_value=disk),
        mock.patch.object(masters, "SecureSockets", Nowhere),
        mock.patch.object(masters, "operator_log", return_value=said),
    ):
        master = masters.Master(config, folder, run=run, clock=clock)
    driven = Driven(master, Router(), Router(), Router(), disk)
    master._public._router = master._public.turns._router = driven.public  # type: ignore[assignment]
    master._operator._router = driven.operator  # type: ignore[assignment]
    master._task_plane._nodes = driven.nodes  # type: ignore[assignment]
    return driven
