"""DEALER sockets to other agents, and reconnection while keys rotate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import zmq

from agent.net.keys import Pair, handshakes
from agent.net.options import prepare

# A peer that stopped answering is noticed after this long.
HEARTBEAT_IVL_MS = 2_000
DEAD_AFTER_MS = 6_000
# If there is no connection after this long, the next key is tried.
REDIAL_S = 2.0
# The first retries come sooner: the peer may just be asking the market for this key, and a service
# set-up waits only two seconds for an offer.
EARLY_REDIAL_S = 0.7
EARLY_REDIALS = 2
# A connection with another pair of keys than the likeliest, since the first attempt took too long
# or was refused, tries the likeliest after this long, then after twice as long each time: the other
# pair is refused once a rotation ends.
LIKELIEST_AGAIN_S = 4.0
LIKELIEST_AGAIN_MAX_S = 600.0
# A connection that its owner replaces, since the other end's key is none of its keys any more, is
# ended after this long: longer than replies are awaited on it, if there is another one by then.
UNKNOWN_S = 15.0


def unconnected(context: zmq.Context[zmq.Socket[bytes]], max_bytes: int) -> zmq.Socket[bytes]:
    """A DEALER, not connected yet, whose sends raise `zmq.Again` while it is not connected; OSError
    if the process is out of sockets or files."""
    try:
        socket = prepare(context.socket(zmq.DEALER), max_bytes)
    except zmq.ZMQError as error:
        raise OSError(f"cannot make another connection: {error.strerror}") from None
    socket.setsockopt(zmq.IMMEDIATE, 1)
    # Only results of our own tasks come in. With an unbounded queue heartbeats always get through;
    # unlike the kernel, they detect a master process that is stopped. Nor does a reset behind a
    # full queue end the process (agent/net/router.py).
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT_IVL_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, DEAD_AFTER_MS)
    socket.setsockopt(zmq.RECONNECT_IVL, 100)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, 5_000)
    return socket


class PlainLink:
    """Keeps one DEALER connected. libzmq tries again by itself, but never after the other end broke
    ZMTP's rules or refused the key; so while there is no connection, this connects anew:
    EARLY_REDIALS times after EARLY_REDIAL_S, then after REDIAL_S. The constructor connects:
    ZMQError for an invalid address. `attempts` counts those made, also before with other sockets.
    """

    def __init__(self, socket: zmq.Socket[bytes], address: str, attempts: int = 0) -> None:
        self.socket = socket
        self.address = address
        self._missed_s: float | None = None
        self.attempts = attempts
        self.redial()

    def look(self, now: float) -> float | None:
        """Check the connection; call about once a second, and at the time returned if not None."""
        if self.connected:
            self._missed_s = None
            # The next connection begins with the likeliest pair of keys: one that still uses a key
            # which is about to go would be refused then.
            self.attempts = 0
            return None
        if self._missed_s is None:
            self._missed_s = now
        elif now >= self._missed_s + self._pause_s:
            self._missed_s = now
            self.redial()
        return self._missed_s + self._pause_s if self.attempts <= EARLY_REDIALS else None

    @property
    def _pause_s(self) -> float:
        return EARLY_REDIAL_S if self.attempts <= EARLY_REDIALS else REDIAL_S

    @property
    def connected(self) -> bool:
        """Whether the peer has accepted the connection."""
        return bool(int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLOUT)

    def redial(self) -> None:
        """Connect anew."""
        self.attempts += 1
        with suppress(zmq.ZMQError):  # an endpoint that libzmq dropped
            self.socket.disconnect(self.address)
        self.socket.connect(self.address)


class KeyedLink(PlainLink):
    """The same while either end rotates its key: each attempt takes the next pair of `own()` and
    `servers()`. It reconnects as soon as the first key of `own()` changes, and now and then while
    it uses another pair than the likeliest; messages in flight are lost then. It reconnects, too,
    once the other end's key is none of `servers()`: it was revoked, or a rotation is over. With
    `renew` it calls that instead, and only while it uses another pair: its owner sees to the own
    key, and may have a second connection that begins with the likeliest one. The constructor,
    `look` and `redial` raise ConfigError if a key file cannot be read now.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        address: str,
        own: Callable[[], Sequence[Pair]],
        servers: Callable[[], Sequence[str]],
        *,
        renew: Callable[[], object] | None = None,
        attempts: int = 0,
    ) -> None:
        self._own = own
        self._servers = servers
        self._renew = renew
        self._shown = own()[0]
        self._again_in_s = LIKELIEST_AGAIN_S
        self._again_s: float | None = None
        self._unknown_s: float | None = None
        self.rounds = 0  # how often all pairs were tried
        super().__init__(socket, address, attempts)

    def look(self, now: float) -> float | None:
        """As that of a plain link, after a change of the own key."""
        if self._renew is None and self._own()[0] != self._shown:
            self._shown = self._own()[0]
            self._again_in_s = LIKELIEST_AGAIN_S
            self._begin_again()
        elif self.connected:
            if self.knows_peer:
                self._unknown_s = None
                self._return_to_likeliest(now)
            else:
                self._leave(now)
            if self.socket.closed:  # by its owner, who has another one now
                return None
        return super().look(now)

    @property
    def knows_peer(self) -> bool:
        """Whether the key that the other end was asked for is still one of its keys."""
        return self._server in self._servers()

    def _leave(self, now: float) -> None:
        """The other end is not who it was: only its owner may hold the connection for a while."""
        if self._renew is not None and self._unknown_s is None:
            self._unknown_s = now
            self._renew()
        elif self._unknown_s is None or now >= self._unknown_s + UNKNOWN_S:
            self._unknown_s = None
            self._begin_again()

    def _return_to_likeliest(self, now: float) -> None:
        if self._likeliest:
            self._again_s, self._again_in_s = None, LIKELIEST_AGAIN_S
        elif self._again_s is None:
            self._again_s = now + self._again_in_s
        elif now >= self._again_s:
            self._again_s = None
            self._again_in_s = min(2.0 * self._again_in_s, LIKELIEST_AGAIN_MAX_S)
            (self._renew or self._begin_again)()

    def _begin_again(self) -> None:
        self.attempts = 0
        self.redial()

    def redial(self) -> None:
        """Try the next pairing of keys."""
        found = handshakes(self._own(), self._servers())
        self.rounds, pairing = divmod(self.attempts, len(found))
        self._likeliest = pairing == 0
        self._server = found[pairing].server
        found[pairing].apply(self.socket)
        super().redial()
