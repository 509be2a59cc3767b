"""A master in this process, driven by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import msgspec

from agent.master.requests.peers import Peers
from agent.net.message_socket import MessageSocket
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire import unions as u
from agent.wire.base import Message
from agent.wire.codec import Decoder, WireError, encode
from agent.wire.master_config import MasterConfig
from agent.wire.overlay_links import OverlayFrame, OverlayHello
from agent.wire.principals import Sender
from tests.fuzz.frames import Heard
from tests.fuzz.sockets import NODES, OPERATOR, PUBLIC, hear, open_master

IADS: Final = ("iad1", "iad2", "iad3")
CONFIG: Final = """
[iad]
name = "iad1"
[sockets]
public = "ipc://{folder}/public"
nodes = "ipc://{folder}/nodes"
operator = "ipc://{folder}/operator"
[records]
directory = "records"
rotate_bytes = 1_000_000
keep_files = 2
[state]
path = ""
[market]
directories = ["ipc://{folder}/drs"]
[[offers]]
capability = "temperature"
areas = ["b1"]
[overlay]
vertex = "v1"
links = [["v1", "v2"]]
clusters = 2
[[overlay.neighbour]]
iad = "iad2"
vertex = "v2"
cluster = 0
address = "ipc://{folder}/none"
[[overlay.neighbour]]
iad = "iad3"
vertex = "v1"
cluster = 1
address = "ipc://{folder}/none"
"""
MEMBER: Final = '[[pool]]\niad = "{}"\naddress = "ipc://{}/none"\nareas = ["{}"]\n'
HONEST: Final = Sender("client", "honest")
TURN_S: Final = 0.01  # of the target's clock, for each frame
EACH: Final = 16  # frames between two turns of the timers and of what else is readable
NEIGHBOUR: Final = Decoder[Any](u.PublicRequest)


class MasterTargets:
    """A master with an overlay, a pool, a market and nodes; its clock stands between frames."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000.0
        self.lines: list[str] = []
        pool = "".join(MEMBER.format(iad, folder, f"b{n}") for n, iad in enumerate(IADS, 1))
        text = CONFIG.format(folder=folder).replace("[[offers]]", pool + "[[offers]]", 1)
        config = msgspec.toml.decode(text, type=MasterConfig)
        # What goes to other masters and to the registration service arrives, as far as it knows.
        self.heard = Heard()
        self._connected = (
            mock.patch.object(MessageSocket, "connected", True),
            mock.patch.object(MessageSocket, "send_frame", self._sent),
        )
        for each in self._connected:
            each.start()
        self._driven = open_master(config, folder, "fuzz", lambda: self.now, self._said)
        self.master, self.public = self._driven.master, self._driven.public
        self.nodes, self.operator = self._driven.nodes, self._driven.operator
        self.links = self.master._push._links
        self.live: list[Any] = []
        self.frames = 0

    def _sent(self, frame: bytes, *, copy: bool = True, track: bool = False) -> None:
        self.heard.take(frame)

    def _said(self, text: str) -> None:
        assert text.endswith("\n")
        assert text[:-1].isprintable(), text
        self.lines.append(text)
        del self.lines[:-200]

    def from_public(self, role: str, name: str, identity: bytes) -> Callable[[bytes], None]:
        """What somebody sends to the public socket."""
        sender = Sender(role, name, host="127.0.0.1" if role == "anyone" else "", partner=True)

        def take(frame: bytes) -> None:
            if role == "iad":
                self._greet(name)
            self.master._public._serve(identity, frame, sender)
            self.turn()

        return take

    def from_operator(self, frame: bytes) -> None:
        """What an operator sends."""
        sender = Sender("operator", "ops")
        self.master._operator._take(b"operator", frame, sender)
        self.turn()

    def from_node(self, frame: bytes) -> None:
        """What a node sends."""
        self.nodes.waiting, self.nodes.from_ = (b"node", frame), Sender("node", "n1")
        self.master._task_plane._node_turn()
        self.turn()

    def from_peer(self, frame: bytes) -> None:
        """What another master replies."""
        peers: Peers = self.master._peers
        hear(peers._links["iad2"].socket, frame)
        self.turn()

    def from_directory(self, frame: bytes) -> None:
        """What the registration service replies."""
        directory = self.master._trade.directory
        assert directory is not None
        hear(directory._sockets[0], frame)
        self.turn()

    def from_neighbour(self, frame: bytes) -> None:
        """What an overlay neighbour replies on the connection to it."""
        hear(self.links._by_iad["iad2"].socket, frame)
        self.turn()

    def _greet(self, iad: str) -> None:
        """Keep the link to a neighbour up, and tell its frames the numbers."""
        link = self.links._by_iad.get(iad)
        if link is None:
            return
        session = link.session
        link.socket.send = lambda _message: True
        if not session.up:
            fingerprint = self.links._fingerprint
            hello = OverlayHello(iad, *link.broker, fingerprint, 7, session._own, open=True)
            sender = Sender("iad", iad)
            self.master._public._serve(b"iad", encode(hello), sender)
        self.live[:] = [7, session._own, session._received + 1, session._sent]

    def neighbour(self, frame: bytes) -> None:
        """A message of the overlay in the next frame of the link, so that the broker gets it."""
        self._greet("iad2")
        try:
            message, _ = NEIGHBOUR.decode(frame)
        except WireError:
            return
        if isinstance(message, OverlayFrame):
            sequence = self.links._by_iad["iad2"].session._received + 1
            message = msgspec.structs.replace(message, session=7, sequence=sequence)
        self.master._public._serve(b"iad", encode(message), Sender("iad", "iad2"))
        self.turn()

    def turn(self) -> None:
        """Time passes; what is due is done."""
        self.now += TURN_S
        self.frames += 1
        if self.frames % EACH == 0:
            self._driven.turn(self.now)
        for router, decoder in ((self.public, PUBLIC), (self.operator, OPERATOR)):
            for _, reply in router.sent:
                decoder.decode(reply)
            router.sent.clear()
        for _, reply in self.nodes.sent:
            NODES.decode(reply)
        self.nodes.sent.clear()

    def serves(self) -> None:
        """An honest client hears what an honest node says, as without the attack."""
        self.nodes.sent.clear()
        hello = nm.Hello("honest", "boot", "history", ("b1/honest/r1",), ("temperature",), 1, "1.0")
        self._node(hello)
        query = m.Query("honest", ("b1/honest/r1",), m.Window(last_s=60.0), m.Slo(99.0, 60_000.0))
        self.now += 10.0
        self._node(nm.Heartbeat("boot"))
        sent = self.nodes.sent[:]
        self.public.sent.clear()
        self.master._public._serve(b"honest client", encode(query), HONEST)
        replies = self.public.sent + sent
        asked = [NODES.decode(f)[0] for i, f in self.nodes.sent if i == b"honest node"]
        subtasks = [each for each in asked if isinstance(each, nm.Subtask)]
        assert subtasks, [PUBLIC.decode(f)[0] for i, f in replies if i == b"honest client"]
        self._node(nm.SubtaskResult(subtasks[-1].id, "no_data", 0.0, 0.0))
        answers = [PUBLIC.decode(f)[0] for i, f in self.public.sent if i == b"honest client"]
        assert [(a.id, a.missing[0].reason) for a in answers] == [("honest", "no_data")], answers

    def _node(self, message: Message) -> None:
        self.nodes.waiting = (b"honest node", encode(message))
        self.nodes.from_ = Sender("node", "honest", areas=("b1/honest",))
        self.master._task_plane._node_turn()

    def close(self) -> None:
        """End the master."""
        self.master.close()
        for each in self._connected:
            each.stop()
