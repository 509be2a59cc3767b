"""Fair turns at a socket for requests: what waits is kept by sender, and served by its cost."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from agent.net.router import Router
from agent.net.start_time_fair_queue import StartTimeFairQueue
from agent.wire.codec import Frame, glimpse
from agent.wire.principals import Sender

# Requests read from the socket per turn, and those served per turn: a neighbour's heartbeat must
# not wait for a request of each of thousands of clients.
TAKEN: Final = 64
SERVED: Final = 16
# A large request ends the turn: each megabyte takes half a millisecond.
TAKEN_BYTES: Final = 1 << 18
# After this time the process's other sockets are served.
SLICE_S: Final = 0.0003
# Limit on one sender's waiting requests: some ten thousand small queries, or four of the largest.
MAX_WAITING_OF_ONE: Final = 4 << 20
# Limit on all; beyond it requests wait in libzmq, where the intake bounds them.
MAX_WAITING: Final = 16 << 20
TOO_MANY: Final = "too many requests of yours wait here: let answers come before you ask more"

# Called with the connection's identity, the frame, and the sender.
Serve = Callable[[bytes, Frame, Sender], object]
# Called with the connection's identity, the codec to answer in, and the request's id if seen.
Refuse = Callable[[bytes, bytes, str], object]


class _Waiting(NamedTuple):
    """A request that is not decoded yet."""

    identity: bytes
    frame: Frame
    sender: Sender


class FairTurns:
    """Serves the requests of a router fairly by their cost; a timer of the event loop, which also
    calls `turn` when the socket is readable.

    With keys each party is a sender, without keys each connection. `refuse` answers a request
    beyond what one sender may have waiting. What a connection queued is dropped when it is found
    closed.
    """

    def __init__(
        self, router: Router, serve: Serve, refuse: Refuse, *, clock: Callable[[], float]
    ) -> None:
        self._router = router
        self._serve = serve
        self._refuse = refuse
        self._clock = clock
        self._waiting: StartTimeFairQueue[_Waiting] = StartTimeFairQueue(
            MAX_WAITING_OF_ONE, MAX_WAITING
        )
        # How many requests of each connection wait, by sender: one that is gone may leave some, and
        # another party then choose its identity.
        self._connections: dict[bytes, dict[Hashable, int]] = {}
        router.on_gone = self.drop

    @property
    def next_due(self) -> float | None:
        """At once, if requests wait."""
        return 0.0 if self._waiting else None

    def tick(self, _now: float) -> None:
        """Serve some of the waiting requests."""
        started = self._clock()
        for _ in range(SERVED):
            if not self._waiting:
                return
            flow, (identity, frame, sender) = self._waiting.pop()
            self._count(identity, flow, -1)
            before = self._clock()
            self._serve(identity, frame, sender)
            ended = self._clock()
            self._waiting.charge(flow, ended - before)
            if ended >= started + SLICE_S:
                return

    def turn(self) -> None:
        """Take requests from the socket, and serve some if none waited."""
        router, size = self._router, 0
        idle = not self._waiting
        for _ in range(TAKEN):
            if size >= TAKEN_BYTES or self._waiting.full:
                break
            if (received := router.receive()) is None:
                break
            identity, frame = received
            sender = router.sender(identity)
            size += len(frame)
            empty = router.empty
            if empty and idle and not self._waiting:
                # Nobody else waits: no turn to decide, and no debt that would outlast this one.
                self._serve(identity, frame, sender)
                return
            self._queue(identity, frame, sender)
            if empty:
                break
        if idle:  # otherwise the event loop wakes this anyway, once a turn
            self.tick(self._clock())

    def drop(self, identity: bytes) -> int:
        """Drop what a connection queued; returns how many requests there were."""
        flows = self._connections.pop(identity, {})
        return sum(
            self._waiting.drop(flow, lambda each: each.identity == identity) for flow in flows
        )

    def _queue(self, identity: bytes, frame: Frame, sender: Sender) -> None:
        keyed = sender.role != "anyone"
        flow: Hashable = (sender.role, sender.name) if keyed else bytes(identity)
        if self._waiting.put(flow, _Waiting(identity, frame, sender), len(frame)):
            self._count(identity, flow, 1)
        else:
            self._refuse(identity, *glimpse(frame))

    def _count(self, identity: bytes, flow: Hashable, more: int) -> None:
        flows = self._connections.setdefault(identity, {})
        flows[flow] = flows.get(flow, 0) + more
        if not flows[flow]:
            del flows[flow]
            if not flows:
                del self._connections[identity]
