"""Client connection: a DEALER to one of a master's sockets, with or without CURVE keys."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from contextlib import suppress
from socket import gaierror, getaddrinfo
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import zmq

from agent.client import other_peers
from agent.client.other_peers import OtherPeerError
from agent.net.dealer import DEAD_AFTER_MS, KeyedLink
from agent.net.file_watcher import Watched
from agent.net.keys import KeyFiles, read_publics, read_secrets
from agent.net.unsent import LARGE, sent_bytes
from agent.wire.base import Message
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, Frame, WireError, encode
from agent.wire.config import ConfigError

if TYPE_CHECKING:
    from agent.net.link_backlog import LinkBacklog

T = TypeVar("T")

# With keys: timeout of one handshake, and of all attempts before a message is sent.
HANDSHAKE_MS = 1_500
LOOK_S = 1.0
CONNECT_S = 8.0
# Taken between two looks whether too much waits.
LOOK_BYTES = 1 << 20
LOOK_COUNT = 64
# After this long without the first message it is looked whether a master is there at all.
FIRST_WORD_MS = 400


class NoReplyError(TimeoutError):
    """The master did not reply in time."""


class ConnectionCutError(NoReplyError):
    """The connection was cut: replies due on it will not arrive."""


class Connection(Generic[T]):
    """A DEALER to one master's socket; not for use by several threads at once, nor in a process
    that was forked: RuntimeError; nor after `close`: ValueError, as of a file.

    With `keys` it uses CURVE: ConfigError if a file cannot be used. After a change of the client's
    key the next message opens a new connection, and replies still due on the old one are lost.
    """

    def __init__(
        self, address: str, union: object, keys: KeyFiles | None, *, patient: bool = True
    ) -> None:
        """Without `patient` nothing is queued for a master that is not connected."""
        self.address = address
        self._patient = patient
        self._keys = keys
        self._secrets = None if keys is None else Watched(keys.key, read_secrets)
        self._looked_s = 0.0
        self._in_doubt = True  # whether a master is there
        self._decoder: Decoder[T] = Decoder(union, MAX_RESULT_BYTES)
        self._process = os.getpid()
        self._receiving = threading.Lock()
        self._taken = _Taken()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []
        self._left = weakref.finalize(self, _left_open, self._context, self._sockets, self._process)
        self._left.atexit = False
        try:
            self.socket, self._cuts, self._keyed = self._open()
        except ConfigError:
            self.close()
            raise
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(f"cannot use address {address!r}: {error.strerror}") from None
        self._sockets[:] = self.socket, self._cuts

    def _open(
        self, attempts: int = 0
    ) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes], KeyedLink | None]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.TCP_MAXRT, DEAD_AFTER_MS)
        socket.setsockopt(zmq.RCVHWM, 0)  # as in agent/net/dealer.py
        socket.setsockopt(zmq.MAXMSGSIZE, MAX_RESULT_BYTES)
        cuts: zmq.Socket[bytes] = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        keys, secrets = self._keys, self._secrets
        if not self._patient:
            socket.setsockopt(zmq.IMMEDIATE, 1)
        if keys is None or secrets is None or not self.address.startswith("tcp://"):
            socket.connect(self.address)
            return socket, cuts, None
        # Queue messages only once the handshake has succeeded.
        socket.setsockopt(zmq.IMMEDIATE, 1)
        try:
            link = KeyedLink(
                socket,
                self.address,
                lambda: secrets.value,
                lambda: read_publics(keys.server_keys),
                attempts=attempts,
            )
        except ConfigError:
            _close(socket, cuts)
            raise
        return socket, cuts, link

    def close(self) -> None:
        self._left.detach()
        self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send_message(self, message: Message, connect_s: float = CONNECT_S) -> None:
        """Send it, with keys once connected. NoReplyError after `connect_s` without a connection,
        if that is waited for."""
        self.check_use()
        self._forget_cuts()
        if self._keyed is not None:
            self._await_connection(connect_s)
        elif self._patient:
            self._await_room()
        elif not self.is_connected(connect_s):
            raise NoReplyError(f"no connection to {self.address}; {_doubt(self.address)}")
        try:
            self.socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            raise NoReplyError(f"no connection to {self.address}; does it want a key?") from None

    def _await_room(self) -> None:
        """Wait until the socket accepts a message. libzmq drops for good an endpoint with another
        handshake, such as a master that requires keys; then nothing can ever be sent."""
        if not self.socket.poll(HANDSHAKE_MS, zmq.POLLOUT):
            with suppress(zmq.ZMQError):
                self.socket.disconnect(self.address)
            self.socket.connect(self.address)

    def is_connected(self, timeout_s: float) -> bool:
        """Whether the master has accepted a connection, now or in that time."""
        self.check_use()
        if self._keyed is None:
            return bool(self.socket.poll(math.ceil(timeout_s * 1e3), zmq.POLLOUT))
        with suppress(NoReplyError):
            self._await_connection(timeout_s)
            return True
        return False

    def _await_connection(self, timeout_s: float = CONNECT_S) -> None:
        """Try all possible pairs of keys: either end may be rotating its key, or libzmq may have
        dropped the endpoint."""
        assert self._keys is not None
        assert self._keyed is not None
        now = time.monotonic()
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            self._show_new_key()
        # With each round of all pairs it waits longer: one machine may take longer than another.
        before = self._keyed.rounds
        while not self.socket.poll(HANDSHAKE_MS * (1 + self._keyed.rounds - before), zmq.POLLOUT):
            if time.monotonic() >= now + timeout_s:
                raise NoReplyError(
                    f"no connection to {self.address} with {self._keys.key} and "
                    f"{self._keys.server_keys}; is a master running there, are these its keys, "
                    "and is this key in its allow-list?"
                )
            self._look_who_is_there()
            # On the same socket a handshake that ends while libzmq gives it up would make the next
            # attempt seem connected, and the message that is sent then would be lost.
            self._open_anew(self._keyed.attempts)

    def _show_new_key(self) -> None:
        assert self._secrets is not None
        assert self._keyed is not None
        before = self._secrets.value[0]
        with suppress(ConfigError):  # the keys before stay in use
            self._secrets.refresh()
            if self._secrets.value[0] != before or not self._keyed.knows_peer:
                # A new socket, as libzmq might still send a message over the old connection.
                self._open_anew()

    def _open_anew(self, attempts: int = 0) -> None:
        before = self.socket, self._cuts
        self.socket, self._cuts, self._keyed = self._open(attempts)
        self._sockets[:] = self.socket, self._cuts
        self._taken = _Taken()
        _close(*before)

    def receive_message(self, timeout_ms: float, *, until_cut: bool = False) -> T:
        """The next message; NoReplyError after `timeout_ms`. With `until_cut`, ConnectionCutError
        as soon as the connection that carried the last message sent is cut. OtherPeerError if what
        is there is not the socket that was meant, WireError if it says what is no message."""
        self.check_use()
        with self._receiving:
            return self._receive(timeout_ms, until_cut)

    def check_use(self) -> None:
        """RuntimeError where libzmq would hang, or a caller get the reply of another; ValueError
        after `close`."""
        if self._process != os.getpid():
            raise RuntimeError(
                f"the client of {self.address} is of the process before the fork; make one here"
            )
        if self._context.closed:
            raise ValueError(f"the client of {self.address} is closed")
        if self._receiving.locked():
            raise RuntimeError(
                f"another thread waits for the client of {self.address}; make one for each thread"
            )

    def _receive(self, timeout_ms: float, until_cut: bool) -> T:
        give_up_s = time.monotonic() + timeout_ms / 1e3
        while not self._await_event(timeout_ms, give_up_s):
            self._forget_cuts()
            self._look_who_is_there()
            if until_cut:
                raise ConnectionCutError(f"the connection to {self.address} was cut")
        self._in_doubt = False
        received = self.socket.recv(copy=False)
        frame: Frame = received.buffer if len(received) >= LARGE else received.bytes
        if received.more:
            # libzmq ends the process if the connection goes before the last part is read.
            self._open_anew()
            frame = b""
        elif self._taken.too_much_waits(self.socket, received, keyed=self._keyed is not None):
            # What comes faster than it is taken would fill the memory.
            self._open_anew()
            ended = ConnectionCutError if until_cut else NoReplyError
            raise ended(f"{self.address} sends faster than this client takes it")
        try:
            message, _codec = self._decoder.decode(frame)
        except WireError as error:
            if "`$.type`" in str(error) and (what := other_peers.named_by(frame)):
                raise OtherPeerError(f"{self.address} is {what}") from None
            raise
        return message

    def _await_event(self, timeout_ms: float, give_up_s: float) -> bool:
        """Wait; True: a message arrived, False: a connection was cut. NoReplyError."""
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self._cuts, zmq.POLLIN)
        left_ms = max(0, math.ceil((give_up_s - time.monotonic()) * 1e3))
        found = {}
        if self._in_doubt and left_ms > FIRST_WORD_MS:
            found = dict(poller.poll(FIRST_WORD_MS))
            if not found:
                self._look_who_is_there()
                left_ms = max(0, math.ceil((give_up_s - time.monotonic()) * 1e3))
        found = found or dict(poller.poll(left_ms))
        if not found:
            raise self.silent(timeout_ms / 1e3)
        return self.socket in found

    def silent(self, waited_s: float) -> NoReplyError:
        """The error for so many seconds without a reply."""
        return NoReplyError(
            f"no reply from {self.address} within {waited_s:.1f} s; {_doubt(self.address)}"
        )

    def _look_who_is_there(self) -> None:
        """OtherPeerError if a first look tells that it is no master."""
        doubted, self._in_doubt = self._in_doubt, False
        if doubted and (what := other_peers.at(self.address)):
            raise OtherPeerError(f"{self.address} is {what}")

    def _forget_cuts(self) -> None:
        """Read libzmq's disconnect events; if they were never read, libzmq would block."""
        with suppress(zmq.Again):
            while True:
                self._cuts.recv_multipart(zmq.NOBLOCK)


