"""DEALER socket to the master: opened, closed and rekeyed on the link's instructions."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import zmq

from agent.edge.rate_limited_log import Reporter
from agent.wire import codec, config, edge_config
from agent.wire.node_messages import MasterMessage

if TYPE_CHECKING:
    from agent.net.keys import KeyFiles

LOOK_S: Final = 1.0  # between two checks of the key files
LINGER_S: Final = 0.5  # for messages queued on a connection that is being replaced
# As plain numbers: an operation on two enums takes as long as to receive a message.
EVENTS: Final = int(zmq.EVENTS)
READABLE: Final = int(zmq.POLLIN)
MORE: Final = int(zmq.RCVMORE)


class MasterSocket:
    """One DEALER socket at a time, registered with `poller` while it is open, to the master that
    `use` named last. `keys` has the key files for each IAD's master; without any it is a link
    within this host."""

    def __init__(
        self,
        settings: edge_config.EdgeMaster,
        keys: Mapping[str, KeyFiles],
        poller: zmq.Poller,
        reporter: Reporter,
    ) -> None:
        self._settings = settings
        self._poller = poller
        self._reporter = reporter
        self.malformed = 0  # frames that could not be decoded
        self.dropped = 0  # frames that the socket did not accept
        self._decoder: codec.Decoder[MasterMessage] = codec.Decoder(MasterMessage, bounded=True)
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._all_keys = keys
        self.use(settings.iad)

    def use(self, iad: str) -> None:
        """Later sockets go to the master of this IAD."""
        self._address = self._settings.all[iad].address
        keys = self._keys = self._all_keys.get(iad)
        self._connections = 0
        if keys is None:
            return
        try:
            self._handshake = keys.handshake(0)
        except config.ConfigError as error:
            self._reporter.complain("keys", str(error))
        self._shown = self._handshake.own
        self._look_at_s = 0.0

    def open(self) -> None:
        """Open a new socket; succeeds whether or not the master listens."""
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.MAXMSGSIZE, codec.MAX_REQUEST_BYTES)
        socket.setsockopt(zmq.RCVHWM, 0)  # as in agent/net/dealer.py, which is not loaded here
        # ZeroMQ's own back-off, which doubles too; by default it would retry ten times a second.
        socket.setsockopt(zmq.RECONNECT_IVL, round(self._settings.reconnect_first_s * 1000))
        socket.setsockopt(zmq.RECONNECT_IVL_MAX, round(self._settings.reconnect_longest_s * 1000))
        if self._keys is not None:
            self._use_keys(socket, self._keys)
        socket.connect(self._address)
        self._poller.register(socket, zmq.POLLIN)
        self._socket = socket

    def close(self, linger_s: float) -> None:
        """Close the socket, if open; it may deliver queued messages for `linger_s` seconds."""
        if self._socket is not None:
            self._poller.unregister(self._socket)
            self._socket.close(round(linger_s * 1000))
            self._socket = None

    def end(self) -> None:
        """End for good: no socket will be opened again. Waits for lingering messages."""
        self._context.term()

    def ready(self, polled: dict[object, int]) -> bool:
        """Whether a poll found something to receive."""
        return self._socket in polled

    def messages(self) -> Iterator[MasterMessage]:
        """The messages that arrived, of which `ready` saw one; the caller may close or replace the
        socket in between."""
        known = True
        while self._socket is not None:
            # Checking is cheaper than an exception at the end.
            if not known and not int(self._socket.getsockopt(EVENTS)) & READABLE:
                return
            known = False
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            if self._socket.getsockopt(MORE):
                # libzmq ends the process if the connection goes before the last part is read.
                self.close(0.0)
                self.open()
                frame = b""
            # The next connection begins with the likeliest pair of keys again.
            self._connections = 0
            try:
                message, _ = self._decoder.decode(frame)
            except codec.WireError as error:
                self.malformed += 1
                self._reporter.complain("frame", f"ignored a frame from the master: {error}")
                continue
            yield message

    def send(self, frame: bytes) -> None:
        """Send a frame; if the socket does not accept it, it is dropped and reported."""
        assert self._socket is not None
        try:
            self._socket.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            self.dropped += 1
            # This holds for results, too: the link has released the subtask, as the next heartbeat
            # tells the master.
            self._reporter.complain("send", "the master takes no messages; one was dropped")

    def keyed_anew(self) -> bool:
        """Reconnect if this node's key has changed, and return whether it did: the master may soon
        refuse the old key. Likewise if the master's is none of its keys any more: it was revoked,
        or its rotation is over. Messages on the old connection may be lost."""
        now = time.monotonic()
        if self._keys is None or now < self._look_at_s:
            return False
        self._look_at_s = now + LOOK_S
        try:
            secret = self._keys.handshake(0).own
            known = self._keys.names(self._handshake.server)
        except config.ConfigError as error:
            self._reporter.complain("keys", f"{error}; the key before stays in use")
            return False
        changed, self._shown = secret != self._shown or not known, secret
        if not changed or self._socket is None:
            return False
        self.close(LINGER_S)
        self._connections = 0
        self.open()
        return True

    @property
    def key_expiry_s(self) -> float | None:
        """When this node's key should be replaced, in seconds since the epoch; None: not stated."""
        if self._keys is None:
            return None
        from agent.net.keys import expiry  # as in keys_of

        return expiry(self._keys.key)

    def _use_keys(self, socket: zmq.Socket[bytes], keys: KeyFiles) -> None:
        try:
            # Either end may be rotating its key: each connection tries the next possible pair.
            self._handshake = keys.handshake(self._connections)
        except config.ConfigError as error:
            self._reporter.complain("keys", f"{error}; the key before stays in use")
        self._connections += 1
        self._handshake.apply(socket)


def keys_of(settings: edge_config.EdgeConfig, folder: str) -> dict[str, KeyFiles]:
    """The key files for the links to the masters, by IAD; none for a link within this host.

    ConfigError if they cannot be used.
    """
    keys: dict[str, KeyFiles] = {}
    for iad, master in settings.master.all.items():
        if not settings.trust.key or not master.address.startswith("tcp://"):
            continue
        from agent.net.keys import KeyFiles  # not loaded on a node without keys

        keys[iad] = KeyFiles(
            os.path.join(folder, settings.trust.key),  # noqa: PTH118 - pathlib takes 0.6 MiB
            os.path.join(folder, master.keys),  # noqa: PTH118
        )
        keys[iad].handshake(0)
    return keys
