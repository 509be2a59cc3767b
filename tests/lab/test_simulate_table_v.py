"""The traces of Table V against a plain reading of it."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from _core.deadlines.order_statistics import task_percentile
from lab.simulation.run import Setting, World, unloaded_s
from lab.simulation.table_v import (
    CAPACITY_PER_S,
    CLASSES,
    SIZES,
    Draw,
    OutOfRange,
    Reading,
    Size,
    draw,
    middle_outwards,
)

QUERIES = 20_000
MIDDLE = Size(20, 50)
# (share in %, SLO in s, μ and σ of both tiers), copied from the paper.
TABLE_V = [
    (10, 1.2, (100, 100), (100, 50)),
    (40, 1.8, (300, 50), (300, 100)),
    (30, 2.4, (500, 200), (500, 200)),
    (20, 3.0, (700, 200), (700, 300)),
]


def drawn(
    size: Size = MIDDLE,
    reading: Reading = "query",
    out_of_range: OutOfRange = "clip",
    queries: int = QUERIES,
    seed: int = 1,
) -> Draw:
    return draw(size, reading=reading, out_of_range=out_of_range, queries=queries, seed=seed)


def chances(size: int, mean: float, deviation: float, rule: OutOfRange) -> dict[int, float]:
    """How likely each fanout is, after rounding."""
    normal = NormalDist(mean * size / 1000, deviation * size / 1000)
    inside = {k: normal.cdf(k + 0.5) - normal.cdf(k - 0.5) for k in range(1, size + 1)}
    if rule == "clip":
        inside[1] += normal.cdf(0.5)
        inside[size] += 1 - normal.cdf(size + 0.5)
    total = sum(inside.values())
    return {k: p / total for k, p in inside.items()}


def assert_mean(values: np.ndarray, of: dict[int, float]) -> None:
    mean = sum(k * p for k, p in of.items())
    variance = sum((k - mean) ** 2 * p for k, p in of.items())
    assert values.mean() == pytest.approx(mean, abs=4.5 * math.sqrt(variance / len(values)))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 25, 60, 300])
def test_middle_outwards_walks_to_both_sides_in_turn(size: int) -> None:
    low = high = (size - 1) // 2
    expected = [low]
    while len(expected) < size:
        if len(expected) % 2 == 1:
            high += 1
            expected.append(high)
        else:
            low -= 1
            expected.append(low)
    assert middle_outwards(size).tolist() == expected
    assert sorted(expected) == list(range(size))


def test_sizes_are_those_of_table_vi() -> None:
    assert [size.nodes for size in SIZES] == [100, 1_000, 4_000, 12_000, 18_000]


@pytest.mark.parametrize("rule", ["clip", "resample"])
@pytest.mark.parametrize("size", [SIZES[0], MIDDLE])
def test_fanouts_have_the_distribution_of_table_v(size: Size, rule: OutOfRange) -> None:
    trace = drawn(size, "task", rule)
    for k, (percent, slo_s, iads, nodes) in enumerate(TABLE_V):
        chosen = trace.query_class == k
        share = percent / 100
        error = math.sqrt(share * (1 - share) / QUERIES)
        assert chosen.mean() == pytest.approx(share, abs=4.5 * error)
        assert_mean(trace.iad_fanout[chosen], chances(size.iads, *iads, rule))
        of_tasks = trace.query_class[trace.task_query] == k
        assert_mean(trace.node_fanout[of_tasks], chances(size.nodes_per_iad, *nodes, rule))
        assert set(trace.budget_s[of_tasks]) == {slo_s}


def test_a_querys_tasks_go_to_the_iads_in_the_middle_with_its_percentile() -> None:
    trace = drawn(queries=300)
    order = middle_outwards(MIDDLE.iads).tolist()
    tasks = iter(zip(trace.task_query, trace.task_iad, trace.percentile, strict=True))
    for query, k_q in enumerate(trace.iad_fanout.tolist()):
        own = [next(tasks) for _ in range(k_q)]
        assert [int(iad) for _, iad, _ in own] == order[:k_q]
        assert {int(of) for of, _, _ in own} == {query}
        assert {float(p_t) for _, _, p_t in own} == {task_percentile(99.0, k_q)}
    assert next(tasks, None) is None


def test_one_reading_shares_the_node_fanout_and_the_other_draws_it_anew() -> None:
    shared, anew = drawn(reading="query"), drawn(reading="task")
    first_of = np.searchsorted(shared.task_query, np.arange(QUERIES))
    assert (shared.node_fanout == shared.node_fanout[first_of][shared.task_query]).all()
    assert not (anew.node_fanout == anew.node_fanout[first_of][anew.task_query]).all()
    # All else is the same: the readings are compared on the same queries.
    for name in ("unit_arrival", "query_class", "iad_fanout", "evaluation_s", "aggregation_s"):
        assert (getattr(shared, name) == getattr(anew, name)).all()


def test_times_are_exponential_with_table_iiis_means() -> None:
    trace = drawn()
    tasks = len(trace.task_query)
    gaps = np.diff(trace.unit_arrival)
    assert gaps.mean() == pytest.approx(1.0, abs=4.5 / math.sqrt(QUERIES))
    assert gaps.std() == pytest.approx(1.0, abs=0.05)
    assert trace.aggregation_s.mean() == pytest.approx(0.31e-3, rel=4.5 / math.sqrt(tasks))
    first = np.searchsorted(trace.task_query, np.arange(QUERIES))
    evaluation_s = trace.evaluation_s[first]
    assert evaluation_s.mean() == pytest.approx(3.9e-3, rel=0.04)
    assert evaluation_s.std() == pytest.approx(math.hypot(2.57e-3, 1.33e-3), rel=0.06)
    assert pytest.approx(1 / 0.10051) == CAPACITY_PER_S


def test_seeds_and_loads() -> None:
    trace, again, other = drawn(), drawn(), drawn(seed=2)
    assert (trace.unit_arrival == again.unit_arrival).all()
    assert (trace.node_fanout == again.node_fanout).all()
    assert not (trace.unit_arrival == other.unit_arrival).any()
    waited_s = trace.enqueued_s(4.0) - (trace.unit_arrival / 4.0)[trace.task_query]
    assert waited_s == pytest.approx(trace.evaluation_s, abs=1e-9)


def test_the_middle_node_of_the_middle_iad_is_part_of_every_query() -> None:
    world = World(Setting(SIZES[0], "query", "clip", 4_000, 3))
    trace = world.draw.trace(2.0)
    assert (trace.nodes, trace.iads, trace.queries) == (100, 4, 4_000)
    assert trace.subtasks == world.draw.subtasks
    point = world.point("fifo", 2.0)
    assert point.subtasks == world.draw.subtasks
    # Every query puts 0.10051 s of work on it.
    assert point.busiest_utilisation == pytest.approx(2.0 / CAPACITY_PER_S, rel=0.1)


def test_unloaded_times_are_the_quantiles_of_the_slowest_of_k() -> None:
    """Against the closed form of F for the sum of two exponentials, F(x_u)^k_t = p_t."""
    fast_s, slow_s = 2.87e-3, 97.64e-3
    trace = drawn(SIZES[0], queries=2_000)
    estimated = unloaded_s(trace, seed=5)
    for task in range(0, len(estimated), 50):
        target = trace.percentile[task] / 100
        x_s = estimated[task]
        tail = (slow_s * math.exp(-x_s / slow_s) - fast_s * math.exp(-x_s / fast_s)) / (
            slow_s - fast_s
        )
        # The chance that one of k_t nodes is slower: good to a tenth of what may be.
        slower = 1 - (1 - tail) ** float(trace.node_fanout[task])
        assert slower == pytest.approx(1 - target, rel=0.35)


def test_classes_are_the_papers() -> None:
    rows = [
        (
            round(100 * kind.share),
            kind.slo_s,
            (kind.iad_mean, kind.iad_deviation),
            (kind.node_mean, kind.node_deviation),
        )
        for kind in CLASSES
    ]
    assert rows == TABLE_V
