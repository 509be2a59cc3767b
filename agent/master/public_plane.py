"""Public plane: the socket for requests of clients and of other masters."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from agent.master.request_plane import RequestPlane
from agent.net.fair_queue import FairQueue
from agent.net.router import Router
from agent.runtime.reactor import Reactor
from agent.scheduling.admission import ClientRates, cost_of
from agent.wire.codec import MAX_JSON_COMMAS, Frame, glimpse, glimpse_areas
from agent.wire.messages import Answer, Coverage, Refusal
from agent.wire.principals import Sender
from agent.wire.unions import PublicRequest

# Requests read from the socket per turn, and those served per turn: a neighbour's heartbeat must
# not wait for a request of each of thousands of clients.
TAKEN: Final = 64
SERVED: Final = 16
# A large request ends the turn: each megabyte takes half a millisecond.
TAKEN_BYTES: Final = 1 << 18
# After this time the process's other sockets are served.
SLICE_S: Final = 0.001
# Limit on one sender's waiting requests: some ten thousand small queries, or four of the largest.
MAX_WAITING_OF_ONE: Final = 4 << 20
# Limit on all; beyond it requests wait at their senders.
MAX_WAITING: Final = 16 << 20
# A smaller query is decoded in less time than it takes to tell what it is.
LARGE_QUERY_BYTES: Final = 1_024
TOO_MANY: Final = "too many requests of yours wait here: let answers come before you ask more"


class _Waiting(NamedTuple):
    """A request that is not decoded yet."""

    identity: bytes
    frame: Frame
    sender: Sender


class PublicPlane(RequestPlane):
    """Every refusal is answered. Senders are served fairly by the cost of their requests; without
    keys each connection is a sender of its own, with keys each key."""

    def __init__(self, reactor: Reactor, router: Router, rates: ClientRates | None = None) -> None:
        # Of queries, and of changes of watches and subscriptions.
        self.rates = ClientRates() if rates is None else rates
        super().__init__(reactor, router, PublicRequest, _refusal, max_json_commas=MAX_JSON_COMMAS)
        self._waiting: FairQueue[_Waiting] = FairQueue(MAX_WAITING_OF_ONE, MAX_WAITING)
        # Requests of a keyless connection are discarded when it is found closed.
        router.on_gone = self._waiting.drop
        reactor.add_timer(self)

    @property
    def next_due(self) -> float | None:
        """At once, if requests wait."""
        return 0.0 if self._waiting else None

    def tick(self, _now: float) -> None:
        """Serve some of the waiting requests."""
        started = self._reactor.clock()
        for _ in range(SERVED):
            if not self._waiting:
                return
            flow, (identity, frame, sender) = self._waiting.pop()
            before = self._reactor.clock()
            if not self._refuses(identity, frame, sender, before):
                self._take(identity, frame, sender)
            ended = self._reactor.clock()
            self._waiting.charge(flow, ended - before)
            if ended >= started + SLICE_S:
                return

    def _turn(self) -> None:
        idle, size = not self._waiting, 0
        for _ in range(TAKEN):
            if size >= TAKEN_BYTES or self._waiting.full:
                break
            if (received := self._router.receive()) is None:
                break
            size += len(received[1])
            self._queue(*received)
        if idle:  # otherwise the reactor wakes this plane anyway, once a turn
            self.tick(self._reactor.clock())

    def _queue(self, identity: bytes, frame: Frame) -> None:
        sender = self._router.sender(identity)
        keyed = sender.role != "anyone"
        flow: Hashable = (sender.role, sender.name) if keyed else bytes(identity)
        if not self._waiting.put(flow, _Waiting(identity, frame, sender), len(frame)):
            codec, sender_id = glimpse(frame)
            self.refuse(identity, codec, sender_id, "over_rate", TOO_MANY)

    def _refuses(self, identity: bytes, frame: Frame, sender: Sender, now: float) -> bool:
        """Whether a large query is refused undecoded, because its sender is over its rate."""
        if len(frame) < LARGE_QUERY_BYTES or not (areas := glimpse_areas(frame)):
            return False
        refused = self.rates.would_refuse(sender, now, cost_of(areas))
        if refused is not None:
            codec, sender_id = glimpse(frame)
            self.refuse(identity, codec, sender_id, refused.reason, refused.message)
        return refused is not None


def _refusal(sender_id: str, reason: Refusal, line: str) -> Answer:
    return Answer(
        id=sender_id,
        status="refused",
        elapsed_ms=0.0,
        slo_met=False,
        coverage=Coverage(0, 0),
        reason=reason,
        message=line,
    )
