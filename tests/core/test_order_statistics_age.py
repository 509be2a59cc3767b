"""By how much order statistics may lag behind their samples, and for how long."""

import math
import random
import struct

import pytest

from _core import _bench
from _core.deadlines.histogram import BUCKETS
from _core.deadlines.order_statistics import NodeSet, UnloadedModel
from tests.core.order_statistics_models import CALLS, filled, lognormal, settled
from tests.oracles.orderstats import F_MIN, NaiveModel

# Staleness.


def twins(model: UnloadedModel, twin: NaiveModel, samples: list[list[float]]) -> NodeSet:
    """`filled`, and the twin likewise."""
    for values in samples:
        column = twin.add_node()
        for value in values:
            twin.observe(column, value, 0.0)
    return filled(model, samples)


def shares(model: UnloadedModel, nodes: NodeSet, now_s: float = 0.0) -> list[list[float]]:
    """F of each column at each bucket's upper bound, as the model has it after a call."""
    model.quantile(nodes, 99.0, now_s)
    rows = struct.unpack(f"{BUCKETS * len(nodes)}f", _bench.log_cdf_rows(model, nodes))
    return [[math.exp(log_f) for log_f in rows[i :: len(nodes)]] for i in range(len(nodes))]


def lag(model: UnloadedModel, nodes: NodeSet, twin: NaiveModel, now_s: float) -> float:
    """The largest difference between F in the matrix and F of the samples."""
    fresh = twin.log_cdfs(list(nodes.columns), now_s)
    return max(
        abs(have - math.exp(log_f))
        for haves, log_fs in zip(shares(model, nodes, now_s), fresh, strict=True)
        for have, log_f in zip(haves, log_fs, strict=True)
    )


def lag_in_errors(model: UnloadedModel, nodes: NodeSet, twin: NaiveModel, now_s: float) -> float:
    """The same in standard errors of the window.

    Below the median in those of the median, beyond the last sample in those there: one sample.
    """
    largest = 0.0
    fresh = twin.log_cdfs(list(nodes.columns), now_s)
    for column, haves, log_fs in zip(
        nodes.columns, shares(model, nodes, now_s), fresh, strict=True
    ):
        count = max(len(twin.nodes[column].samples), 1)
        for have, log_f in zip(haves, log_fs, strict=True):
            f = math.exp(log_f)
            if f > F_MIN:
                upper = min(max(-math.expm1(log_f), 1.0 / count), 0.5)
                error = math.sqrt(upper * (1.0 - upper) / count)
                largest = max(largest, abs(have - f) / error)
    return largest


def level(samples: list[float], q: float) -> float:
    """The sample with the share `q` below it."""
    return sorted(samples)[int(q * len(samples))]


# All at one place is the hardest for F there.
ARRIVALS = {
    "faster than all": lambda draw, _: draw.uniform(0.001, 0.02),
    "slower than all": lambda draw, _: draw.uniform(1.0, 5.0),
    "like the others": lambda draw, _: lognormal(draw, 0.1, 1)[0],
    "at the median": lambda _, samples: level(samples, 0.5),
    "at 90 %": lambda _, samples: level(samples, 0.9),
    "at 98 %": lambda _, samples: level(samples, 0.98),
    "at 99.85 %": lambda _, samples: level(samples, 0.9985),
}


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("errors", [0.5, 1.0])
@pytest.mark.parametrize("count", [100, 1_000])
def test_a_column_lags_by_a_bounded_part_of_its_standard_error(
    count: int, errors: float, arrivals: str
) -> None:
    draw = random.Random(arrivals)
    model = UnloadedModel(max_count=count, max_stale_errors=errors, max_stale_age_s=50.0)
    twin = NaiveModel(max_count=count)
    samples = [lognormal(draw, mean_s, count) for mean_s in (0.06, 0.1)]
    settled(model, twins(model, twin, samples), 50.0)
    nodes = model.node_set([0])
    largest = 0.0
    for step in range(150):
        value = ARRIVALS[arrivals](draw, samples[0])
        model.observe(0, value, 50.0)
        twin.observe(0, value, 50.0)
        if step % 5 == 4:
            largest = max(largest, lag_in_errors(model, nodes, twin, 50.0))
    assert 0.0 < largest <= errors


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_holds_while_a_window_grows_and_shrinks(seed: int) -> None:
    draw = random.Random(seed)
    model = UnloadedModel(max_age_s=30.0, max_stale_age_s=1e6)
    twin = NaiveModel(max_age_s=30.0)
    nodes = twins(model, twin, [[]])
    now_s = 0.0
    for step in range(400):
        now_s += draw.expovariate(10.0 if step < 250 else 0.5)
        value = lognormal(draw, 0.1, 1)[0]
        model.observe(0, value, now_s)
        twin.observe(0, value, now_s)
        if step % 20 == 19:
            assert lag_in_errors(model, nodes, twin, now_s) <= 1.0


