"""Order statistics evaluated in full, in float64, from lists of samples.

Two of them: `NaiveModel` is the model of docs/understand/deadlines.md, every column computed anew
for every answer; `exact_quantile` is DSSP Eqs. 3-4 over the bare samples, without buckets or
priors.
"""

import bisect
import itertools
import math

from tests.oracles.histogram import BUCKETS, EDGES, NaiveHistogram, clamp

LOG_ZERO = -1e4
LOG_ONE = -1e-12
F_MIN = 1e-4
MIDDLES = [math.sqrt(low * high) for low, high in itertools.pairwise(EDGES)]


def bucket_of(value_s: float) -> int:
    """The bucket whose bounds hold the value."""
    return min(bisect.bisect_right(EDGES, clamp(value_s)) - 1, BUCKETS - 1)


def bucket_counts(values: list[float]) -> list[int]:
    """How many of the values fall into each bucket."""
    counts = [0] * BUCKETS
    for value in values:
        counts[bucket_of(value)] += 1
    return counts


def mean_excess(counts: list[int], p: float, weight: float, prior_s: float) -> float:
    """Mean of (x - u | x > u), u the p-quantile, shrunk to the prior."""
    total = sum(counts)
    if total == 0:
        return prior_s
    below = 0
    for bucket in range(BUCKETS):
        below += counts[bucket]
        if below >= p * total:
            break
    u = EDGES[bucket + 1]
    above = range(bucket + 1, BUCKETS)
    excess = math.fsum(counts[b] * (MIDDLES[b] - u) for b in above)
    return (weight * prior_s + excess) / (weight + sum(counts[b] for b in above))


def shrunk_hazards(counts: list[int], prior: list[float], weight: float) -> list[float]:
    """P(in bucket b | not below it), shrunk to the prior's."""
    hazards = []
    left = sum(counts)
    for count, base in zip(counts, prior, strict=True):
        hazards.append((count + weight * base) / (left + weight))
        left -= count
    return hazards


def log_cdf(hazards: list[float]) -> list[float]:
    """log F at the upper bound of each bucket, between the floor and the cap."""
    logs = []
    survival = 1.0
    for hazard in hazards:
        survival *= 1.0 - hazard
        log_f = math.log1p(-survival) if 1.0 - survival >= F_MIN else LOG_ZERO
        logs.append(min(max(log_f, LOG_ZERO), LOG_ONE))
    return logs


class NaiveModel:
    """Same model as `_core.deadlines.order_statistics.UnloadedModel` with nothing stale."""

    def __init__(
        self,
        *,
        max_count: int = 10_000,
        max_age_s: float = 600.0,
        prior_mean_s: float = 0.1,
        prior_weight: float = 10.0,
    ) -> None:
        self.window = (max_count, max_age_s)
        self.prior_mean_s = prior_mean_s
        self.weight = prior_weight
        self.now_s = -math.inf
        self.nodes: dict[int, NaiveHistogram] = {}

    def add_node(self) -> int:
        column = next(i for i in range(len(self.nodes) + 1) if i not in self.nodes)
        self.nodes[column] = NaiveHistogram(*self.window)
        return column

    def remove_node(self, column: int) -> None:
        del self.nodes[column]

    def observe(self, column: int, value_s: float, now_s: float) -> None:
        self.now_s = max(self.now_s, now_s)
        self.nodes[column].insert(value_s, self.now_s)

    def pool_hazards(self) -> list[float]:
        """The pool's, shrunk to an exponential of its mean excess."""
        pool = bucket_counts([v for node in self.nodes.values() for v in node.values()])
        scale = mean_excess(pool, 0.9, self.weight, self.prior_mean_s)
        scale = mean_excess(pool, 0.99, self.weight, scale)
        widths = [high - low for low, high in itertools.pairwise([0.0, *EDGES[1:]])]
        base = [-math.expm1(-width / scale) for width in widths]
        return shrunk_hazards(pool, base, self.weight)

    def log_cdfs(self, columns: list[int], now_s: float) -> list[list[float]]:
        """log F of each column. Samples age only in nodes that are touched, as in the twin."""
        self.now_s = max(self.now_s, now_s)
        for column in columns:
            self.nodes[column].expire(self.now_s)
        pool = self.pool_hazards()
        counts = [bucket_counts(self.nodes[column].values()) for column in columns]
        return [log_cdf(shrunk_hazards(own, pool, self.weight)) for own in counts]

    def bracket(self, columns: list[int], p_t: float, now_s: float) -> tuple[float, float]:
        """The bounds of the bucket in which G passes p_t, (MAX_S, MAX_S) if none."""
        target = math.log(p_t / 100.0)
        rows = zip(*self.log_cdfs(columns, now_s), strict=True)
        for bucket, row in enumerate(rows):
            if math.fsum(row) >= target:
                return EDGES[bucket], EDGES[bucket + 1]
        return EDGES[-1], EDGES[-1]


def exact_quantile(samples: list[list[float]], p_t: float) -> float:
    """The smallest sample t with G(t) = product of the shares of samples <= t at least p_t."""
    ordered = [sorted(values) for values in samples]
    candidates = sorted(value for values in samples for value in values)
    target = math.log(p_t / 100.0)

    def log_g(t_s: float) -> float:
        shares = [bisect.bisect_right(values, t_s) / len(values) for values in ordered]
        return math.fsum(math.log(share) for share in shares) if all(shares) else -math.inf

    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if log_g(candidates[middle]) >= target:
            high = middle
        else:
            low = middle + 1
    return candidates[low]
