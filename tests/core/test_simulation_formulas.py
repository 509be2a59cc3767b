"""The simulator against closed forms: waits, distributions, and what of them is known."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from _core.queue.policy import POLICIES
from _core.simulator import ServiceTimes, Trace, simulate_events, simulate_nodes
from tests.core.simulation_traces import BOTH, Simulate, one_node


def erlang_wait(pods: int, load: float) -> float:
    """The mean wait in an M/M/c queue, in units of the mean service time (Erlang C)."""
    offered = pods * load
    waits = offered**pods / math.factorial(pods) / (1.0 - load)
    idle = sum(offered**i / math.factorial(i) for i in range(pods))
    return waits / (waits + idle) / (pods * (1.0 - load))


@BOTH
@pytest.mark.parametrize("pods", [1, 2, 5])
def test_mean_wait_of_a_markov_queue(simulate: Simulate, pods: int) -> None:
    queries, load = 400_000, 0.7
    arrived_s = np.cumsum(np.random.default_rng(1).exponential(1.0 / (pods * load), queries))
    run = simulate(
        Trace(**one_node(pods, arrived_s)),
        [ServiceTimes.exponential_sum([1.0])],
        array("i", [0]),
        policy="fifo",
        seed=1,
        record=True,
    )
    wait_s = np.asarray(run.subtask_dispatched_s) - arrived_s
    assert wait_s.mean() == pytest.approx(erlang_wait(pods, load), rel=0.04)
    assert run.busy_s[0] / queries == pytest.approx(1.0, rel=0.01)


def drawn(service: ServiceTimes, count: int = 400_000) -> np.ndarray:
    """Service times as a node without a queue takes them."""
    trace = Trace(**one_node(1, np.arange(count) * 1e4))
    run = simulate_nodes(trace, [service], array("i", [0]), policy="fifo", seed=3)
    return np.asarray(run.query_latency_s)


def within(times: np.ndarray, t: float) -> float:
    return float(np.mean(times <= t))


def test_a_sum_of_exponentials_has_its_distribution() -> None:
    times = drawn(ServiceTimes.exponential_sum([1.0, 3.0]))
    for t in (0.1, 1.0, 4.0, 10.0, 25.0):
        exact = 1.0 - (3.0 * math.exp(-t / 3.0) - math.exp(-t)) / 2.0
        assert within(times, t) == pytest.approx(exact, abs=0.003)
    assert times.mean() == pytest.approx(4.0, rel=0.01)


def test_an_exponential_has_its_tail() -> None:
    times = drawn(ServiceTimes.exponential_sum([1.0]), 2_000_000)
    for t in (0.01, 0.5, 3.0, 7.6, 9.0):  # the last is beyond the ziggurat's end
        beyond = math.exp(-t)
        error = math.sqrt(beyond / len(times))
        assert abs(1.0 - within(times, t) - beyond) < 5 * error


def test_a_lognormal_has_its_distribution() -> None:
    mean_s, sigma = 0.1, 0.6
    times = drawn(ServiceTimes.lognormal(mean_s, sigma, 0.5)) - 0.5
    mu = math.log(mean_s) - sigma**2 / 2
    for z in (-2.0, -1.0, 0.0, 1.0, 2.0):
        exact = 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))
        assert within(times, math.exp(mu + z * sigma)) == pytest.approx(exact, abs=0.003)
    assert times.mean() == pytest.approx(mean_s, rel=0.01)


def test_quantiles_are_interpolated_and_extended_at_both_ends() -> None:
    service = ServiceTimes.quantiles(array("d", [1.0, 2.0, 4.0]), exponential_tail_s=2.0)
    times = drawn(service)
    shares = {0.5: 0.0, 0.75: 0.125, 1.0: 0.25, 1.5: 0.375, 2.0: 0.5, 3.0: 0.625, 4.0: 0.75}
    shares[8.0] = 1.0 - 0.25 * math.exp(-2.0)
    for t, share in shares.items():
        assert within(times, t) == pytest.approx(share, abs=0.003)


# What is known in advance shows in which subtasks are demoted by an idle node: those that are
# expected to take longer than their budget.
GRID_S = np.linspace(0.05, 8.0, 160)


def times_and_expected(service: ServiceTimes, count: int = 40_000) -> tuple[Any, Any]:
    """Service times, and what was expected of each: the least time of GRID_S not below it, else
    infinity."""
    arrived_s = np.arange(count) * 1e4
    expected_s = np.full(count, np.inf)
    for budget_s in GRID_S[::-1]:
        trace = Trace(**one_node(1, arrived_s, budget_s))
        run = simulate_nodes(
            trace, [service], array("i", [0]), policy="sanderling", seed=3, record=True
        )
        expected_s[~np.asarray(run.subtask_demoted, dtype=bool)] = budget_s
    return np.asarray(run.query_latency_s), expected_s


def assert_calibrated(times: np.ndarray, expected_s: np.ndarray) -> None:
    """Of those of which about t was expected the mean is about t."""
    for low, high in ((0.05, 0.5), (0.5, 1.0), (1.0, 2.0), (2.0, 4.0)):
        some = (low < expected_s) & (expected_s <= high)
        if some.sum() > 1_000:
            error = times[some].std() / math.sqrt(some.sum())
            # A grid's value is too high by up to its step.
            off = (expected_s[some] - times[some]).mean()
            assert -4 * error < off < GRID_S[1] - GRID_S[0] + 4 * error


@pytest.mark.parametrize("known", [0.01, 0.5, 0.9])
def test_the_known_part_of_an_exponential(known: float) -> None:
    mean_s = 1.0
    service = ServiceTimes.exponential_sum([0.25, mean_s], known=known)
    times, expected_s = times_and_expected(service)
    assert list(times) == list(drawn(ServiceTimes.exponential_sum([0.25, mean_s]), len(times)))
    least_s = 0.25 + (1.0 - known) * mean_s
    for t in GRID_S[least_s < GRID_S][::10]:
        exact = gamma_cdf(known, (t - least_s) / mean_s)
        assert within(expected_s, t) == pytest.approx(exact, abs=0.01)
    assert within(expected_s, least_s) == 0.0
    assert_calibrated(times, expected_s)


def gamma_cdf(shape: float, t: float) -> float:
    """Of scale 1, by its series."""
    terms = [math.exp(-t) * t**shape / math.gamma(shape + 1.0)]
    while terms[-1] > 1e-12:
        terms.append(terms[-1] * t / (shape + len(terms)))
    return sum(terms)


@pytest.mark.parametrize("known", [0.2, 0.8])
def test_the_known_part_of_a_lognormal(known: float) -> None:
    sigma = 0.6
    times, expected_s = times_and_expected(ServiceTimes.lognormal(1.0, sigma, 0.1, known=known))
    assert list(times) == list(drawn(ServiceTimes.lognormal(1.0, sigma, 0.1), len(times)))
    for t in GRID_S[5:60:10]:
        z = (math.log(t - 0.1) + known * sigma**2 / 2) / (sigma * math.sqrt(known))
        exact = 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))
        assert within(expected_s, t) == pytest.approx(exact, abs=0.01)
    assert_calibrated(times, expected_s)


@pytest.mark.parametrize(
    "make",
    [
        lambda known: ServiceTimes.exponential_sum([0.25, 0.5, 0.5], known=known),
        lambda known: ServiceTimes.exponential_sum([0.5], known=known),
        lambda known: ServiceTimes.lognormal(1.0, 0.6, 0.1, known=known),
    ],
    ids=["a sum", "one exponential", "lognormal"],
)
def test_all_or_nothing_is_known(make: Callable[[float], ServiceTimes]) -> None:
    times, expected_s = times_and_expected(make(0.0), 4_000)
    assert len(set(expected_s)) == 1
    assert expected_s[0] == pytest.approx(times.mean(), abs=0.1)
    times, expected_s = times_and_expected(make(1.0), 4_000)
    assert_calibrated(times, expected_s)
    # The communication, of mean 0.75 s, stays unknown.
    assert np.corrcoef(times, np.minimum(expected_s, 9.0))[0, 1] > 0.6


def test_the_mean_is_expected_of_quantiles() -> None:
    service = ServiceTimes.quantiles(array("d", [1.0, 2.0, 4.0]), exponential_tail_s=2.0)
    mean_s = (0.75 + 1.5 + 3.0 + 6.0) / 4.0
    for budget_s, demoted in ((mean_s - 1e-3, 50), (mean_s + 1e-3, 0)):
        trace = Trace(**one_node(1, np.arange(50) * 1e3, budget_s))
        run = simulate_nodes(trace, [service], array("i", [0]), policy="sanderling")
        assert run.demoted_subtasks == demoted


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pod_is_busy_whenever_there_is_work(policy: str) -> None:
    """Whatever the order, a node works for the same periods."""
    draw = random.Random(5)
    arrived_s = np.cumsum([draw.expovariate(1.1) for _ in range(3_000)])
    service_s = array("d", [draw.expovariate(1.0) for _ in arrived_s])
    deadline_s = arrived_s + [draw.random() * 10 for _ in arrived_s]
    run = simulate_events(
        Trace(**one_node(1, arrived_s)),
        [ServiceTimes.given(service_s, service_s)],
        array("i", [0]),
        policy=policy,
        deadline_s=deadline_s,
        record=True,
    )
    free_s = 0.0
    ends = []
    for arrived, service in zip(arrived_s, service_s, strict=True):
        if arrived > free_s:
            ends.append(free_s)
        free_s = max(free_s, arrived) + service
    finished_s = np.sort(np.asarray(run.subtask_finished_s))
    for end in ends[1:]:
        assert np.min(np.abs(finished_s - end)) < 1e-6
    assert finished_s[-1] == pytest.approx(free_s)