def test_any_change_arrives_after_the_allowed_age() -> None:
    draw = random.Random(1)
    model, twin = UnloadedModel(max_stale_age_s=1.0), NaiveModel()
    nodes = twins(model, twin, [lognormal(draw, 0.1, 1_000) for _ in range(2)])
    assert lag(model, nodes, twin, 1.0) < 1e-6
    model.observe(0, 0.1, 1.1)
    twin.observe(0, 0.1, 1.1)
    assert lag(model, nodes, twin, 1.4) > 1e-4  # one change in a thousand may wait
    lag(model, nodes, twin, 2.0)
    assert lag(model, model.node_set([0]), twin, 2.0) < 1e-6
    assert lag(model, nodes, twin, 3.0) < 1e-6  # the other node's column too: the pool changed


def test_age_costs_a_wide_set_only_a_share_at_a_call() -> None:
    draw = random.Random(1)
    model, twin = UnloadedModel(max_count=50), NaiveModel(max_count=50)
    nodes = twins(model, twin, [lognormal(draw, 0.1, 60) for _ in range(160)])
    before = shares(model, nodes)
    refreshed = []
    for _ in range(CALLS):
        rows = shares(model, nodes, 100.0)
        refreshed.append(sum(a != b for a, b in zip(before, rows, strict=True)))
        before = rows
    assert max(refreshed) <= 16 + 160 / 16
    assert lag(model, nodes, twin, 100.0) < 1e-6


def test_a_sample_in_the_tail_arrives_at_once() -> None:
    model = UnloadedModel(max_stale_errors=1e6, max_stale_age_s=1e6)
    nodes = filled(model, [[0.1 + i * 1e-6 for i in range(5_000)]])
    before = model.quantile(nodes, 99.99, 0.0)
    model.observe(0, 0.1, 0.0)
    assert model.quantile(nodes, 99.99, 0.0) == before
    for _ in range(3):
        model.observe(0, 5.0, 0.0)
    assert model.quantile(nodes, 99.99, 0.0) > 2.0


def test_a_sample_in_the_tail_leaves_at_once() -> None:
    model = UnloadedModel(max_count=4_000, max_stale_errors=1e6, max_stale_age_s=100.0)
    nodes = filled(model, [[5.0] * 3 + [0.1 + i * 1e-6 for i in range(3_997)]])
    assert model.quantile(nodes, 99.95, 100.0) > 1.0
    for _ in range(3):
        model.observe(0, 0.1, 101.0)
    assert model.quantile(nodes, 99.95, 101.0) < 0.5


def test_samples_age_without_new_ones() -> None:
    model = UnloadedModel(max_age_s=10.0, prior_mean_s=0.1)
    nodes = filled(model, [[5.0] * 100])
    assert model.quantile(nodes, 50.0, 5.0) == pytest.approx(5.0, rel=0.1)
    assert model.quantile(nodes, 50.0, 11.5) == pytest.approx(0.1 * math.log(2.0), rel=0.02)
    assert model.node_count(0) == 0


def test_time_that_goes_back_counts_as_the_latest() -> None:
    model = UnloadedModel(max_age_s=10.0)
    nodes = filled(model, [[0.1]])
    model.observe(0, 0.1, 100.0)
    model.observe(0, 0.1, 95.0)
    model.quantile(nodes, 50.0, 1.0)
    assert model.node_count(0) == 2
