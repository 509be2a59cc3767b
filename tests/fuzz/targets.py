"""Every socket of the product in one process: its decoder and what stands behind it, without the
socket. `Target.take` does with a frame what the process does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, get_args
from unittest import mock

import msgspec
import zmq

from agent.directory.server import Server
from agent.edge import link as links
from agent.master import master as masters
from agent.master.requests.peers import Peers
from agent.master.topics.worker_frames import FrameError, Frames, decode_answer
from agent.net.message_socket import MessageSocket
from agent.net.secure_sockets import SecureSockets
from agent.net.unsent import Unsent
from agent.wire import directory as d
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire import unions as u
from agent.wire.base import Message
from agent.wire.codec import HEADER_BYTES, MAX_RESULT_BYTES, Decoder, WireError, encode
from agent.wire.drs_config import DrsConfig
from agent.wire.master_config import MasterConfig
from agent.wire.overlay_links import OverlayFrame, OverlayHello
from agent.wire.principals import Sender
from testkit.waiting import wait_until
from tests.edge.test_node import Bench, Open
from tests.master.topics.test_worker_frames import ANSWERS

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
OFFERING: Final = d.Offering("temperature", ("h/f1",))
PUBLIC: Final = Decoder[Any](u.PublicReply, MAX_RESULT_BYTES)
OPERATOR: Final = Decoder[Any](u.OperatorReply, MAX_RESULT_BYTES)
ANSWERED: Final = tuple(msgspec.msgpack.encode(each) for each in ANSWERS)
NODES: Final = Decoder[Any](nm.MasterMessage)
NEIGHBOUR: Final = Decoder[Any](u.PublicRequest)
DIRECTORY: Final = Decoder[Any](d.DirectoryReply, MAX_RESULT_BYTES)


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
        return True


class Nowhere(SecureSockets):
    """Whatever address somebody names, nobody is there."""

    def dealer(self, address: str, max_bytes: int, *_: Any, **__: Any) -> Any:
        """A socket that nobody has bound."""
        super().dealer(address, max_bytes).close(0)
        return super().dealer(f"ipc://{self._folder}/none", max_bytes)


class Target:
    """One socket: what it takes, and from whom."""

    def __init__(
        self,
        name: str,
        kinds: Sequence[type[Message]],
        take: Callable[[bytes], object],
        live: list[Any] | None = None,
        *,
        bodies: Sequence[bytes] = (),
        share: int = 4,
    ) -> None:
        """`live` and `bodies` as in `Frames`; of all frames this gets a part of `share`."""
        self.name = name
        self.bodies = bodies
        self.share = share
        self.kinds = kinds
        self.take = take
        self.live = [] if live is None else live


class MasterTargets:
    """A master with an overlay, a pool, a market and nodes; its clock stands between frames."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000.0
        self.lines: list[str] = []
        pool = "".join(MEMBER.format(iad, folder, f"b{n}") for n, iad in enumerate(IADS, 1))
        text = CONFIG.format(folder=folder).replace("[[offers]]", pool + "[[offers]]", 1)
        config = msgspec.toml.decode(text, type=MasterConfig)
        with (
            mock.patch.object(masters, "SecureSockets", Nowhere),
            mock.patch.object(masters, "operator_log", return_value=self._said),
        ):
            self.master = masters.Master(config, folder, run="fuzz", clock=lambda: self.now)
        self.public, self.nodes, self.operator = Router(), Router(), Router()
        self.reactor = self.master._reactor
        self.master._public._router = self.public
        self.master._public.turns._router = self.public
        self.master._operator._router = self.operator
        self.master._task_plane._nodes = self.nodes
        self.links = self.master._push._links
        self.live: list[Any] = []
        self.frames = 0

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
        reactor = self.reactor
        self.frames += 1
        if self.frames % EACH == 0:
            for source, _ in reactor._poller.poll(0):
                if source in reactor._turns:
                    reactor._turns[source]()
            reactor.changed()
            if self.now >= reactor._next_due():
                reactor._tick(self.now)
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


class DirectoryTargets:
    """A registration service, and a read replica that hears from a leader."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_000.0
        self.server = self._server(folder / "leader", "")
        self.mirror = self._server(folder / "mirror", f"ipc://{folder}/none")
        self.router = Router()
        self.server._router = self.router
        [self.link] = [
            turn.__self__
            for turn in self.mirror._reactor._turns.values()
            if isinstance(getattr(turn, "__self__", None), MessageSocket)
        ]

    def _server(self, folder: Path, primary: str) -> Server:
        folder.mkdir()
        text = f'[sockets]\npublic = "ipc://{folder}/public"\n'
        if primary:
            text += f'[mirror]\nprimary = "{primary}"\n'
        config = msgspec.toml.decode(text, type=DrsConfig)
        return Server(config, folder, clock=lambda: self.now)

    def request(self, frame: bytes) -> None:
        """What a party of the market sends."""
        self.server._take(b"party", frame, Sender("iad", "iad2"))
        for _, reply in self.router.sent:
            DIRECTORY.decode(reply)
        self.router.sent.clear()
        self.now += TURN_S
        if self.now >= self.server._reactor._next_due():
            self.server._reactor._tick(self.now)

    def reply(self, frame: bytes) -> None:
        """What the leader sends to its replica."""
        hear(self.link, frame)
        self.mirror._reactor.changed()
        if self.now >= self.mirror._reactor._next_due():
            self.mirror._reactor._tick(self.now)

    def serves(self) -> None:
        """An honest party is registered, and found."""
        record = d.Register("r", "honest", "tcp://127.0.0.1:5700", (OFFERING,), 60.0)
        self.server._take(b"honest", encode(record), Sender("iad", "honest"))
        self.server._take(b"honest", encode(d.LookUp("l", ("honest",))), Sender("iad", "honest"))
        found = [DIRECTORY.decode(reply)[0] for _, reply in self.router.sent][-1]
        assert isinstance(found, d.Found), found
        assert found.candidates[0].iad == "honest"

    def close(self) -> None:
        """End both."""
        self.server.close()
        self.mirror.close()


class Master(Open):
    """The other end of a node's connection."""

    def close(self, _linger_ms: int) -> None:
        """The node has enough."""


