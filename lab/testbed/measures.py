"""Statistics of a sweep: from latencies to the highest rate that keeps every SLO, with intervals;
pure.

A run is one trace at one rate under one policy. Its interval comes from a bootstrap over blocks of
consecutive queries: neighbours share a queue, so single queries would look more independent than
they are. All runs of a sweep resample the same blocks, so effects common to all policies cancel in
their ratio.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from agent.wire.base import Policy
from fleet.simulation.measures import Outcome
from fleet.simulation.workload import PERCENTILE, TABLE_II
from lab.statistics import share

Floats = npt.NDArray[np.float64]
Source = Literal["real", "virtual"]

# Classes 1.1 and 1.2 count as one, as in the paper.
SLO_MS: Final = {kind.name.partition(".")[0]: kind.slo_ms for kind in TABLE_II}
CLASSES: Final = tuple(SLO_MS)
# About four seconds of the load: many times as long as a node's busy period. Long runs have longer
# blocks, and only as many as are needed to estimate their spread.
BLOCK_QUERIES: Final = 64
MAX_BLOCKS: Final = 1_000
RESAMPLES: Final = 1_000
# Minimum slope of log p99 per query/s: less than any load that queues.
LEAST_SLOPE: Final = 0.005
# The slowest 5 %: the queries around the p99.
TAIL: Final = 0.05
# How far beyond the outermost rates a crossing may be extrapolated, as a fraction of their span.
BEYOND: Final = 0.5


class Run(NamedTuple):
    """One run: of each query in the order of arrival its pooled class (index into `CLASSES`) and
    its latency, infinite if the answer was not complete. Several traces may follow each other."""

    source: Source
    policy: Policy
    rate_per_s: float
    kinds: npt.NDArray[np.int8]
    latencies_ms: Floats

    def of_class(self, kind: str) -> Floats:
        """Latencies of one class."""
        mine: Floats = self.latencies_ms[self.kinds == CLASSES.index(kind)]
        return mine


def run_of(
    source: Source,
    policy: Policy,
    rate_per_s: float,
    outcomes: Iterable[Outcome],
    *,
    first: int = 0,
) -> Run:
    """A run from its outcomes, in any order; those of arrivals before number `first` are
    excluded."""
    ordered = sorted((o for o in outcomes if o.number >= first), key=lambda o: o.number)
    kinds = [CLASSES.index(outcome.kind.partition(".")[0]) for outcome in ordered]
    latencies = [
        o.latency_ms if o.status == "complete" and o.latency_ms is not None else np.inf
        for o in ordered
    ]
    return Run(
        source, policy, rate_per_s, np.array(kinds, np.int8), np.array(latencies, np.float64)
    )


def joined(runs: Sequence[Run]) -> Run:
    """Runs of one policy at one rate, one after the other."""
    first = runs[0]
    return first._replace(
        kinds=np.concatenate([run.kinds for run in runs]),
        latencies_ms=np.concatenate([run.latencies_ms for run in runs]),
    )


# --- percentiles ----------------------------------------------------------------------------------


def p99_ms(latencies_ms: Floats) -> float:
    """The nearest-rank 99th percentile; NaN if there is no latency."""
    if not len(latencies_ms):
        return float("nan")
    rank = int(np.ceil(round(PERCENTILE / 100 * len(latencies_ms), 9)))
    return float(np.partition(latencies_ms, rank - 1)[rank - 1])


class Blocks:
    """The same blocks for every run of up to `queries` queries: resample r takes block b
    `counts[r, b]` times. Row 0 takes each once: the run as it was."""

    def __init__(self, queries: int, seed: int, resamples: int = RESAMPLES) -> None:
        self.length = max(BLOCK_QUERIES, -(-queries // MAX_BLOCKS))
        blocks = -(-queries // self.length)
        draw = np.random.default_rng(seed)
        drawn = draw.multinomial(blocks, np.full(blocks, 1 / blocks), size=resamples)
        self.counts = np.vstack([np.ones(blocks, np.int64), drawn])

    def p99_ms(self, run: Run, kind: str) -> Floats:
        """The p99 of one class in each resample; NaN where the class is not in it.

        O(resamples · queries of the class near its p99).
        """
        chosen = np.flatnonzero(run.kinds == CLASSES.index(kind))
        latencies, block = run.latencies_ms[chosen], chosen // self.length
        blocks = self.counts.shape[1]
        in_block = np.bincount(block, minlength=blocks)
        allowed = (1 - PERCENTILE / 100) * (self.counts @ in_block).astype(np.float64)
        # From the slowest down: p99 is the first with more than the allowed number at or above it.
        order = np.argsort(latencies)[::-1]
        rank = len(order) // 100
        near = 16 + 8 * int(np.sqrt(rank)) + rank // 10
        first, last = max(0, rank - near), min(len(order), rank + near)
        above = self.counts @ np.bincount(block[order[:first]], minlength=blocks)
        found = self._walk(latencies, block, order[first:last], allowed - above)
        if np.isnan(found).any():
            found = self._walk(latencies, block, order, allowed)
        return found

    def tail(self, run: Run, kind: str, most_ms: float) -> Floats:
        """The mean logarithm of the slowest `TAIL` of one class in each resample, none counted as
        more than `most_ms`; 0 where the class is not in it. O(resamples · queries of the class)."""
        chosen = np.flatnonzero(run.kinds == CLASSES.index(kind))
        latencies, block = run.latencies_ms[chosen], chosen // self.length
        order = np.argsort(latencies)[::-1]
        logs = np.log(np.minimum(latencies[order], most_ms))
        found = np.zeros(len(self.counts))
        for row, counts in enumerate(self.counts):
            taken = counts[block[order]]
            wanted = np.ceil(TAIL * taken.sum())
            if wanted:
                before = np.cumsum(taken) - taken
                found[row] = np.average(logs, weights=np.clip(wanted - before, 0, taken))
        return found

    def _walk(
        self,
        latencies: Floats,
        block: npt.NDArray[np.int64],
        order: npt.NDArray[np.int64],
        allowed: Floats,
    ) -> Floats:
        """NaN where the first of `order` is beyond the allowed number already, or the last is not
        yet."""
        found = np.full(len(allowed), np.nan)
        for row, counts in enumerate(self.counts):
            above = np.cumsum(counts[block[order]])
            most = round(float(allowed[row]), 9)
            place = int(np.searchsorted(above, most, side="right"))
            if place < len(order) and most >= 0:
                found[row] = latencies[order[place]]
        return found


def blocks_of(runs: Iterable[Run], seed: int, resamples: int = RESAMPLES) -> Blocks:
    """Blocks enough for the longest of the runs."""
    return Blocks(max(len(run.kinds) for run in runs), seed, resamples)


# --- crossings ------------------------------------------------------------------------------------


def monotone(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest ascending values in the sense of weighted least squares (pool adjacent
    violators)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, wa, na), (b, wb, nb) = pools[-2:]
            pools[-2:] = [((a * wa + b * wb) / (wa + wb), wa + wb, na + nb)]
    return [value for value, _, count in pools for _ in range(count)]


def crossing(rates: Sequence[float], logs: Sequence[float], weights: Sequence[float]) -> float:
    """The rate at which log(p99 / SLO) passes 0 on the monotone fit, linear between the rates.

    Beyond them it follows the slope of the straight line through all, but no farther than half
    their span: then it is infinite, or minus infinite where even the least rate is too high.
    `rates` ascend.
    """
    # An infinite p99 is far too high; that it is infinite must not distort a mean.
    fit = monotone([min(value, 3.0) for value in logs], weights)
    if fit[0] <= 0 < fit[-1]:
        right = next(i for i, value in enumerate(fit) if value > 0)
        part = fit[right - 1] / (fit[right - 1] - fit[right])
        return rates[right - 1] + part * (rates[right] - rates[right - 1])
    slope = _slope(rates, fit)
    reach = BEYOND * (rates[-1] - rates[0])
    nearest, value = (rates[0], fit[0]) if fit[0] > 0 else (rates[-1], fit[-1])
    away = -value / slope
    if abs(away) > reach:
        return float(np.copysign(np.inf, away))
    return nearest + away


def _slope(rates: Sequence[float], values: Sequence[float]) -> float:
    if rates[0] == rates[-1]:
        return LEAST_SLOPE
    return max(LEAST_SLOPE, float(np.polyfit(rates, values, 1)[0]))


class Interval(NamedTuple):
    """An estimate and the middle 95 % of its resamples."""

    value: float
    low: float
    high: float


def interval(resampled: Floats) -> Interval:
    """From resamples of which the first is the sample itself."""
    known = resampled[~np.isnan(resampled)]
    if not len(known):
        return Interval(np.nan, np.nan, np.nan)
    # An observed value, not an interpolated one, because some may be infinite.
    low, high = np.quantile(known, (0.025, 0.975), method="nearest")
    return Interval(float(resampled[0]), float(low), float(high))


class Highest(NamedTuple):
    """The highest rate of one policy, in each resample: by class, and that of all classes."""

    by_class: Mapping[str, Floats]
    overall: Floats


def log_ratios(runs: Sequence[Run], blocks: Blocks, kind: str) -> Floats:
    """log(p99 / SLO) of one class: a row a resample, a column a run."""
    columns = [np.log(blocks.p99_ms(run, kind) / SLO_MS[kind]) for run in runs]
    return np.column_stack(columns)


def highest(
    rates: Sequence[float], logs: Mapping[str, Floats], weights: Sequence[float]
) -> Highest:
    """The crossing of every class, and the least of them; `logs` as `log_ratios` gives them."""
    by_class = {
        kind: np.array([_crossing(rates, row, weights) for row in rows])
        for kind, rows in logs.items()
    }
    return Highest(by_class, np.min(np.vstack(list(by_class.values())), axis=0))


def _crossing(rates: Sequence[float], logs: Floats, weights: Sequence[float]) -> float:
    known = ~np.isnan(logs)
    if not known.any():
        return float("nan")
    return crossing(
        [rate for rate, k in zip(rates, known, strict=True) if k],
        [float(value) for value in logs[known]],
        [weight for weight, k in zip(weights, known, strict=True) if k],
    )


def measured(runs: Sequence[Run], blocks: Blocks) -> Highest:
    """The highest rate by these runs alone."""
    runs = sorted(runs, key=lambda run: run.rate_per_s)
    logs = {kind: log_ratios(runs, blocks, kind) for kind in CLASSES}
    return highest([r.rate_per_s for r in runs], logs, [float(len(r.kinds)) for r in runs])


class Pair(NamedTuple):
    """The same trace on the real fleet and in virtual time."""

    real: Run
    virtual: Run


def corrected(
    curve: Sequence[Run], curve_blocks: Blocks, pairs: Sequence[Pair], blocks: Blocks
) -> Highest:
    """The real fleet's highest rate with the luck of its short traces taken out.

    A control variate: the long virtual curve, shifted in log p99 by how much slower the real
    fleet's tail was than virtual time's *for the same queries and service times* (`slower`). The
    shift of a class is the mean over the pairs, by their number of queries.
    """
    curve = sorted(curve, key=lambda run: run.rate_per_s)
    weights = np.array([float(len(pair.real.kinds)) for pair in pairs])
    logs = {}
    for kind in CLASSES:
        more = np.average([slower(pair, kind, blocks) for pair in pairs], axis=0, weights=weights)
        logs[kind] = log_ratios(curve, curve_blocks, kind) + more[:, None]
    return highest([r.rate_per_s for r in curve], logs, [float(len(r.kinds)) for r in curve])


def slower(pair: Pair, kind: str, blocks: Blocks) -> Floats:
    """How much slower the real fleet's tail is, in each resample: the mean of log(real / virtual)
    over the slowest `TAIL` of a class, each compared in rank.

    All of the tail, since the p99 of a short run is one query's latency; of the very slowest ones
    three times the SLO counts as enough.
    """
    most = 3.0 * SLO_MS[kind]
    tails = [blocks.tail(run, kind, most) for run in (pair.real, pair.virtual)]
    found: Floats = tails[0] - tails[1]
    return found


def gain(over: Floats, base: Floats) -> Floats:
    """Relative gain, in percent, in each resample: infinite if one of them is beyond the rates, NaN
    if both are."""
    with np.errstate(invalid="ignore"):
        more = 100 * (over / base - 1)
    more = np.where(np.isinf(over), over, np.where(np.isinf(base), -base, more))
    return np.where(np.isinf(over) & np.isinf(base), np.nan, more)


class Missed(Struct, frozen=True):
    """Queries of a class beyond its SLO, with the Wilson interval of their share."""

    missed: int
    n: int
    low: float
    high: float


def missed(run: Run, kind: str) -> Missed:
    """The p99 is within the SLO exactly if the share is at most 1 %."""
    latencies = run.of_class(kind)
    n, count = len(latencies), int(np.sum(latencies > SLO_MS[kind]))
    if n == 0:
        return Missed(0, 0, 0.0, 1.0)
    found = share(count, n)
    return Missed(count, n, found.low, found.high)
