"""Explanations for the operator: why a negotiation ended as it did, and what would help."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from agent.market.estimation import LEAST_RATE_PER_S, affordable
from agent.market.rollout import Acknowledged
from agent.market.terms import in_words
from agent.wire.listing import few
from agent.wire.market import Offer, Service, Terms
from agent.wire.operator import MAX_RELAX

MAX_NAMED: Final = 4  # IADs in a reason
LATE_MS: Final = 60_000  # A request that came so late was not on its way.


def explain(
    rate_per_s: float,
    latency_ms: float,
    relax: float,
    answers: Mapping[str, Offer | None],
    short: int,
) -> str:
    """The change of the request that would win `short` more sellers; `answers` are the last ones of
    those left out (None: no answer)."""
    near = sorted(
        (needed, iad, offer.counter)
        for iad, offer in answers.items()
        if offer is not None
        and offer.verdict == "countered"
        and offer.counter is not None
        and relax < (needed := _relax_for(offer.counter, rate_per_s, latency_ms)) <= MAX_RELAX
    )
    if near and len(near) >= short:
        needed, iad, counter = near[max(short, 1) - 1]
        return f"{iad} would keep {in_words(counter)}: try --relax {needed:g}"
    if answers and all(offer is None for offer in answers.values()):
        return f"no answer from {', '.join(sorted(answers))}: try again, or without them"
    return "try a longer --slo, a lower --rate or fewer areas"


def _relax_for(counter: Terms, rate_per_s: float, latency_ms: float) -> float:
    """The factor, to a tenth, by which the request must be relaxed to meet a counter-offer;
    infinite if no request can be relaxed so far."""
    factor = max(rate_per_s / counter.rate_per_s, counter.budget_ms / latency_ms, 1.0)
    return math.ceil(factor * 10.0 - 1e-9) / 10.0 if factor <= MAX_RELAX else math.inf


def shortage(
    terms: Terms,
    means_s: Mapping[str, float],
    most: int,
    unmeasured: Collection[str],
) -> str:
    """The limit of `terms`, which in addition to what is sold are not affordable (see
    `estimation.affordable`), and what would help; `unmeasured` nodes have an assumed mean."""
    if affordable(terms, means_s, {}, most):
        return "its pods are sold to other services: ask for a lower rate, or later"
    if any(node in unmeasured for node in means_s):
        # The assumed execution times are not disclosed to the other side.
        return "its nodes are not measured yet: query them first, or ask for more time"
    crawling = replace(terms, rate_per_s=min(terms.rate_per_s, LEAST_RATE_PER_S))
    if affordable(crawling, means_s, {}, most):
        return "the rate is too high for it: ask for a lower one, or for more time"
    return "it is too slow for this latency: ask for more time"


def cannot_keep(terms: Terms, cause: str) -> str:
    """``cannot keep 20 tasks/s, p99 ≤ 400 ms: …``."""
    return f"cannot keep {in_words(terms)}: {cause}"


def counted(sellers: int) -> str:
    """``2 IADs offer``, or ``no IAD offers``."""
    return f"{sellers} IADs offer" if sellers > 1 else f"{sellers or 'no'} IAD offers"


def not_offered(missing: Sequence[str], capability: str, others: Sequence[str]) -> str:
    """``iad3 does not offer humidity there; iad1, iad2 do``."""
    one = len(missing) == 1
    text = f"{few(missing, MAX_NAMED)} {'does' if one else 'do'} not offer {capability} there"
    if not others:
        return f"{text}, nor does any other"
    return f"{text}; {few(others, MAX_NAMED)} {'does' if len(others) == 1 else 'do'}"


def taken_as(said: Acknowledged) -> str:
    """The role of a member from now on."""
    if said.delivery.leave:
        return "has left"
    return "serves" if said.delivery.member.areas else "schedules"


def pool_in_words(service: Service) -> str:
    """``2 serve, 1 only schedules: 20 tasks/s, p99.5 ≤ 800 ms``."""
    serving = sum(bool(member.areas) for member in service.members)
    only = len(service.members) - serving
    text = f"{serving} serve" if serving != 1 else "1 serves"
    if only:
        text += f", {only} only schedule" + ("s" if only == 1 else "")
    return f"{text}: {in_words(service.terms)}" if service.terms else text


def has_left(iad: str, service: str, ahead_ms: int) -> str:
    """Why a member does not join a service in a version that is so far behind the one that it left,
    in milliseconds: the request came late, or a clock was wrong."""
    said = f"{iad} has left {service}"
    if ahead_ms < LATE_MS:
        return said
    return (
        f"{said} in a version that is {ahead_ms // 1_000} s ahead of this one, since a clock was "
        "wrong: choose another name, or try again after that time"
    )