class NodeTargets:
    """An edge node whose master says anything."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder)
        self.node = self.bench.node
        self.node._socket.close(0.0)
        # Nobody polls these connections.
        self.node._socket._poller = mock.Mock()
        self._connect()
        self.live = [self.node._link._hello.incarnation]

    def _connect(self) -> None:
        """A master that the node has joined."""
        self.socket = at = Master()
        if self.node._socket._socket is not None:
            self.node._socket.close(0.0)
        self.node._socket._socket = at  # type: ignore[assignment]
        self.bench.join()

    def from_master(self, frame: bytes) -> None:
        """What the master sends."""
        node = self.node
        self.socket.frames.append(frame)
        node._receive_all()
        node._collect()
        if node._socket._socket is not self.socket:
            # It closed the connection, and opens another one in time.
            node._link.wake_at = 0.0
            node._handle(links.Tick())
            self._connect()
        del self.socket.sent[:-1]
        del self.bench.lines[:-100]

    def serves(self) -> None:
        """It answers a subtask of a good master."""
        self._connect()
        self.node._handle(nm.Subtask(2**53 - 1, m.Window(last_s=1e6)))
        wait_until(self._answered)

    def _answered(self) -> bool:
        self.node._collect()
        return any(each.id == 2**53 - 1 for each in self.socket.of(nm.SubtaskResult))

    def close(self) -> None:
        """End the node."""
        self.node._socket.close(0.0)
        self.node._pods.stop()
        self.node._disk.close()
        self.node._socket.end()
        self.bench.history.close()


def hear(socket: MessageSocket[Any], frame: bytes) -> None:
    """Let a frame arrive at a DEALER."""
    waiting = [zmq.Frame(frame)]
    socket._receive = lambda: waiting.pop() if waiting else None  # type: ignore[method-assign]
    socket._turn()


def from_worker(frame: bytes) -> None:
    """What a worker writes to its master: frames of the right length, and bytes as they come."""
    body = frame[HEADER_BYTES:]
    for data in (len(body).to_bytes(4) + body, frame):
        with suppress(FrameError):
            for each in Frames().take(data):
                decode_answer(each)


def decoding(union: object, most: int) -> Callable[[bytes], None]:
    """A socket behind which there is no state: a client's."""
    decoder: Decoder[Any] = Decoder(union, most)

    def take(frame: bytes) -> None:
        try:
            message, codec = decoder.decode(frame)
        except WireError as error:
            if "\n" in str(error):
                raise
        else:
            encode(message, codec)

    return take


def kinds_of(union: object) -> tuple[type[Message], ...]:
    """The messages of a union."""
    return tuple(get_args(union)) or (union,)  # type: ignore[return-value]


class Everything:
    """All targets, and what they share; close it in the end."""

    def __init__(self, folder: Path) -> None:
        for name in ("master", "directory", "node"):
            (folder / name).mkdir()
        self.master = at = MasterTargets(folder / "master")
        self.directory = DirectoryTargets(folder / "directory")
        self.node = NodeTargets(folder / "node")
        public, iads = kinds_of(u.PublicRequest), at.live
        self.targets = (
            Target("public, no key", public, at.from_public("anyone", "0a", b"stranger")),
            Target("public, client", public, at.from_public("client", "app", b"client")),
            Target("public, another master", public, at.from_public("iad", "iad2", b"iad"), iads),
            Target("public, buyer", public, at.from_public("csp", "csp1", b"csp")),
            Target("overlay link", (OverlayFrame,), at.neighbour),
            # Trusted, and slow: the name of a processor is looked up among all packages.
            Target("operator", kinds_of(u.OperatorRequest), at.from_operator, share=1),
            Target("nodes", kinds_of(nm.NodeMessage), at.from_node, at.live),
            Target("replies of masters", kinds_of(u.PeerReply), at.from_peer),
            Target("replies of neighbours", kinds_of(u.NeighbourReply), at.from_neighbour),
            Target("replies of the DRS", kinds_of(d.DirectoryReply), at.from_directory),
            Target("DRS", kinds_of(d.DirectoryRequest), self.directory.request),
            Target("read replica", kinds_of(d.DirectoryReply), self.directory.reply),
            Target("edge node", kinds_of(nm.MasterMessage), self.node.from_master, self.node.live),
            Target("client", kinds_of(u.ClientReply), decoding(u.ClientReply, MAX_RESULT_BYTES)),
            Target(
                "operator's client",
                kinds_of(u.OperatorReply),
                decoding(u.OperatorReply, MAX_RESULT_BYTES),
            ),
            Target("pipe of a worker", (), from_worker, bodies=ANSWERED),
        )

    def serves(self) -> None:
        """After the attack honest parties get what they got before."""
        self.master.serves()
        self.directory.serves()
        self.node.serves()

    def close(self) -> None:
        """End everything."""
        self.master.close()
        self.directory.close()
        self.node.close()
