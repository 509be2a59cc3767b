"""DEALER sockets to other agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import zmq

from agent.sockets.keys import Handshake, Pair, handshakes
from agent.sockets.options import prepare

# A peer that stopped answering is noticed after this long.
HEARTBEAT_IVL_MS = 2_000
DEAD_AFTER_MS = 6_000
# A connection that is not there after this long is tried with the next key.
REDIAL_S = 2.0
# After an own key has changed: how long replies may still come on the connection before.
DRAIN_S = 10.0


def dealer(
    context: zmq.Context[zmq.Socket[bytes]], address: str, max_bytes: int
) -> zmq.Socket[bytes]:
    """Connect a DEALER that refuses to send (`zmq.Again`) while nobody is at the other end;
    OSError if the address is none."""
    socket = unconnected(context, max_bytes)
    try:
        socket.connect(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise OSError(f"cannot connect to {address}: {error.strerror}") from None
    return socket


def unconnected(context: zmq.Context[zmq.Socket[bytes]], max_bytes: int) -> zmq.Socket[bytes]:
    """Such a DEALER before it connects."""
    socket = prepare(context.socket(zmq.DEALER), max_bytes)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    # Only results of our own tasks come in. A queue that is never full keeps heartbeats safe, and
    # they notice a master that is stopped, which the kernel does not.
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_IVL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, DEAD_AFTER_MS)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5_000)
    return socket


class KeyedLink:
    """Keeps one DEALER connected while either end changes its key.

    Found without a connection for REDIAL_S, it is tried with the next pairing of `own()` and
    `servers()`. When the first of `own()` has changed, a second connection is made with it, beside
    the one before; that ends DRAIN_S after the other end has let the new one in. Connects at once:
    ZMQError if the address is none, ConfigError for a key file.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        address: str,
        own: Callable[[], Sequence[Pair]],
        servers: Callable[[], Sequence[str]],
    ) -> None:
        self.socket = socket
        self._own = own
        self._servers = servers
        self._shown = own()[0]
        self._attempts = 0
        self._missed_s: float | None = None
        # libzmq tells connections of one socket apart by how their address is spelt.
        self._endpoint, self._spare = address, _respelt(address)
        self._monitor: zmq.Socket[bytes] | None = None
        self._tries = 0
        self._tried_s = 0.0
        self._drained_s: float | None = None
        self._connect(address, handshakes(own(), servers())[0])

    def look(self, now: float) -> None:
        """Call about once a second. ConfigError if a key file cannot be read now."""
        if self._own()[0] != self._shown:
            self._shown = self._own()[0]
            self._begin_switch(now)
        if self._monitor is not None:
            self._follow_switch(self._monitor, now)
        elif self._drained_s is not None and now >= self._drained_s:
            self._drained_s = None
            self._disconnect(self._spare)
        if self.connected:
            self._missed_s = None
        elif self._missed_s is None:
            self._missed_s = now
        elif now - self._missed_s >= REDIAL_S:
            self._missed_s = now
            self.redial()

    @property
    def connected(self) -> bool:
        """Whether the other end has let this one in."""
        return bool(int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLOUT)

    def redial(self) -> None:
        """Try the next pairing of keys. ConfigError."""
        self._attempts += 1
        found = handshakes(self._own(), self._servers())
        self._connect(self._endpoint, found[self._attempts % len(found)])

    def _begin_switch(self, now: float) -> None:
        self._drained_s = None
        if self._monitor is None:
            self._monitor = self.socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._try_switch(now)

    def _try_switch(self, now: float) -> None:
        servers = self._servers()
        self._tried_s = now
        self._connect(self._spare, Handshake(self._shown, servers[self._tries % len(servers)]))
        self._tries += 1

    def _follow_switch(self, monitor: zmq.Socket[bytes], now: float) -> None:
        if monitor.poll(0):
            self.socket.disable_monitor()
            monitor.close(0)
            self._monitor = None
            self._endpoint, self._spare = self._spare, self._endpoint
            self._tries, self._attempts = 0, 0
            self._drained_s = now + DRAIN_S
        elif now - self._tried_s >= REDIAL_S:
            self._try_switch(now)

    def _connect(self, endpoint: str, handshake: Handshake) -> None:
        self._disconnect(endpoint)
        handshake.apply(self.socket)
        self.socket.connect(endpoint)

    def _disconnect(self, endpoint: str) -> None:
        with suppress(zmq.ZMQError):  # libzmq gives up an endpoint that refused the key
            self.socket.disconnect(endpoint)


def _respelt(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:0{port}"
