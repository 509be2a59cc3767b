"""The testbed sweep: percentiles, fits, crossings and the search for rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from fleet.simulation.measures import Outcome, percentile
from lab.testbed import calibration as testbed_calibration
from lab.testbed import run as testbed_run
from lab.testbed.calibration import CalibrationError, calibrated, root, trial
from lab.testbed.loads import Load, Turn, turns_of
from lab.testbed.measures import (
    BLOCK_QUERIES,
    CLASSES,
    SLO_MS,
    Blocks,
    Pair,
    Run,
    blocks_of,
    corrected,
    crossing,
    gain,
    interval,
    measured,
    missed,
    monotone,
    p99_ms,
    run_of,
)
from lab.testbed.options import Asked, options_of
from lab.testbed.virtual import Effort, Job, Sweep
from tests.lab.testbed_runs import PLAN, RATES, made


def test_a_run_pools_classes_in_the_order_of_arrival_and_counts_what_failed() -> None:
    outcomes = [
        Outcome(3, "2", 800.0, "complete", 30.0),
        Outcome(1, "1.1", 500.0, "complete", 10.0),
        Outcome(2, "1.2", 500.0, "partial", 20.0),
        Outcome(4, "3", 1_200.0, "no reply", None),
    ]
    run = run_of("real", "fifo", 5.0, outcomes, first=2)
    assert list(run.kinds) == [0, 1, 2]
    assert list(run.latencies_ms) == [math.inf, 30.0, math.inf]
    assert list(run_of("real", "fifo", 5.0, outcomes).of_class("1")) == [10.0, math.inf]


@pytest.mark.parametrize("n", [1, 99, 100, 101, 250])
def test_p99_is_the_nearest_rank_everywhere(n: int) -> None:
    latencies = np.random.default_rng(n).permutation(np.arange(1.0, n + 1))
    expected = percentile(sorted(latencies), 99)
    assert p99_ms(latencies) == expected
    run = Run("real", "fifo", 1.0, np.zeros(n, np.int8), latencies)
    assert blocks_of([run], seed=1, resamples=3).p99_ms(run, "1")[0] == expected


@pytest.mark.parametrize(
    ("n", "length"), [(10 * BLOCK_QUERIES, BLOCK_QUERIES), (200_000, 200), (70_001, 71)]
)
def test_a_resample_repeats_whole_blocks(n: int, length: int) -> None:
    run = made("fifo", 1.0, 1.0, n=n)
    blocks = Blocks(n, seed=3, resamples=20)
    assert blocks.counts.shape == (21, -(-n // length))
    for row, counts in enumerate(blocks.counts):
        repeated = np.concatenate(
            [np.repeat(np.arange(len(counts)), counts)[:, None] * length + np.arange(length)]
        ).ravel()
        repeated = repeated[repeated < n]
        chosen = run.latencies_ms[repeated][run.kinds[repeated] == 1]
        assert blocks.p99_ms(run, "2")[row] == percentile(sorted(chosen), 99)


def test_the_monotone_fit_pools_what_falls() -> None:
    assert monotone([1.0, 3.0, 2.0, 4.0], [1, 1, 1, 1]) == [1.0, 2.5, 2.5, 4.0]
    assert monotone([3.0, 1.0], [3, 1]) == [2.5, 2.5]
    assert monotone([2.0, 2.0, 1.0, 0.0], [1, 1, 1, 1]) == [1.25] * 4


@pytest.mark.parametrize(
    ("rates", "logs", "expected"),
    [
        ((10.0, 12.0, 14.0), (-0.2, -0.1, 0.1), 13.0),
        ((10.0, 12.0, 14.0), (-0.1, 0.1, 0.05), 10 + 2 * 0.1 / 0.175),
        ((10.0, 12.0, 14.0), (0.025, 0.075, 0.125), 9.0),
        ((10.0, 12.0, 14.0), (-0.125, -0.075, -0.025), 15.0),
        ((10.0, 12.0, 14.0), (0.5, 0.55, 0.6), -math.inf),
        ((10.0, 12.0, 14.0), (-0.6, -0.55, -0.5), math.inf),
        ((10.0, 12.0), (-0.1, math.inf), 10 + 2 * 0.1 / 3.1),
        ((10.0,), (-0.1,), math.inf),
    ],
)
def test_a_crossing_by_hand(rates: Sequence[float], logs: Sequence[float], expected: float) -> None:
    assert crossing(rates, logs, [1.0] * len(rates)) == pytest.approx(expected)


def test_the_highest_rate_is_found_and_its_interval_holds_it() -> None:
    """p99 / SLO = exp(0.05 (λ − 12.6)), other draws at each rate."""
    runs = [made("fifo", r, math.exp(0.05 * (r - 12.6)), seed=int(r)) for r in RATES]
    found = measured(runs, blocks_of(runs, seed=1, resamples=200))
    for kind in CLASSES:
        value, low, high = interval(found.by_class[kind])
        assert low < 12.6 < high
        assert low < value < high
        assert high - low < 4
    assert interval(found.overall).value == min(found.by_class[kind][0] for kind in CLASSES)


def test_the_luck_of_a_short_trace_is_taken_out() -> None:
    """The real fleet's p99 is 5 % higher: its highest rate is 1/s lower, which 900 queries show
    beside virtual time and could not show alone."""
    curve = [made("fifo", r, math.exp(0.05 * (r - 13.0)), n=100_000, seed=5) for r in RATES]
    pairs = []
    for seed in (7, 8, 9):
        virtual = made("fifo", 12.0, 0.9, n=900, seed=seed)
        real = virtual._replace(source="real", latencies_ms=virtual.latencies_ms * math.exp(0.05))
        pairs.append(Pair(real, virtual))
    curve_blocks = blocks_of(curve, 1, 100)
    blocks = blocks_of([pair.real for pair in pairs], 2, 100)
    with_luck = interval(measured([pair.real for pair in pairs], blocks).by_class["2"])
    virtual_only = measured(curve, curve_blocks)
    found = corrected(curve, curve_blocks, pairs, blocks)
    shift = found.by_class["2"] - virtual_only.by_class["2"]
    assert shift == pytest.approx(-1.0, abs=0.02)
    alone = with_luck.high - with_luck.low
    removed = interval(found.by_class["2"])
    assert not alone < 3 * (removed.high - removed.low)


def test_the_tail_is_that_of_the_repeated_queries() -> None:
    run = made("fifo", 1.0, 1.0, n=1_000)
    run.latencies_ms[7] = np.inf
    blocks = Blocks(1_000, seed=3, resamples=20)
    found = blocks.tail(run, "2", 900.0)
    for row, counts in enumerate(blocks.counts):
        queries = np.concatenate(
            [
                np.tile(np.arange(1_000)[b * blocks.length : (b + 1) * blocks.length], times)
                for b, times in enumerate(counts)
            ]
        )
        mine = np.sort(run.latencies_ms[queries[run.kinds[queries] == 1]])
        slowest = mine[-math.ceil(0.05 * len(mine)) :]
        assert found[row] == pytest.approx(np.mean(np.log(np.minimum(slowest, 900.0))))


def test_what_policies_have_in_common_cancels_in_the_gain() -> None:
    base = [made("fifo", r, math.exp(0.05 * (r - 12.0)), seed=3) for r in RATES]
    over = [made("edfq", 1.3 * r, math.exp(0.05 * (r - 12.0)), seed=3) for r in RATES]
    blocks = blocks_of(base + over, seed=1, resamples=100)
    more = gain(measured(over, blocks).overall, measured(base, blocks).overall)
    assert more == pytest.approx(30.0)
    assert list(
        gain(np.array([np.inf, 2.0, -np.inf, np.inf]), np.array([1.0, np.inf, 1.0, np.inf]))
    )[:3] == [np.inf, -np.inf, -np.inf]


def test_late_queries_come_with_their_wilson_interval() -> None:
    latencies = np.concatenate([np.full(490, 100.0), np.full(10, 501.0)])
    found = missed(Run("real", "fifo", 1.0, np.zeros(500, np.int8), latencies), "1")
    assert (found.missed, found.n) == (10, 500)
    assert (found.low, found.high) == pytest.approx((0.01091, 0.03642), abs=1e-4)


# --- rates ----------------------------------------------------------------------------------------


def analytic(highest: dict[str, float]) -> Callable[[Sequence[Job]], Iterator[Run]]:
    """Workers whose p99 passes the SLO of each class at a given rate; 10 % a query/s."""

    def all_of(jobs: Sequence[Job]) -> Iterator[Run]:
        for job in jobs:
            kinds = np.repeat(np.arange(len(CLASSES), dtype=np.int8), 100)
            levels = [
                SLO_MS[kind] * math.exp(0.1 * (job.rate_per_s - highest[kind])) for kind in CLASSES
            ]
            yield Run("virtual", job.policy, job.rate_per_s, kinds, np.repeat(levels, 100))

    return all_of


@pytest.mark.parametrize(
    "highest",
    [
        {"1": 13.2, "2": 17.8, "3": 20.1},
        {"1": 3.1, "2": 40.2, "3": 12.0},
        {"1": 22.2, "2": 22.2, "3": 15.9},
    ],
)
def test_the_search_surrounds_every_crossing(highest: dict[str, float]) -> None:
    told: list[str] = []
    search = Sweep(PLAN, "fifo", Effort(100, 2, 3, 1), analytic(highest), told.append)
    search.search()
    runs = search.runs()
    found = measured(runs, blocks_of(runs, 1, 5))
    for kind in CLASSES:
        assert found.by_class[kind][0] == pytest.approx(highest[kind], abs=0.01)
    least = min(highest.values())
    queries = {run.rate_per_s: len(run.kinds) for run in runs}
    assert {n for rate, n in queries.items() if abs(rate - least) < 2} == {5 * 300}
    assert min(queries.values()) == 2 * 300
    assert len(runs) <= 14
    assert told


def test_real_rates_surround_the_virtual_ones() -> None:
    curve = list(
        analytic({"1": 13.24, "2": 20.0, "3": 20.0})(
            [Job(PLAN, "fifo", rate, 1, 1) for rate in (12.0, 14.0)]
        )
    )
    options = options_of(Asked())
    assert testbed_run.rates_of(options, {"fifo": curve}) == {"fifo": (12.2, 14.3)}
    fixed = replace(options, rates_per_s=(8.0, 9.0))
    rates = testbed_run.rates_of(fixed, {"fifo": curve, "spr": curve})
    assert rates == {"fifo": (8.0, 9.0), "spr": (8.0, 9.0)}


def test_a_policy_learns_before_its_turn() -> None:
    first, last = turns_of({"fifo": (8.0, 9.0), "edfq": (10.0,)}, 2, seconds=75.0, learning_s=60.0)
    assert first == Turn(
        "edfq", Load("edfq", 10.0, 2_999, 60.0), (Load("edfq", 10.0, 2_000, 75.0),)
    )
    assert last.learning == Load("fifo", 8.0, 2_999, 60.0)
    assert [(load.name, load.seed) for load in last.loads] == [("fifo@8", 2_000), ("fifo@9", 2_001)]
    load = last.loads[0]
    assert (load.lead_s, load.takes_s) == (3.0, 78.0)
    trace = load.trace(PLAN)
    assert trace[-1].at_s < 78.0
    assert [a.number for a in trace if a.at_s >= 3.0] == list(
        range(load.first(trace), len(trace) + 1)
    )


# --- calibration ----------------------------------------------------------------------------------


def test_a_root_is_found_from_either_side() -> None:
    assert root(lambda x: x**3 - 2, 0.0, 3.0, 1e-6) == pytest.approx(2 ** (1 / 3), abs=1e-4)
    assert root(lambda x: 1.7 - x, 3.0, 1.0, 1e-6) == pytest.approx(1.7, abs=1e-4)
    with pytest.raises(CalibrationError):
        root(lambda x: x + 1, 0.0, 3.0, 1e-6)


def test_calibration_puts_fifo_to_the_papers_rate() -> None:
    """Heavier tails make every policy's highest rate lower: 10 + 10 · (1 − σ) for FIFO."""

    def all_of(jobs: Sequence[Job]) -> Iterator[Run]:
        for job in jobs:
            assert job.shape is not None
            level = 10 + 10 * (1 - job.shape.value) + 5 * (job.policy == "edfq")
            yield from analytic(dict.fromkeys(CLASSES, level))([job])

    told: list[str] = []
    effort = Effort(100, 1, 1, 1)
    shape = calibrated(PLAN, "lognormal", effort, all_of, told.append)
    assert shape.value == pytest.approx(0.677, abs=0.003)
    result = trial(PLAN, shape, ("fifo", "edfq"), effort, all_of, told.append, fitted=True)
    assert result.highest["fifo"].value == pytest.approx(13.23, abs=0.05)
    assert result.over_fifo["edfq"].value == pytest.approx(100 * 5 / 13.23, abs=0.5)
    [row] = testbed_run.table_of_trials(("fifo", "edfq"), [result]).rows
    assert row[0].startswith("lognormal 0.67")
    assert row[1].startswith("13.2 ")
    assert row[-1].startswith("+38 %")
    assert testbed_calibration.FIFO_RATE_PER_S == 13.23
