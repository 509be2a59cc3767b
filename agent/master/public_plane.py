"""Public plane: the socket for requests of clients and of other masters."""

from __future__ import annotations

from agent.master.request_plane import RequestPlane
from agent.net.fair_turns import TOO_MANY, FairTurns
from agent.net.router import Router
from agent.runtime.reactor import Reactor
from agent.wire.codec import MAX_JSON_COMMAS
from agent.wire.messages import Answer, Coverage, Refusal
from agent.wire.unions import PublicRequest


class PublicPlane(RequestPlane):
    """Every refusal is answered. Senders are served fairly by the cost of their requests."""

    def __init__(self, reactor: Reactor, router: Router) -> None:
        self._turns = FairTurns(router, self._take, self._over_rate, clock=reactor.clock)
        super().__init__(reactor, router, PublicRequest, _refusal, max_json_commas=MAX_JSON_COMMAS)
        reactor.add_timer(self._turns)

    def _turn(self) -> None:
        self._turns.turn()

    def _over_rate(self, identity: bytes, codec: bytes, sender_id: str) -> None:
        self.refuse(identity, codec, sender_id, "over_rate", TOO_MANY)


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
