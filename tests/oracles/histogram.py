"""The response-time histogram as a list of its samples."""

import math

BUCKETS = 1024
MIN_S = 10e-6
MAX_S = 600.0
EDGES = [MIN_S * (MAX_S / MIN_S) ** (i / BUCKETS) for i in range(BUCKETS + 1)]


def clamp(value_s: float) -> float:
    """The value moved into the range."""
    return min(max(value_s, MIN_S), MAX_S)


class NaiveHistogram:
    """Same window as `_core.deadlines.histogram.ResponseHistogram`, but it keeps every sample as it
    came."""

    def __init__(self, max_count: int = 10_000, max_age_s: float = 600.0) -> None:
        self.max_count = max_count
        self.max_age_ms = math.floor(max_age_s * 1000.0)
        self.now_ms = -(2**60)
        self.samples: list[tuple[int, float]] = []

    def insert(self, value_s: float, now_s: float) -> None:
        self.expire(now_s)
        self.samples = [*self.samples, (self.now_ms, clamp(value_s))][-self.max_count :]

    def expire(self, now_s: float) -> int:
        before = len(self.samples)
        self.now_ms = max(self.now_ms, math.floor(now_s * 1000.0))
        oldest = self.now_ms - self.max_age_ms
        self.samples = [sample for sample in self.samples if sample[0] >= oldest]
        return before - len(self.samples)

    def values(self) -> list[float]:
        """The samples in the window, ascending."""
        return sorted(value for _, value in self.samples)

    def mean(self) -> float:
        values = self.values()
        return math.fsum(values) / len(values)

    def quantile(self, p: float) -> float:
        values = self.values()
        return values[max(math.ceil(p * len(values)), 1) - 1]

    def cdf(self, t_s: float) -> float:
        values = self.values()
        return sum(value <= t_s for value in values) / len(values) if values else 0.0
