"""Why a seller cannot keep terms, in words that name no number of nodes or pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from agent.market.estimation import LEAST_RATE_PER_S, affordable
from agent.market.pools import in_words
from agent.wire.market import Terms


def shortage(
    terms: Terms,
    means_s: Mapping[str, float],
    most: int,
    unmeasured: Collection[str],
) -> str:
    """What stands in the way of `terms`, which beside what is sold are not affordable (see
    `estimation.affordable`), and what would help; `unmeasured` nodes have a guessed mean."""
    if affordable(terms, means_s, {}, most):
        return "its pods are sold to other services: ask for a lower rate, or later"
    if any(node in unmeasured for node in means_s):
        # How slow they are taken to be is nobody's business on the other side.
        return "its nodes are not measured yet: query them first, or ask for more time"
    crawling = replace(terms, rate_per_s=min(terms.rate_per_s, LEAST_RATE_PER_S))
    if affordable(crawling, means_s, {}, most):
        return "the rate is too high for it: ask for a lower one, or for more time"
    return "it is too slow for this latency: ask for more time"


def cannot_keep(terms: Terms, cause: str) -> str:
    """``cannot keep 20 tasks/s, p99 ≤ 400 ms: …``."""
    return f"cannot keep {in_words(terms)}: {cause}"
