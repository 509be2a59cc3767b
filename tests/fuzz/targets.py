"""Every socket of the product in one process: its decoder and what stands behind it, without the
socket. `Target.take` does with a frame what the process does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, get_args
from unittest import mock

import msgspec

from agent.directory.server import Server
from agent.edge import link as links
from agent.master.topics.worker_frames import FrameError, Frames, decode_answer
from agent.net.message_socket import MessageSocket
from agent.wire import directory as d
from agent.wire import messages as m
from agent.wire import node_messages as nm
from agent.wire import unions as u
from agent.wire.base import Message
from agent.wire.codec import HEADER_BYTES, MAX_RESULT_BYTES, Decoder, WireError, encode
from agent.wire.drs_config import DrsConfig
from agent.wire.overlay_links import OverlayFrame
from agent.wire.principals import Sender
from testkit.waiting import wait_until
from tests.edge.test_node import Bench, Open
from tests.fuzz.frames import Heard
from tests.fuzz.master import TURN_S, MasterTargets
from tests.fuzz.sockets import Router, hear
from tests.master.topics.test_worker_frames import ANSWERS

OFFERING: Final = d.Offering("temperature", ("h/f1",))
ANSWERED: Final = tuple(msgspec.msgpack.encode(each) for each in ANSWERS)
DIRECTORY: Final = Decoder[Any](d.DirectoryReply, MAX_RESULT_BYTES)


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
        heard: Heard | None = None,
    ) -> None:
        """`live`, `bodies`, `heard` as in `Frames`; of all frames this gets a part of `share`."""
        self.name = name
        self.heard = heard
        self.bodies = bodies
        self.share = share
        self.kinds = kinds
        self.take = take
        self.live = [] if live is None else live


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
            Target(
                "public, no key",
                public,
                at.from_public("anyone", "0a", b"stranger"),
                heard=at.public.hears(b"stranger"),
            ),
            Target(
                "public, client",
                public,
                at.from_public("client", "app", b"client"),
                heard=at.public.hears(b"client"),
            ),
            Target(
                "public, another master",
                public,
                at.from_public("iad", "iad2", b"iad"),
                iads,
                heard=at.heard,
            ),
            Target(
                "public, buyer",
                public,
                at.from_public("csp", "csp1", b"csp"),
                heard=at.public.hears(b"csp"),
            ),
            Target("overlay link", (OverlayFrame,), at.neighbour, heard=at.heard),
            # Trusted, and slow: the name of a processor is looked up among all packages.
            Target(
                "operator",
                kinds_of(u.OperatorRequest),
                at.from_operator,
                share=1,
                heard=at.operator.hears(b"operator"),
            ),
            Target(
                "nodes",
                kinds_of(nm.NodeMessage),
                at.from_node,
                at.live,
                heard=at.nodes.hears(b"node"),
            ),
            Target("replies of masters", kinds_of(u.PeerReply), at.from_peer, heard=at.heard),
            Target(
                "replies of neighbours",
                kinds_of(u.NeighbourReply),
                at.from_neighbour,
                heard=at.heard,
            ),
            Target(
                "replies of the DRS", kinds_of(d.DirectoryReply), at.from_directory, heard=at.heard
            ),
            Target(
                "DRS",
                kinds_of(d.DirectoryRequest),
                self.directory.request,
                heard=self.directory.router.hears(b"party"),
            ),
            Target(
                "read replica",
                kinds_of(d.DirectoryReply),
                self.directory.reply,
                heard=at.heard,
            ),
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
