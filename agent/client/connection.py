"""A client's connection to one master's socket, with keys or without."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

import zmq

from agent.net.dealer import DEAD_AFTER_MS, KeyedLink
from agent.net.file_watcher import Watched
from agent.net.keys import KeyFiles, read_publics, read_secrets
from agent.wire.base import Message
from agent.wire.codec import MAX_RESULT_BYTES, Decoder, encode
from agent.wire.config import ConfigError

T = TypeVar("T")

# With keys: how long a handshake may take, and all that are tried before a message is sent.
HANDSHAKE_MS = 1_500
LOOK_S = 1.0
CONNECT_S = 8.0


class NoReplyError(TimeoutError):
    """The master did not reply in time."""


class ConnectionCutError(NoReplyError):
    """Replies that were due on the connection will not come."""


class Connection(Generic[T]):
    """A DEALER to one master's socket; not for use by several threads at once.

    With `keys` it speaks CURVE: ConfigError if a file cannot be used. When the own key has changed
    the next message goes over a new connection, and replies still due on the one before are lost.
    """

    def __init__(self, address: str, union: object, keys: KeyFiles | None) -> None:
        self.address = address
        self._keys = keys
        self._secrets = None if keys is None else Watched(keys.key, read_secrets)
        self._looked_s = 0.0
        self._decoder: Decoder[T] = Decoder(union, MAX_RESULT_BYTES)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self.socket, self._cuts, self._keyed = self._open()
        except ConfigError:
            self.close()
            raise
        except zmq.ZMQError as error:
            self.close()
            raise ValueError(f"cannot use address {address!r}: {error.strerror}") from None

    def _open(self) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes], KeyedLink | None]:
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.TCP_MAXRT, DEAD_AFTER_MS)
        cuts: zmq.Socket[bytes] = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        keys, secrets = self._keys, self._secrets
        if keys is None or secrets is None or not self.address.startswith("tcp://"):
            socket.connect(self.address)
            return socket, cuts, None
        # Sent only once the other end has proved its key, and taken this one.
        socket.setsockopt(zmq.IMMEDIATE, 1)
        link = KeyedLink(
            socket,
            self.address,
            lambda: secrets.value,
            lambda: read_publics(keys.server_keys),
        )
        return socket, cuts, link

    def close(self) -> None:
        self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def send_message(self, message: Message) -> None:
        self._forget_cuts()
        if self._keyed is not None:
            self._await_connection()
        else:
            self._await_room()
        try:
            self.socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            raise NoReplyError(f"no connection to {self.address}; does it want a key?") from None

    def _await_room(self) -> None:
        """libzmq gives up for good an endpoint that shakes hands in another way, as a master that
        wants keys does; nothing could ever be sent then."""
        if not self.socket.poll(HANDSHAKE_MS, zmq.POLLOUT):
            with suppress(zmq.ZMQError):
                self.socket.disconnect(self.address)
            self.socket.connect(self.address)

    def _await_connection(self) -> None:
        """Either end may be changing its key, or libzmq have given up: try all that may fit."""
        assert self._keys is not None
        now = time.monotonic()
        if now - self._looked_s >= LOOK_S:
            self._looked_s = now
            self._show_new_key()
        while not self.socket.poll(HANDSHAKE_MS, zmq.POLLOUT):
            if time.monotonic() >= now + CONNECT_S:
                raise NoReplyError(
                    f"no connection to {self.address} with {self._keys.key} and "
                    f"{self._keys.server_keys}; is a master running there, are these its keys, "
                    "and is this key in its allow-list?"
                )
            assert self._keyed is not None
            self._keyed.redial()

    def _show_new_key(self) -> None:
        assert self._secrets is not None
        before = self._secrets.value[0]
        with suppress(ConfigError):  # the keys before stay in use
            if self._secrets.refresh() and self._secrets.value[0] != before:
                # Not the same socket: libzmq might still put a message on its former connection.
                self.socket.close(0)
                self._cuts.close(0)
                self.socket, self._cuts, self._keyed = self._open()

    def receive_message(self, timeout_ms: float, *, until_cut: bool = False) -> T:
        """The next message; NoReplyError after `timeout_ms`. With `until_cut` ConnectionCutError as
        soon as the connection over which the last message was sent is cut."""
        give_up_s = time.monotonic() + timeout_ms / 1e3
        while not self._await_event(timeout_ms, give_up_s):
            self._forget_cuts()
            if until_cut:
                raise ConnectionCutError(f"the connection to {self.address} was cut")
        message, _codec = self._decoder.decode(self.socket.recv())
        return message

    def _await_event(self, timeout_ms: float, give_up_s: float) -> bool:
        """Whether a message has come; else a connection was cut. NoReplyError."""
        poller = zmq.Poller()
        poller.register(self.socket, zmq.POLLIN)
        poller.register(self._cuts, zmq.POLLIN)
        found = dict(poller.poll(max(0, math.ceil((give_up_s - time.monotonic()) * 1e3))))
        if not found:
            raise NoReplyError(
                f"no reply from {self.address} within {timeout_ms / 1e3:.1f} s; "
                "is a master running there?"
            )
        return self.socket in found

    def _forget_cuts(self) -> None:
        """Read what libzmq tells of cuts; what is never read would stop it in the end."""
        with suppress(zmq.Again):
            while True:
                self._cuts.recv_multipart(zmq.NOBLOCK)
