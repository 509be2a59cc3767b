"""Resource estimation: Eq. 10 to high precision, a simulated queue, and what must only grow."""

import heapq
import math
import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agent.market import estimation as e
from agent.wire.market import Terms
from tests.examples import examples

RATES = st.floats(0.01, 1_000.0)
PERCENTILES = st.floats(1.0, 99.999)
BUDGETS_MS = st.floats(10.0, 10_000.0)
MEANS_S = st.floats(0.001, 1.0)
TERMS = st.builds(Terms, RATES, PERCENTILES, BUDGETS_MS)
NODES = st.dictionaries(st.sampled_from("abcdef"), MEANS_S, min_size=1)
MAX_PODS = st.integers(1, 64)
DEMANDS = st.builds(e.Demand, st.floats(0.0, 100.0), st.floats(0.0, 50.0))


def test_one_node_is_the_closed_form_of_an_m_m_1_queue() -> None:
    # p99 of a sojourn time is ln(100)/(1/t_e − λ).
    t_e = e.largest_execution_s(10.0, 99.0, 0.5, 1)
    assert math.isclose(math.log(100.0) / (1.0 / t_e - 10.0), 0.5, rel_tol=1e-12)


@given(RATES, PERCENTILES, BUDGETS_MS, st.integers(1, 1_000))
def test_eq_10_put_back_into_eqs_7_to_9_gives_the_percentile(
    rate: float, percentile: float, budget_ms: float, nodes: int
) -> None:
    t_e = e.largest_execution_s(rate, percentile, budget_ms / 1e3, nodes)
    exponent = (rate - 1.0 / t_e) * budget_ms / 1e3
    # 1/t_e − λ loses digits where λ is most of it.
    lost = 1.0 + rate * t_e / (1.0 - rate * t_e)
    log_g = nodes * math.log1p(-math.exp(exponent))
    assert math.isclose(log_g, math.log(percentile / 100.0), rel_tol=1e-12 * lost * 100)


@pytest.mark.parametrize("nodes", [1, 3, 8, 100])
@pytest.mark.parametrize("percentile", [50.0, 95.0, 99.0, 99.75])
def test_eq_10_as_it_is_printed(nodes: int, percentile: float) -> None:
    printed = 1.0 / (7.0 - math.log(1.0 - (percentile / 100.0) ** (1.0 / nodes)) / 0.8)
    assert math.isclose(e.largest_execution_s(7.0, percentile, 0.8, nodes), printed, rel_tol=1e-10)


def slowest_times(
    draw: random.Random, rate: float, mean_s: float, nodes: int, pods: int, *, split: bool
) -> list[float]:
    """Response times of tasks, in a simulation of `nodes` nodes: one queue for all pods of a node,
    or, `split`, one each and subtasks that go to a random one."""
    servers = [[0.0] * pods for _ in range(nodes)]
    times, now = [], 0.0
    for _ in range(60_000):
        now += draw.expovariate(rate)
        slowest = 0.0
        for free in servers:
            # The earliest free server of one FIFO queue takes the next.
            pod = draw.randrange(pods) if split else 0
            end = max(now, free[pod]) + draw.expovariate(1.0 / mean_s)
            if split:
                free[pod] = end
            else:
                heapq.heapreplace(free, end)
            slowest = max(slowest, end - now)
        times.append(slowest)
    return times


@pytest.mark.parametrize(("nodes", "pods"), [(1, 1), (3, 1), (3, 2)])
def test_a_simulated_node_keeps_the_budget_and_no_more(nodes: int, pods: int) -> None:
    # Eq. 8 takes a task's subtasks for independent, which one arrival time makes them nearly.
    percentile, budget_s, rate = 95.0, 0.8, 6.0
    decay = e.decay_per_s(percentile, budget_s, nodes)
    mean_s = 1.0 / (rate / pods + decay)
    assert e.fewest_pods(mean_s * 0.999, e.Demand(rate, decay), 8) == pods
    times = slowest_times(random.Random(3), rate, mean_s, nodes, pods, split=True)
    kept = sum(t <= budget_s for t in times) / len(times) * 100.0
    assert kept == pytest.approx(percentile, abs=0.7)
    if pods > 1:
        pooled = slowest_times(random.Random(3), rate, mean_s, nodes, pods, split=False)
        assert sum(t <= budget_s for t in pooled) / len(pooled) * 100.0 > percentile


@given(DEMANDS, MEANS_S, MAX_PODS)
def test_fewest_pods_is_the_first_that_meets_the_demand(
    asked: e.Demand, mean_s: float, most: int
) -> None:
    assume(asked.rate_per_s > 0.0)
    first = next((c for c in range(1, most + 1) if e.meets(mean_s, asked, c)), None)
    assert e.fewest_pods(mean_s, asked, most) == first


