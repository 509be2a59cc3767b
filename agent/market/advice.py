"""What a buyer may do when too few sellers accept, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping

from agent.market.pools import in_words
from agent.wire.market import Offer, Terms


def advice(
    rate_per_s: float,
    latency_ms: float,
    relax: float,
    answers: Mapping[str, Offer | None],
    short: int,
) -> str:
    """Which lever wins `short` more sellers; `answers` are the last ones of those left out (None:
    no answer)."""
    near = sorted(
        (needed, iad, offer.counter)
        for iad, offer in answers.items()
        if offer is not None
        and offer.verdict == "countered"
        and offer.counter is not None
        and (needed := _relax_for(offer.counter, rate_per_s, latency_ms)) > relax
    )
    if near and len(near) >= short:
        needed, iad, counter = near[max(short, 1) - 1]
        return f"{iad} would keep {in_words(counter)}: try --relax {needed:g}"
    if answers and all(offer is None for offer in answers.values()):
        return f"no answer from {', '.join(sorted(answers))}: try again, or without them"
    return "try a longer --slo, a lower --rate or fewer areas"


def _relax_for(counter: Terms, rate_per_s: float, latency_ms: float) -> float:
    """The factor, to a tenth, within which a counter-offer lies."""
    factor = max(rate_per_s / counter.rate_per_s, counter.budget_ms / latency_ms, 1.0)
    return math.ceil(factor * 10.0 - 1e-9) / 10.0
