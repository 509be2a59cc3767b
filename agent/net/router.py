"""ROUTER sockets: non-blocking receive and send, key checks, limits per connection."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable, Hashable
from typing import NamedTuple

import zmq

from agent.net.intake import KEYED_HEADER_BYTES, PLAIN_HEADER_BYTES, Intake
from agent.net.keys import Pair
from agent.net.listener import TcpListener
from agent.net.options import prepare
from agent.net.unsent import LARGE, SmallUnsent, Unsent
from agent.wire.codec import Frame
from agent.wire.principals import Sender

SEND_FIRST = int(zmq.SNDMORE | zmq.NOBLOCK)
# Plain numbers: an operation on enums takes as long as to receive a message.
EVENTS, READABLE = int(zmq.EVENTS), int(zmq.POLLIN)
# A frame above the decoder's limit gets an error; one above this limit closes the connection.
HARD_LIMIT_BYTES = 1 << 24
# The same for a socket open to all clients: requests have at most 1 MiB, and a connection that
# sends half a frame holds memory for the whole one.
OPEN_LIMIT_BYTES = (1 << 20) + (1 << 16)
# Messages of a connection to the socket for nodes that wait in libzmq; the rest waits in the kernel
# and at the node. What a connection that is flooded has in store is soon served.
NODES_WAITING = 64
# A peer that stopped answering TCP is detected after this long.
DEAD_AFTER_MS = 6_000
# Frames discarded, of a message with too many, before other sockets get their turn.
DISCARDED_A_TURN = 1_000
# Likewise of messages whose connection was closed for what it sent; each megabyte takes half a
# millisecond.
PASSED_OVER_BYTES = 1 << 23
# A message here has one part, with REQ's delimiter two. Whoever sends a few more is told so; one
# that sends more than this is closed: each empty part costs it two bytes, and here a hundred.
MAX_PARTS = 16
# A connection without a completed handshake after this long is closed.
HANDSHAKE_MS = 5_000
# The reply to a sender whose key is no longer allowed.
REVOKED = "this key is not allowed here any more; ask this IAD's operator"


class DelimitedIdentity(bytes):
    """The identity of a peer that sends REQ's empty delimiter frame, and expects it in replies.

    Other peers' identities are plain bytes. A return address is thus one hashable value that costs
    nothing to build for the nodes, which send most of the messages.
    """

    __slots__ = ()


class Keyed(NamedTuple):
    """The security settings of a CURVE socket: its key, its ZAP domain, and the permitted senders
    (`find` maps a public key to its owner, or to None if it is not allowed)."""

    pair: Pair
    domain: str
    find: Callable[[str], Sender | None]


def _seed_identities() -> None:
    """Let the identities that libzmq gives to connections begin at an unknown number.

    They count up from `rand()`, which libzmq 4.3 does not seed. A peer that names itself by a
    number yet to come aborts the process when the counter reaches it.
    """
    ctypes.CDLL(None).srand(int.from_bytes(os.urandom(4), "little"))


def router(
    context: zmq.Context[zmq.Socket[bytes]],
    address: str,
    keyed: Keyed | None = None,
    *,
    requests_only: bool = False,
    waiting: int | None = None,
) -> Router:
    """Bind a ROUTER; OSError if that fails. `requests_only`: accept nothing larger than a request.
    `waiting`: messages of a connection that libzmq may hold; None: any number.

    With keys a tcp:// socket accepts only CURVE; an ipc:// socket then accepts only processes of
    this user and of root.
    """
    limit = OPEN_LIMIT_BYTES if requests_only else HARD_LIMIT_BYTES
    _seed_identities()
    socket = prepare(context.socket(zmq.ROUTER), limit, strangers=requests_only)
    # libzmq 4.3 aborts the process if a queue is full, a heartbeat of ZMTP waits behind it, and the
    # connection is reset (libzmq issue 4364). Anybody may do that, so at a socket that is open to
    # strangers no queue is ever full: the intake bounds what their connections hold. At the one for
    # nodes resets are dropped, where it has keys.
    socket.setsockopt(zmq.RCVHWM, waiting or 0)
    # TCP keep-alive instead of heartbeats of ours: the kernel detects a dead peer, too, and one
    # that stopped reading.
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 2)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, 4)
    socket.setsockopt(zmq.TCP_MAXRT, DEAD_AFTER_MS)
    # Otherwise a message to a peer that is gone or does not read would be dropped uncounted.
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    try:
        if keyed is not None and address.startswith("tcp://"):
            return _bind_keyed(socket, address, keyed, takes_resets=waiting is None)
        socket.bind(address)
        if keyed is not None:
            os.chmod(address.removeprefix("ipc://"), stat.S_IRUSR | stat.S_IWUSR)  # noqa: PTH101 - the edge agent's rule
    except (OSError, zmq.ZMQError) as error:
        socket.close(0)
        why = str(error.strerror).partition(" (addr=")[0]  # ZeroMQ names the address again
        raise OSError(f"cannot listen on {address}: {why}") from None
    return Router(socket)


def _bind_keyed(
    socket: zmq.Socket[bytes], address: str, keyed: Keyed, *, takes_resets: bool
) -> Router:
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.ZAP_DOMAIN, keyed.domain.encode())
    socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    made = Router(socket, keyed.find, TcpListener(socket, address, takes_resets=takes_resets))
    made.use_key(keyed.pair)
    return made


class Router:
    """A ROUTER socket as a source of (identity, payload)."""

    __slots__ = (
        "_discarding", "_find", "_frame", "_header_bytes", "_intake", "_listener", "_parts",
        "_recv", "_send", "_sender", "_small", "abort", "dropped", "gone", "on_gone", "refuse",
        "refused", "socket", "unsent",
    )  # fmt: skip

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        find: Callable[[str], Sender | None] | None = None,
        listener: TcpListener | None = None,
    ) -> None:
        self.socket = socket
        self._recv = socket.recv
        self._send = socket.send
        self._find = find
        self._listener = listener
        self._sender = Sender("anyone", "")
        self._frame: zmq.Frame | None = None
        self._discarding = False
        # Parts read of the message that is being discarded.
        self._parts = 0
        # Closes the connection with a descriptor at once. None: on a socket without an intake, for
        # processes of this host.
        self.abort: Callable[[int], object] | None = None
        self.unsent = Unsent()
        self._intake: Intake | None = None
        self._small: SmallUnsent | None = None
        self._header_bytes = PLAIN_HEADER_BYTES if find is None else KEYED_HEADER_BYTES
        self.dropped = 0
        # Of these, how many had a peer that was found to be disconnected.
        self.gone = 0
        # Messages on connections whose key is no longer allowed, and the callback that informs
        # their senders.
        self.refused = 0
        self.refuse: Callable[[bytes, Frame], None] | None = None
        # Called with the identity of a peer found to be disconnected.
        self.on_gone: Callable[[bytes], object] | None = None

    def use_key(self, pair: Pair) -> None:
        """Use this key for new connections; existing ones stay open. OSError."""
        assert self._listener is not None
        self.socket.setsockopt(zmq.CURVE_PUBLICKEY, pair.public.encode())
        self.socket.setsockopt(zmq.CURVE_SECRETKEY, pair.secret.encode())
        self._listener.bind()

    def watch_intake(self, intake: Intake) -> None:
        """Report the bytes taken from each connection, and given to it, to `intake`."""
        self._intake, self._small = intake, intake.small_unsent
        self.abort = intake.abort

    @property
    def empty(self) -> bool:
        """Whether nothing can be received now: cheaper than to try, which ends in an exception."""
        return not int(self.socket.getsockopt(EVENTS)) & READABLE

    def _count(self, size: int, identity: bytes | None = None) -> bool:
        """Count `size` bytes as taken from the connection of the last message, which is that of
        `identity`; whether it is known."""
        if self._intake is not None:
            if (fd := self._source) is None:
                return False
            taken = self._intake.taken
            taken[fd] = taken.get(fd, 0) + size
            if identity is not None:
                self._intake.small_unsent.heard(identity, fd)
        return True

    @property
    def _source(self) -> int | None:
        """The descriptor that the last message arrived on; only tcp connections have an intake.
        None: libzmq does not tell of a peer that speaks ZMTP 1 or 2."""
        assert self._frame is not None
        try:
            return int(self._frame.get(zmq.SRCFD))
        except zmq.ZMQError:
            return None

    def receive(self) -> tuple[bytes, Frame] | None:
        """One message; None if nothing waits, if the message's key is no longer allowed, or if it
        came over ZMTP 1 or 2 to a socket whose connections are bounded. A message other than a
        payload, with or without REQ's empty delimiter, is returned as an empty payload, which every
        decoder rejects. A large payload is not copied out of libzmq."""
        recv = self._recv
        if self._discarding and not self._discard():
            return None
        if (found := self._next()) is None:
            return None
        identity, frame = found
        if self._intake is not None and not self._count(len(frame) + self._header_bytes, identity):
            # Nor could be known what such a connection holds. What it sent stays counted as held,
            # until it is cut.
            self._discarding, self._parts = frame.more, 1
            return None
        if not frame.more:
            if self._find is not None and not self._admits(frame, identity):
                return None
            return identity, body(frame)
        delimited = not len(frame)
        if delimited:
            frame = recv(0, False)
            self._count(len(frame) + self._header_bytes)
        payload = b"" if frame.more or not delimited else body(frame)
        if frame.more:
            self._discarding, self._parts = True, 1 + delimited
            self._discard()
        if delimited:
            identity = DelimitedIdentity(identity)
        if self._find is not None and not self._admits(frame, identity, payload):
            return None
        return identity, payload

    def _next(self) -> tuple[bytes, zmq.Frame] | None:
        """The beginning of the next message; None if nothing waits, or all that was looked at is
        passed over."""
        recv, intake, left = self._recv, self._intake, PASSED_OVER_BYTES
        while left > 0:
            try:
                # At least one frame always follows the identity.
                identity = recv(zmq.NOBLOCK)
            except zmq.Again:
                return None
            # A Frame knows whether more follow; reading RCVMORE of the socket takes 3 times as
            # long.
            frame = self._frame = recv(0, False)
            if intake is None or identity not in intake.passed_over:
                return identity, frame
            left -= len(frame) + self._header_bytes
            if frame.more:
                self._discarding, self._parts = True, MAX_PARTS + 1  # it is closed already
                if not self._discard():
                    return None
        return None

    def sender(self, identity: bytes) -> Sender:
        """The sender of the last message, from `identity`."""
        if self._find is not None:
            return self._sender
        address = self.address
        # At an ipc:// socket it is "localhost:user:group:process".
        host = "" if ":" in address else address
        return Sender("anyone", identity.hex(), host=host)

    @property
    def address(self) -> str:
        """The origin of the last message: a host; on an ipc:// socket this host, a user, a group
        and a process; empty if the transport does not provide it."""
        assert self._frame is not None
        try:
            return str(self._frame.get("Peer-Address"))
        except zmq.ZMQError:
            return ""

    def owner(self, identity: bytes, before: Sender) -> Sender | None:
        """Who a peer is now that spoke here as `before`; None if its key is not allowed any more:
        what it asked for then, such as each round of a watch, may be due long afterwards."""
        if self._find is None or self._small is None or not (key := self._small.key_of(identity)):
            return before
        return self._find(key)

    def _admits(self, frame: zmq.Frame, identity: bytes, payload: Frame | None = None) -> bool:
        """Whether the connection's key is still allowed. Looked up for each message, as a peer
        chooses its own identity; measured 0.55 µs."""
        assert self._find is not None
        key = str(frame.get("User-Id"))
        if self._small is not None:
            self._small.came_with(identity, key)
        sender = self._find(key)
        if sender is None:
            self.refused += 1
            if self.refuse is not None:
                self.refuse(identity, body(frame) if payload is None else payload)
            return False
        self._sender = sender
        return True

    def _discard(self) -> bool:
        """Discard frames of a message with too many; whether the last one was reached."""
        size, last, before = 0, False, self._parts
        for _ in range(DISCARDED_A_TURN):
            frame = self._recv(0, False)
            size += len(frame) + self._header_bytes
            self._parts += 1
            if not frame.more:
                self._discarding, last = False, True
                break
        self._count(size)
        if before <= MAX_PARTS < self._parts and self.abort is not None:
            fd = self._source
            if fd is not None:
                # Once a message: later its descriptor may be another connection's.
                self.abort(fd)
        return last

    def send(self, identity: bytes, payload: bytes | bytearray, payer: Hashable = None) -> bool:
        """Send. The message is dropped, and counted in `dropped`, if the peer is gone or has
        reached its high-water mark (1,000 messages). False: it was dropped because too many bytes
        wait for the peer, which may be told so in a message that is not large. `payer` as in
        `Unsent`."""
        send, large = self._send, len(payload) >= LARGE
        if large and not self.unsent.has_room(identity, len(payload)):
            self.dropped += 1
            return False
        try:
            send(identity, SEND_FIRST)
        except zmq.ZMQError as error:
            self.dropped += 1
            if error.errno == zmq.EHOSTUNREACH:
                self.gone += 1
                if self.on_gone is not None:
                    self.on_gone(bytes(identity))
            return True
        if type(identity) is DelimitedIdentity:
            send(b"", zmq.SNDMORE)
        if large:
            tracker = send(payload, copy=False, track=True)
            assert tracker is not None
            self.unsent.add(identity, tracker, len(payload), payer)
        else:
            send(payload)
        if (small := self._small) is not None:
            keyed = self._find is not None
            if type(identity) is DelimitedIdentity:
                small.sent(identity, 0, keyed=keyed)
            small.sent(identity, len(payload), keyed=keyed, large=large)
        return True


def body(frame: zmq.Frame) -> Frame:
    """A frame's payload, without a copy if large: copying 1 MiB costs more than refusing it."""
    return frame.buffer if len(frame) >= LARGE else frame.bytes
