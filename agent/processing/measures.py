"""Measurements of a processor, on the master's clock; CPU time is the worker's."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from _core.deadlines.histogram import ResponseHistogram

# Distributions are of so many messages and seconds at most.
KEPT: Final = 2_000
WINDOW_S: Final = 600.0
# Of an interval, nothing is too old.
ALL_S: Final = 1_000_000.0


class Counters(Struct):
    """Counted since the processor was created here."""

    arrived: int = 0
    repeated: int = 0  # arrived before
    held: int = 0  # times that the queue was full
    processed: int = 0
    replayed: int = 0  # processed again, to restore the state
    outputs: int = 0
    late: int = 0  # processed after their deadline
    failed: int = 0
    skipped: int = 0
    moved: int = 0  # to another worker
    checkpoints: int = 0
    cpu_s: float = 0.0  # of all messages, repetitions included


class Spread(Struct, frozen=True):
    """A distribution in seconds; NaN while it is empty."""

    count: int
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float


class Distributions:
    """CPU time of a message; waiting, from its arrival to its start; latency, from its arrival to
    its outputs. Of the last `window_s`."""

    def __init__(self, window_s: float) -> None:
        self.cpu = ResponseHistogram(KEPT, window_s)
        self.waiting = ResponseHistogram(KEPT, window_s)
        self.latency = ResponseHistogram(KEPT, window_s)

    def insert(self, now: float, cpu_s: float, waiting_s: float, latency_s: float) -> None:
        """A message was processed."""
        self.cpu.insert(cpu_s, now)
        self.waiting.insert(waiting_s, now)
        self.latency.insert(latency_s, now)

    def cpu_s(self, percentile: float, now: float) -> float | None:
        """A percentile of the CPU time; None of nothing."""
        return _percentile(self.cpu, percentile, now)

    def latency_s(self, percentile: float, now: float) -> float | None:
        """A percentile of the latency; None of nothing."""
        return _percentile(self.latency, percentile, now)

    def spreads(self, now: float) -> dict[str, Spread]:
        """All distributions, by name."""
        found = {}
        for name in ("cpu", "waiting", "latency"):
            histogram: ResponseHistogram = getattr(self, name)
            histogram.expire(now)
            found[name] = spread(histogram)
        return found


class Interval(Struct, frozen=True):
    """Measures since the interval before: differences of the counters, distributions."""

    counters: Counters
    spreads: dict[str, Spread]
    objective_s: float | None  # the percentile asked for


class Measures:
    """Counters and measures of a processor, and the same of the interval under way."""

    def __init__(self) -> None:
        self.counters = Counters()
        self.lately = Distributions(WINDOW_S)
        self._interval = Distributions(ALL_S)
        self._before = Counters()

    def processed(
        self, now: float, arrived_s: float, started_s: float, due_s: float, cpu_s: float
    ) -> None:
        """A message was processed for the first time."""
        self.counters.processed += 1
        self.counters.late += now > due_s
        for each in (self.lately, self._interval):
            each.insert(now, cpu_s, started_s - arrived_s, now - arrived_s)

    def next_interval(self, now: float, percentile: float) -> Interval:
        """The interval that ends now; the next one begins."""
        before = asdict(self._before)
        counted = {name: value - before[name] for name, value in asdict(self.counters).items()}
        found = Interval(
            Counters(**counted),
            self._interval.spreads(now),
            self._interval.latency_s(percentile, now),
        )
        self._before = replace(self.counters)
        self._interval = Distributions(ALL_S)
        return found


def _percentile(histogram: ResponseHistogram, percentile: float, now: float) -> float | None:
    histogram.expire(now)
    return histogram.quantile(percentile / 100.0) if histogram.count else None


def spread(histogram: ResponseHistogram) -> Spread:
    """Its mean and quantiles."""
    if not histogram.count:
        return Spread(0, *[float("nan")] * 4)
    quantiles = [histogram.quantile(p) for p in (0.5, 0.9, 0.99)]
    return Spread(histogram.count, histogram.mean(), *quantiles)