def test_fewest_pods_on_a_whole_number() -> None:
    # 1/0.125 − 4 leaves 4 subtasks/s to a pod: binary fractions, so that nothing rounds.
    assert Fraction(8, 4) == 2
    assert e.fewest_pods(0.125, e.Demand(8.0, 4.0), 8) == 2
    assert e.fewest_pods(0.125, e.Demand(math.nextafter(8.0, 9.0), 4.0), 8) in (2, 3)
    assert e.fewest_pods(0.125, e.Demand(8.001, 4.0), 8) == 3
    assert e.fewest_pods(0.125, e.Demand(8.0, 8.0), 8) is None
    assert e.fewest_pods(0.125, e.Demand(0.0, 0.0), 8) == 0


@settings(max_examples=examples(200))
@given(TERMS, st.floats(1.0, 3.0), st.integers(1, 50))
def test_more_of_anything_asks_for_faster_nodes(terms: Terms, more: float, nodes: int) -> None:
    rate, p, x = terms.rate_per_s, terms.percentile, terms.budget_ms / 1e3
    t_e = e.largest_execution_s(rate, p, x, nodes)
    assert e.largest_execution_s(rate * more, p, x, nodes) <= t_e
    assert e.largest_execution_s(rate, p, x * more, nodes) >= t_e
    assert e.largest_execution_s(rate, p, x, nodes + 1) <= t_e
    assert e.largest_execution_s(rate, p + (100.0 - p) * (more - 1.0) / 3.0, x, nodes) <= t_e


@given(TERMS, NODES, st.dictionaries(st.sampled_from("abcdef"), DEMANDS), MAX_PODS)
def test_a_counter_offer_is_affordable_and_no_harder_than_asked(
    terms: Terms, nodes: dict[str, float], sold: dict[str, e.Demand], most: int
) -> None:
    offer = e.counter_offer(terms, nodes, sold, most)
    if offer is None:
        return
    assert e.affordable(offer, nodes, sold, most)
    # To rounding, near enough to be of use.
    assert offer.rate_per_s >= terms.rate_per_s / e.FARTHEST * 0.999
    assert offer.budget_ms <= terms.budget_ms * e.FARTHEST * 1.001
    assert offer.percentile == terms.percentile
    assert offer.rate_per_s <= terms.rate_per_s
    assert offer.budget_ms >= terms.budget_ms
    if not e.affordable(terms, nodes, sold, most):
        # One term gives way, and not further than rounding makes it.
        assert (offer.rate_per_s < terms.rate_per_s) != (offer.budget_ms > terms.budget_ms)
        nearer = Terms(
            min(terms.rate_per_s, offer.rate_per_s * 1.003),
            terms.percentile,
            max(terms.budget_ms, offer.budget_ms / 1.003),
        )
        assert not e.affordable(nearer, nodes, sold, most)


@given(TERMS, NODES, MAX_PODS)
def test_the_rate_gives_way_first(terms: Terms, nodes: dict[str, float], most: int) -> None:
    slower = Terms(terms.rate_per_s / e.FARTHEST * 1.01, terms.percentile, terms.budget_ms)
    assume(terms.rate_per_s > 1.0 and e.affordable(slower, nodes, {}, most))
    offer = e.counter_offer(terms, nodes, {}, most)
    assert offer is not None
    assert offer.budget_ms == terms.budget_ms


def test_no_terms_at_all_when_the_nodes_are_sold_out() -> None:
    sold = {"a": e.Demand(79.9, 1.0)}
    assert e.counter_offer(Terms(50.0, 99.0, 100.0), {"a": 0.1}, sold, 8) is None


@given(MEANS_S, st.lists(DEMANDS, max_size=6), MAX_PODS)
def test_shares_add_up_to_what_the_node_needs(
    mean_s: float, demands: list[e.Demand], most: int
) -> None:
    counts = e.shares(mean_s, demands, most)
    assert all(count >= 0 for count in counts)
    total = e.NOTHING
    sums = [sum(counts[:end]) for end in range(len(counts) + 1)]
    for one, (_, needed) in zip(demands, pairwise(sums), strict=True):
        total = total + one
        pods = e.fewest_pods(mean_s, total, most)
        assert needed == (most if pods is None else pods)


# Whatever the bounds of the wire let through: zeros that are none, and the next to 100 %.
WILD_TERMS = st.builds(
    Terms,
    st.floats(0.0, 1e6, exclude_min=True),
    st.floats(0.0, 100.0, exclude_min=True, exclude_max=True),
    st.floats(0.0, 3.6e6, exclude_min=True),
)
WILD_MEANS_S = st.dictionaries(st.sampled_from("abc"), st.floats(1e-9, 1e9), min_size=1)


@given(WILD_TERMS, WILD_TERMS, WILD_MEANS_S, MAX_PODS)
def test_no_terms_are_too_wild_to_be_reckoned_with(
    terms: Terms, before: Terms, means_s: dict[str, float], most: int
) -> None:
    sold = {}
    if e.affordable(before, means_s, {}, most):
        sold = dict.fromkeys(means_s, e.demand(before, len(means_s)))
    if not e.affordable(terms, means_s, sold, most):
        counter = e.counter_offer(terms, means_s, sold, most)
        assert counter is None or e.affordable(counter, means_s, sold, most)
    for mean_s in means_s.values():
        shares = e.shares(mean_s, [*sold.values(), e.demand(terms, len(means_s))][-2:], most)
        assert 0 <= sum(shares) <= most