class _Taken:
    """The messages taken from one socket since it was looked whether too much waits there."""

    def __init__(self) -> None:
        self._bytes = self._count = 0
        self._backlog: LinkBacklog | None = None

    def too_much_waits(self, socket: zmq.Socket[bytes], last: zmq.Frame, *, keyed: bool) -> bool:
        """Count the last message taken, and look now and then: most clients take few and small
        ones."""
        self._bytes += sent_bytes(len(last), keyed=keyed)
        self._count += 1
        if self._bytes < LOOK_BYTES and self._count < LOOK_COUNT:
            return False
        if self._backlog is None:
            from agent.net.link_backlog import LinkBacklog
            from agent.net.tcp_counters import TcpCounters

            self._backlog = LinkBacklog(socket, TcpCounters())
        size, count, self._bytes, self._count = self._bytes, self._count, 0, 0
        return self._backlog.exceeds(last, size, count, more=bool(socket.poll(0)))


def _close(socket: zmq.Socket[bytes], cuts: zmq.Socket[bytes]) -> None:
    # First: for an event that nobody can read any more, libzmq's thread would wait for ever.
    socket.disable_monitor()
    socket.close(0)
    cuts.close(0)


def _left_open(
    context: zmq.Context[zmq.Socket[bytes]], sockets: list[zmq.Socket[bytes]], process: int
) -> None:
    """Close what a client holds that is collected as garbage. Its context's own finalizer would not
    find the sockets any more, and wait for ever until they are closed."""
    if process == os.getpid():
        if sockets:
            _close(*sockets)
        context.destroy(linger=0)


def _doubt(address: str) -> str:
    """Why nobody may answer at this address."""
    host = address.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if address.startswith("tcp://"):
        try:
            getaddrinfo(host, None)
        except gaierror:
            return f"the name {host} cannot be resolved"
    return "is a master running there?"
