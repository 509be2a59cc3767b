"""The socket to the master: opened, closed and keyed anew as the link says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import zmq

from agent.edge.rate_limited_log import Reporter
from agent.wire import codec, config, edge_config
from agent.wire.messages import MasterMessage

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles

LOOK_S: Final = 1.0  # between two looks at the key files
LINGER_S: Final = 0.5  # for what a connection that is replaced still holds


class MasterSocket:
    """One DEALER socket at a time, registered with `poller` while it is open."""

    def __init__(
        self,
        settings: edge_config.EdgeMaster,
        keys: KeyFiles | None,
        poller: zmq.Poller,
        reporter: Reporter,
    ) -> None:
        self._settings = settings
        self._poller = poller
        self._reporter = reporter
        self.malformed = 0  # frames that could not be read
        self.dropped = 0  # frames that the socket did not take
        self._decoder: codec.Decoder[MasterMessage] = codec.Decoder(MasterMessage)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._keys = keys
        self._connections = 0
        if keys is not None:
            self._handshake = keys.handshake(0)
            self._shown = self._handshake.own
            self._look_at_s = 0.0

    def open(self) -> None:
        """Open a new socket; that succeeds whether anybody listens or not."""
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_REQUEST_BYTES)
        # ZeroMQ's own pauses, which double too; without these it would try ten times a second.
        socket.setsockopt(zmq.RECONNECT_IVL, round(self._settings.reconnect_first_s * 1000))
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, round(self._settings.reconnect_longest_s * 1000))
        if self._keys is not None:
            self._use_keys(socket, self._keys)
        socket.connect(self._settings.address)
        self._poller.register(socket, zmq.POLLIN)
        self._socket = socket

    def close(self, linger_s: float) -> None:
        """Close it, if there is one; what it still holds may go on its way for that long."""
        if self._socket is not None:
            self._poller.unregister(self._socket)
            self._socket.close(round(linger_s * 1000))
            self._socket = None

    def end(self) -> None:
        """No socket will be opened any more; waits for what still lingers."""
        self._context.term()

    def ready(self, polled: dict[object, int]) -> bool:
        """Whether a poll found something to receive."""
        return self._socket in polled

    def messages(self) -> Iterator[MasterMessage]:
        """What has arrived; the socket may be closed or replaced in between."""
        # Asking is cheaper than an exception at the end.
        while self._socket is not None and int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            frame = self._socket.recv(zmq.NOBLOCK)
            try:
                message, _ = self._decoder.decode(frame)
            except codec.WireError as error:
                self.malformed += 1
                self._reporter.complain("frame", f"ignored a frame from the master: {error}")
                continue
            yield message

    def send(self, frame: bytes) -> None:
        """Send a frame; one that the socket does not take is dropped, and told."""
        assert self._socket is not None
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            self.dropped += 1
            # Of a result too: the link has let go of its subtask, and the next heartbeat says so.
            self._reporter.complain("send", "the master takes no messages; one was dropped")

    def keyed_anew(self) -> bool:
        """Connect anew if the own key has changed, and say so: the master may soon refuse the one
        before, and what it sent on the former connection may be lost."""
        now = time.monotonic()
        if self._keys is None or now < self._look_at_s:
            return False
        self._look_at_s = now + LOOK_S
        try:
            secret = self._keys.handshake(0).own
        except config.ConfigError as error:
            self._reporter.complain("keys", f"{error}; the key before stays in use")
            return False
        changed, self._shown = secret != self._shown, secret
        if not changed or self._socket is None:
            return False
        self.close(LINGER_S)
        self._connections = 0
        self.open()
        return True

    @property
    def key_expiry_s(self) -> float | None:
        """When the own key should be replaced, in seconds since the epoch; None: nobody says."""
        if self._keys is None:
            return None
        from agent.net.keys import expiry  # as in keys_of

        return expiry(self._keys.key)

    def _use_keys(self, socket: zmq.Socket[bytes], keys: KeyFiles) -> None:
        try:
            # Either end may be changing its key: each connection tries the next that may fit.
            self._handshake = keys.handshake(self._connections)
        except config.ConfigError as error:
            self._reporter.complain("keys", f"{error}; the key before stays in use")
        self._connections += 1
        self._handshake.apply(socket)


def keys_of(settings: edge_config.EdgeConfig, folder: str) -> KeyFiles | None:
    """The files of keys for the link to the master; None: the link stays on this host and has none.

    ConfigError if they cannot be used.
    """
    if not settings.trust.key or not settings.master.address.startswith("tcp://"):
        return None
    from agent.net.keys import KeyFiles  # a node without keys need not load it

    keys = KeyFiles(
        os.path.join(folder, settings.trust.key),  # noqa: PTH118 - pathlib takes 0.6 MiB
        os.path.join(folder, settings.master.keys),  # noqa: PTH118
    )
    keys.handshake(0)
    return keys
