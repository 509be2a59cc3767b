"""Public plane: the socket for requests of clients and of other masters."""

from __future__ import annotations

from typing import Final

from agent.master.requests.request_plane import RequestPlane
from agent.net.fair_turns import TOO_MANY, FairTurns
from agent.net.router import Router
from agent.runtime.reactor import Reactor
from agent.runtime.token_bucket import TokenBuckets
from agent.scheduling.admission import ClientRates, cost_of
from agent.wire.codec import Frame, glimpse, glimpse_areas, type_of
from agent.wire.messages import Answer, Coverage, Refusal
from agent.wire.principals import Sender
from agent.wire.unions import PUBLIC_BULK, PublicRequest

# A smaller query is decoded in less time than it takes to tell what it is.
LARGE_QUERY_BYTES: Final = 1_024
# Facts of 1 MB take 15 ms, and a turn cannot be interrupted. A master tells them every five seconds
# at most, so of this one's time another one's may take so much, and so many seconds at once.
LARGE_FACTS_BYTES: Final = 1 << 14
FACTS_SHARE: Final = 0.02
FACTS_BURST_S: Final = 0.3
TOO_MUCH: Final = "you have told enough of late: tell it later"


class PublicPlane(RequestPlane):
    """Every refusal is answered. Senders are served fairly by the cost of their requests."""

    def __init__(self, reactor: Reactor, router: Router, rates: ClientRates | None = None) -> None:
        # Of queries, and of changes of watches and subscriptions.
        self.rates = ClientRates() if rates is None else rates
        self._facts = TokenBuckets(FACTS_BURST_S, FACTS_SHARE)
        self.turns = FairTurns(router, self._serve, self._over_rate, clock=reactor.clock)
        super().__init__(reactor, router, PublicRequest, _refusal, bulk=PUBLIC_BULK)
        # Results of nodes end what is open, and are bounded by it; requests are not.
        reactor.serve_last(router.socket)
        reactor.add_timer(self.turns, often=True)

    def _turn(self) -> None:
        self.turns.turn()

    def _over_rate(self, identity: bytes, codec: bytes, sender_id: str) -> None:
        self.refuse(identity, codec, sender_id, "over_rate", TOO_MANY)

    def _serve(self, identity: bytes, frame: Frame, sender: Sender) -> None:
        if len(frame) >= LARGE_FACTS_BYTES and self._are_facts(frame):
            self._serve_facts(identity, frame, sender)
        elif not self._refuses(identity, frame, sender):
            self._take(identity, frame, sender)

    def _are_facts(self, frame: Frame) -> bool:
        return type_of(frame, glimpse(frame)[0]) == "placement_facts"

    def _serve_facts(self, identity: bytes, frame: Frame, sender: Sender) -> None:
        """Facts that are not taken are told again: nobody answers them."""
        began_s = self._reactor.clock()
        key = bytes(identity) if sender.role == "anyone" else (sender.role, sender.name)
        budget = self._facts.of(key, began_s)
        if budget.wait_s(began_s, tokens=0.0):
            self.refuse(identity, glimpse(frame)[0], "", "over_rate", TOO_MUCH)
            return
        self._take(identity, frame, sender)
        budget.take(self._reactor.clock() - began_s)

    def _refuses(self, identity: bytes, frame: Frame, sender: Sender) -> bool:
        """Whether a large query is refused undecoded, because its sender is over its rate."""
        if len(frame) < LARGE_QUERY_BYTES or not (areas := glimpse_areas(frame)):
            return False
        refused = self.rates.would_refuse(sender, self._reactor.clock(), cost_of(areas))
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
