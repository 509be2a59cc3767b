"""The load: shares, rates and windows of Table II, and the same trace from the same seed."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.codec import Decoder, encode
from agent.wire.messages import Query
from fleet.simulation.layout import PRELOAD_ROWS, FleetLayout, building_fleet, part_of
from fleet.simulation.workload import TABLE_II, Arrival, arrivals, record, replay, warm_up, within
from tests.examples import examples

PLAN = building_fleet()
N = 20_000


@pytest.fixture(scope="module")
def trace() -> list[Arrival]:
    return list(itertools.islice(arrivals(PLAN, rate_per_s=20.0, seed=7), N))


def test_the_building_is_four_iads_of_eight_nodes() -> None:
    assert [len(iad.nodes) for iad in PLAN.iads] == [8, 8, 8, 8]
    assert len({node.name for node in PLAN.nodes}) == 32
    assert len({node.area for node in PLAN.nodes}) == 32
    hot_spot = {node.name: node.profile for node in PLAN.iads[-1].nodes}
    assert hot_spot["iad4-n4"] == "pi3"
    assert hot_spot["iad4-n5"] == "pi3-boxed"
    assert {node.profile for node in PLAN.iads[0].nodes} == {"pi4"}
    assert PLAN.iad_of("iad3-n2").name == "iad3"


def test_classes_come_with_their_shares(trace: list[Arrival]) -> None:
    for kind in TABLE_II:
        share = sum(a.kind == kind.name for a in trace) / N
        # Five standard deviations of a binomial share.
        assert abs(share - kind.share) < 5 * (kind.share * (1 - kind.share) / N) ** 0.5


def test_arrivals_are_poisson_and_spread_evenly(trace: list[Arrival]) -> None:
    gaps = [b.at_s - a.at_s for a, b in itertools.pairwise(trace)]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(1 / 20, rel=0.04)
    # An exponential gap's standard deviation is its mean.
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.05)
    for iad in PLAN.iads:
        assert sum(a.scheduler == iad.name for a in trace) / N == pytest.approx(0.25, abs=0.016)


def test_fanout_follows_the_class(trace: list[Arrival]) -> None:
    iad_of = {node.area: iad.name for iad in PLAN.iads for node in iad.nodes}
    classes = {kind.name: kind for kind in TABLE_II}
    for arrival in trace:
        iads = [iad_of[area] for area in arrival.areas]
        kind = classes[arrival.kind]
        assert len(set(iads)) == kind.iads
        assert len(set(arrival.areas)) == len(iads) == kind.iads * kind.nodes
        assert arrival.slo_ms == kind.slo_ms
        assert not kind.hot_spot or set(iads) == {"iad4"}


def test_every_window_lies_within_the_history(trace: list[Arrival]) -> None:
    assert all(1.0 <= a.last_s <= 10_800.0 for a in trace)
    assert all(a.ago_s >= 0.0 and a.last_s + a.ago_s <= PRELOAD_ROWS + 1e-6 for a in trace)
    assert sum(a.last_s for a in trace) / N == pytest.approx(5_400, rel=0.03)


@given(st.integers(0, 2**32), st.floats(0.5, 100.0))
@settings(max_examples=examples(20))
def test_a_seed_repeats_its_trace_and_a_longer_one_begins_with_it(seed: int, rate: float) -> None:
    short = list(itertools.islice(arrivals(PLAN, rate_per_s=rate, seed=seed), 20))
    long = list(itertools.islice(arrivals(PLAN, rate_per_s=rate, seed=seed), 40))
    assert long[:20] == short
    assert within(arrivals(PLAN, rate_per_s=rate, seed=seed), short[-1].at_s) == short[:-1]
    assert short != list(itertools.islice(arrivals(PLAN, rate_per_s=rate, seed=seed + 1), 20))


def test_a_recorded_trace_reads_back_equal(trace: list[Arrival], tmp_path: Path) -> None:
    record(trace[:100], tmp_path / "trace.jsonl")
    assert replay(tmp_path / "trace.jsonl") == trace[:100]


def test_queries_are_what_a_master_takes(trace: list[Arrival]) -> None:
    decoder: Decoder[Query] = Decoder(Query)
    for arrival in trace[:200]:
        query = arrival.query("edfq")
        assert decoder.decode(encode(query))[0] == query
        assert query.label == f"edfq {arrival.kind}"


@pytest.mark.parametrize("plan", [part_of(PLAN, 2, 2), part_of(PLAN, 1, 1)])
def test_a_small_fleet_is_asked_whole(plan: FleetLayout) -> None:
    own = {node.area for node in plan.nodes}
    for arrival in itertools.islice(arrivals(plan, rate_per_s=20.0, seed=1), 200):
        assert set(arrival.areas) <= own
        if arrival.kind == "3":
            assert set(arrival.areas) == own


def test_warm_up_asks_every_node_equally_often() -> None:
    trace = warm_up(PLAN, seconds=2.0, rate_per_s=3.0, seed=1)
    assert {a.areas for a in trace} == {(node.area,) for node in PLAN.nodes}
    assert len(trace) == 2 * 3 * 32
    assert trace[-1].at_s < 2.0
    assert len({a.emulation_seed for a in trace}) == len(trace)
