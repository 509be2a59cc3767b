"""One buyer's negotiation with all candidates of a service: rounds of proposals until every
remaining candidate has accepted, or too few remain.

Each round asks for the task percentile that goes with the number of remaining candidates (DSSP Eq.
2): with fewer IADs it relaxes. A candidate that refuses or does not answer is dropped. If a
candidate was dropped, a counter-offer gets another round under the new percentile; otherwise it is
accepted if it lies within what the buyer would relax, and its candidate is dropped if not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import UNSET, Struct
from msgspec.structs import replace

from _core.deadlines.order_statistics import task_percentile
from agent.market.explanations import explain
from agent.market.rollout import Retry, Send
from agent.market.terms import in_words
from agent.wire.areas import AreaSet
from agent.wire.market import Member, Offer, Propose, Release, Terms
from agent.wire.operator import CreateService, Step

# A round waits for a quarter of the set-up's time, and at most this long.
MAX_ROUND_S = 2.0
ROUND_SHARE = 0.25
# Counter-offers accepted from one IAD; more would only cost the buyer time.
MAX_COUNTERS = 3
# A candidate that reports joining nodes is asked again, at most this often.
LEAST_RETRY_S = 0.05


class Wanted(Struct, frozen=True):
    """The buyer's request to all candidates: λ, and the SLO (p_q, x_q) that gives the budget."""

    service: str
    capability: str
    rate_per_s: float
    percentile: float
    latency_ms: float
    fewest: int
    relax: float


class _Candidate:
    """A candidate: its last proposal, and its answer."""

    __slots__ = ("asked", "base", "counters", "member", "message_id", "offer", "retry")

    def __init__(self, member: Member, base: Terms) -> None:
        self.member = member
        # The next proposal, without the percentile: the candidate's own counter-offer once that is
        # accepted.
        self.base = base
        self.asked = base
        self.counters = 0
        self.message_id = ""
        self.offer: Offer | None = None
        self.retry: Retry


