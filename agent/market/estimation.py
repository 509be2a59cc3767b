"""Capacity estimation: pods that a service needs at an edge node, and terms that a pod limit
allows.

DSSP Eqs. 7–10. A pod is an M/M/1 server: subtasks arrive at random at rate λ and take t_e seconds
each on average, so the time from arrival to end is exponential with rate 1/t_e − λ (Eq. 7). A task
on n nodes ends with its slowest subtask (Eq. 8). Requiring its p-th percentile to be at most x̄
(Eq. 9) requires of every node a rate of at least

    θ = −ln(1 − (p/100)^(1/n)) / x̄        so that        t_e ≤ 1/(λ + θ)        (Eq. 10)

A node with c pods counts as c such servers with λ/c each: subtasks are split at random. The node's
single queue in front of all pods does better, so the estimate is on the safe side.

Services sold at one node share its pods and its queue: their rates add up to Λ, and each must have
its own θ, so that the largest one binds: 1/t_e ≥ Λ/c + max θ.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.base import MAX_TIMEOUT_MS
from agent.wire.market import Terms

# Counter-offers are rounded to this many digits, in the seller's favour, because people read them.
DIGITS = 4
# Lower bounds of a counter-offer, in tasks per second and in milliseconds.
LEAST_RATE_PER_S = 0.001
LEAST_BUDGET_MS = 0.001
# Counter-offers that differ by more than this factor in rate or budget are useless to a buyer,
# which gets the reason instead.
FARTHEST = 10.0
# Smaller shares and times count as this, because the reciprocal of the term may overflow a double.
LEAST = 1e-300


class Demand(Struct, frozen=True):
    """The demand on one node: subtasks per second (λ), and the rate at which their response times
    must decay (θ, per second)."""

    rate_per_s: float
    decay_per_s: float

    def __add__(self, other: Demand) -> Demand:
        """The demand of both together."""
        return Demand(self.rate_per_s + other.rate_per_s, max(self.decay_per_s, other.decay_per_s))

    def __or__(self, other: Demand) -> Demand:
        """The larger demand in each respect: two terms of one service."""
        return Demand(
            max(self.rate_per_s, other.rate_per_s), max(self.decay_per_s, other.decay_per_s)
        )


NOTHING = Demand(0.0, 0.0)


def decay_per_s(percentile: float, budget_s: float, nodes: int) -> float:
    """θ: the least rate, per second, at which each of `nodes` equal nodes' exponential times must
    decay so that the `percentile`-th percentile of the slowest is `budget_s` (Eqs. 7–9)."""
    # 1 − (p/100)^(1/n), without the cancellation that it has for a large n.
    late = -math.expm1(math.log(max(percentile / 100.0, LEAST)) / nodes)
    return -math.log(late) / max(budget_s, LEAST)


def largest_execution_s(rate_per_s: float, percentile: float, budget_s: float, nodes: int) -> float:
    """t_e: the largest affordable mean execution time of a subtask, in seconds, for one pod a node
    (Eq. 10)."""
    return 1.0 / (rate_per_s + decay_per_s(percentile, budget_s, nodes))


def demand(terms: Terms, nodes: int) -> Demand:
    """The demand of `terms` on each of `nodes` nodes: every task goes to all of them."""
    return Demand(terms.rate_per_s, decay_per_s(terms.percentile, terms.budget_ms / 1e3, nodes))


def meets(mean_s: float, asked: Demand, pods: int) -> bool:
    """Whether a node with `pods` pods that take `mean_s` seconds per subtask meets the demand."""
    return mean_s * (asked.rate_per_s / pods + asked.decay_per_s) <= 1.0


def fewest_pods(mean_s: float, asked: Demand, most: int) -> int | None:
    """The smallest number of pods that meets the demand; None if `most` do not. O(log most)."""
    if asked.rate_per_s == 0.0:
        return 0
    # Rounded, too, more pods never meet less; Eq. 10 solved for them may round across one.
    pods = 1 + bisect_left(range(1, most + 1), True, key=lambda pods: meets(mean_s, asked, pods))
    return pods if pods <= most else None


def affordable(
    terms: Terms, means_s: Mapping[str, float], sold: Mapping[str, Demand], most: int
) -> bool:
    """Whether these nodes (name → mean execution time in seconds) meet `terms` with at most `most`
    pods each, in addition to what is `sold` at them already."""
    asked = demand(terms, len(means_s))
    return all(
        fewest_pods(mean_s, sold.get(node, NOTHING) + asked, most) is not None
        for node, mean_s in means_s.items()
    )


def counter_offer(
    terms: Terms, means_s: Mapping[str, float], sold: Mapping[str, Demand], most: int
) -> Terms | None:
    """The terms nearest to `terms` that the nodes can meet: the highest rate within the budget, or,
    if no rate will do, the shortest budget at that rate. None if neither is near."""
    offers = (
        _slower(terms, means_s, sold, most),
        _longer(terms, means_s, sold, most),
    )
    # An offer that rounding makes infeasible is not made.
    return next((o for o in offers if o and affordable(o, means_s, sold, most)), None)


def _slower(
    terms: Terms, means_s: Mapping[str, float], sold: Mapping[str, Demand], most: int
) -> Terms | None:
    asked = demand(terms, len(means_s))
    rate = terms.rate_per_s
    for node, mean_s in means_s.items():
        before = sold.get(node, NOTHING)
        decay = (before + asked).decay_per_s
        rate = min(rate, most * (1.0 / mean_s - decay) - before.rate_per_s)
    if rate < max(LEAST_RATE_PER_S, terms.rate_per_s / FARTHEST):
        return None
    return replace(terms, rate_per_s=_rounded(rate, math.floor))


def _longer(
    terms: Terms, means_s: Mapping[str, float], sold: Mapping[str, Demand], most: int
) -> Terms | None:
    decay = min(
        1.0 / mean_s - (sold.get(node, NOTHING).rate_per_s + terms.rate_per_s) / most
        for node, mean_s in means_s.items()
    )
    if decay <= 0.0:
        return None
    # θ times x̄ is the same for every budget.
    budget_ms = decay_per_s(terms.percentile, 1.0, len(means_s)) / decay * 1e3
    if not budget_ms < min(MAX_TIMEOUT_MS / 2, terms.budget_ms * FARTHEST):
        return None
    return replace(
        terms, budget_ms=_rounded(max(budget_ms, terms.budget_ms, LEAST_BUDGET_MS), math.ceil)
    )


def _rounded(value: float, whole: Callable[[float], int]) -> float:
    digits = DIGITS - 1 - math.floor(math.log10(value))
    # Through text, to get 12.3 rather than 12.299999999999999.
    return float(f"{whole(value * 10.0**digits)}e{-digits}")


def shares(mean_s: float, demands: Sequence[Demand], most: int) -> list[int]:
    """The pods of a node that each of its services accounts for, in the order sold: what the node
    needs in addition because of it. They add up to what the node needs, at most `most`."""
    counts, total, before = [], NOTHING, 0
    for one in demands:
        total = total + one
        pods = fewest_pods(mean_s, total, most)
        after = most if pods is None else pods
        counts.append(after - before)
        before = after
    return counts