class Negotiation:
    """Proposals to `members`, whose areas are those that each shall serve. `rates` are rates
    already agreed with some, in place of the wanted rate. Candidates with joining nodes are waited
    for, `patience_s` in all."""

    def __init__(
        self,
        wanted: Wanted,
        members: Iterable[Member],
        rates: dict[str, float],
        *,
        round_s: float,
        new_id: Callable[[], str],
        patience_s: float = 0.0,
    ) -> None:
        self._wanted = wanted
        self._round_s = round_s
        self._new_id = new_id
        self._candidates = {
            member.iad: _Candidate(
                member,
                Terms(
                    rates.get(member.iad, wanted.rate_per_s), wanted.percentile, wanted.latency_ms
                ),
            )
            for member in members
        }
        self._out: dict[str, _Candidate] = {}
        self._until_s = 0.0
        self._patience_s = patience_s
        self._patient_until_s = 0.0
        self.steps: list[Step] = []

    # --- state -------------------------------------------------------------------------------

    @property
    def enough(self) -> bool:
        """Whether as many candidates remain as the buyer needs."""
        return len(self._candidates) >= self._wanted.fewest

    @property
    def agreed(self) -> bool:
        """Whether all remaining candidates have accepted."""
        return all(
            c.offer is not None and c.offer.verdict == "accepted" for c in self._candidates.values()
        )

    @property
    def members(self) -> list[Member]:
        """The remaining candidates, with the rate that each agreed to."""
        return [replace(c.member, rate_per_s=c.asked.rate_per_s) for c in self._candidates.values()]

    @property
    def terms(self) -> Terms:
        """The pool's terms: the slowest rate, the longest budget that a candidate asked for."""
        asked = [c.asked for c in self._candidates.values()]
        return Terms(
            min(terms.rate_per_s for terms in asked),
            self._percentile(),
            max(terms.budget_ms for terms in asked),
        )

    @property
    def uncovered(self) -> list[str]:
        """Areas of dropped candidates that no remaining one covers."""
        kept = AreaSet(area for c in self._candidates.values() for area in c.member.areas)
        lost = {area for c in self._out.values() for area in c.member.areas}
        return sorted(area for area in lost if not kept.covers(area))

    @property
    def explanation(self) -> str:
        """The buyer's options if too few remain."""
        wanted = self._wanted
        answers = {iad: c.offer for iad, c in self._out.items()}
        short = wanted.fewest - len(self._candidates)
        return explain(wanted.rate_per_s, wanted.latency_ms, wanted.relax, answers, short)

    # --- events ------------------------------------------------------------------------------

    def start(self, now: float) -> list[Send]:
        """The first round."""
        for candidate in self._candidates.values():
            self._ask(candidate, now)
        self._until_s = now + self._round_s
        self._patient_until_s = now + self._patience_s
        return self._send_due(now)

    def offered(self, iad: str, offer: Offer, now: float) -> list[Send] | None:
        """A candidate answered; None if that does not answer its last proposal."""
        candidate = self._candidates.get(iad)
        if candidate is None or candidate.message_id != offer.id or candidate.offer is not None:
            return None
        if offer.verdict == "refused" and offer.retry_s is not UNSET:
            again_s = now + max(offer.retry_s, LEAST_RETRY_S)
            if again_s < self._patient_until_s:
                candidate.retry = Retry(again_s)
                self._until_s = max(self._until_s, again_s + self._round_s)
                return []
        candidate.offer = offer
        self.steps.append(_step(candidate))
        return self._conclude(now)

    @property
    def next_due(self) -> float | None:
        """When `tick` is due next."""
        dues = [c.retry.due_s for c in self._candidates.values() if c.offer is None]
        return min([*dues, self._until_s]) if dues else None

    def tick(self, now: float) -> list[Send]:
        """Ask candidates without an answer again; at the end of the round they are dropped."""
        return self._conclude(now) if now >= self._until_s else self._send_due(now)

    def release(self) -> list[Send]:
        """Release whatever candidates may hold."""
        return [
            self._release(c)
            for c in self._candidates.values()
            if c.offer is None or c.offer.verdict == "accepted"
        ]

    # --- rounds ------------------------------------------------------------------------------

    def _conclude(self, now: float) -> list[Send]:
        silent = [c for c in self._candidates.values() if c.offer is None]
        if silent and now < self._until_s:
            return []
        self.steps += [_step(c) for c in silent]
        out = silent + [
            c for c in self._candidates.values() if c.offer and c.offer.verdict == "refused"
        ]
        countered = [
            c for c in self._candidates.values() if c.offer and c.offer.verdict == "countered"
        ]
        if not out:
            out = [c for c in countered if not self._take(c)]
        # A candidate that did not answer may hold pods all the same.
        sends = [self._release(c) for c in out if c.offer is None]
        for candidate in out:
            del self._candidates[candidate.member.iad]
            self._out[candidate.member.iad] = candidate
        if not self.enough:
            return sends
        again = [c for c in countered if c not in out]
        for candidate in again:
            self._ask(candidate, now)
        self._until_s = now + self._round_s
        return [*sends, *self._send_due(now)]

    def _take(self, candidate: _Candidate) -> bool:
        """Whether a counter-offer lies within what the buyer relaxes: then it is proposed next."""
        assert candidate.offer is not None
        counter, wanted = candidate.offer.counter, self._wanted
        if counter is None or counter.percentile < candidate.asked.percentile:
            return False
        # Tolerance for numbers that were rounded in transit.
        relax = wanted.relax * (1.0 + 1e-9)
        if counter.rate_per_s * relax < wanted.rate_per_s:
            return False
        if counter.budget_ms > wanted.latency_ms * relax:
            return False
        if candidate.counters == MAX_COUNTERS:
            return False
        candidate.counters += 1
        # It relaxes what was asked, or leaves it: harder terms would be those of the whole pool.
        candidate.base = replace(
            counter,
            rate_per_s=min(counter.rate_per_s, candidate.asked.rate_per_s),
            budget_ms=max(counter.budget_ms, candidate.asked.budget_ms),
        )
        return True

    def _ask(self, candidate: _Candidate, now: float) -> None:
        candidate.asked = replace(candidate.base, percentile=self._percentile())
        candidate.message_id = self._new_id()
        candidate.offer = None
        candidate.retry = Retry(now)

    def _percentile(self) -> float:
        return task_percentile(self._wanted.percentile, len(self._candidates))

    def _send_due(self, now: float) -> list[Send]:
        sends = []
        for candidate in self._candidates.values():
            if candidate.offer is None and candidate.retry.due_s <= now:
                candidate.retry.sent(now)
                propose = Propose(
                    candidate.message_id,
                    self._wanted.service,
                    self._wanted.capability,
                    candidate.member.areas,
                    candidate.asked,
                )
                sends.append(Send(candidate.member.iad, propose))
        return sends

    def _release(self, candidate: _Candidate) -> Send:
        return Send(candidate.member.iad, Release(candidate.message_id, self._wanted.service))


def _step(candidate: _Candidate) -> Step:
    offer = candidate.offer
    if offer is None:
        outcome = "no answer"
    elif offer.verdict == "accepted":
        outcome = "accepted"
    elif offer.counter is not None and offer.verdict == "countered":
        outcome = f"counter-offer: {in_words(offer.counter)}"
        if offer.message:
            outcome += f" ({offer.message})"
    else:
        outcome = f"refused: {offer.message or 'no reason given'}"
    return Step("negotiate", candidate.member.iad, outcome[:512], candidate.asked)


def wanted_by(request: CreateService, fewest: int) -> Wanted:
    """A request to sellers, of which at least `fewest` must agree."""
    return Wanted(
        request.service,
        request.capability,
        request.rate_per_s,
        request.slo.percentile,
        request.slo.latency_ms,
        fewest,
        request.relax,
    )
