"""Virtual time: a case counted by hand, the same twice, never idle while work waits."""

import itertools
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.wire.base import Policy
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout, building_fleet, part_of
from fleet.simulation.measures import summarize
from fleet.simulation.virtual import NO_DELAYS, TESTBED_DELAYS, Delays, VirtualFleet
from fleet.simulation.workload import Arrival, arrivals
from tests.examples import examples

POLICIES: tuple[Policy, ...] = ("fifo", "spr", "tedfq", "edfq")
ONE_NODE = FleetLayout((IadLayout("i", (NodeLayout("n", "a/b", "413", "pi4"),)),))


def arrival(number: int, at_s: float, slo_ms: float, area: str = "a/b") -> Arrival:
    return Arrival(number, at_s, "i", f"slo {slo_ms:g}", (area,), 60.0, 0.0, slo_ms, number)


def latencies_ms(fleet: VirtualFleet, trace: list[Arrival]) -> dict[int, float | None]:
    return {o.number: o.latency_ms for o in fleet.run(trace)}


def one_node(policy: Policy, service_s: float, delays: Delays = NO_DELAYS) -> VirtualFleet:
    return VirtualFleet(
        ONE_NODE,
        policy,
        service=lambda _node, _seed, _window_s: service_s,
        delays=delays,
        warm_samples=100,
        check=True,
    )


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        # Served 0–100, then by arrival: 100–200 the patient one, 200–300 the urgent one.
        ("fifo", {1: 100.0, 2: 190.0, 3: 280.0}),
        # The urgent one overtakes: 100–200; the patient one has to wait: 200–300.
        ("edfq", {1: 100.0, 2: 290.0, 3: 180.0}),
        ("spr", {1: 100.0, 2: 290.0, 3: 180.0}),
    ],
)
def test_three_queries_at_one_node_by_hand(policy: Policy, expected: dict[int, float]) -> None:
    trace = [arrival(1, 0.0, 1_000.0), arrival(2, 0.01, 1_000.0), arrival(3, 0.02, 300.0)]
    assert latencies_ms(one_node(policy, 0.1), trace) == pytest.approx(expected)


def test_every_delay_is_counted_once() -> None:
    delays = Delays(0.001, 0.002, 0.004, 0.008)
    fleet = one_node("edfq", 0.1, delays)
    assert latencies_ms(fleet, [arrival(1, 0.0, 1_000.0)]) == pytest.approx({1: 115.0})


def test_fleets_of_several_policies_share_what_their_nodes_drew_before() -> None:
    asked = []

    def service(node: NodeLayout, seed: int | None, window_s: float) -> float:
        asked.append((node.name, seed, window_s))
        return 0.1

    for policy in POLICIES:
        VirtualFleet(ONE_NODE, policy, service=service, warm_samples=50)
    assert len(asked) == len(set(asked)) == 50
    VirtualFleet(ONE_NODE, "edfq", service=partial(service), warm_samples=50)
    assert len(asked) == 100
    assert asked[50:] == asked[:50]


def test_a_query_of_two_nodes_ends_with_the_slower() -> None:
    plan = FleetLayout(
        (IadLayout("i", (NodeLayout("n1", "a/b", "413"), NodeLayout("n2", "a/c", "415"))),)
    )
    service = {"n1": 0.1, "n2": 0.3}
    fleet = VirtualFleet(
        plan,
        "edfq",
        service=lambda node, _seed, _window_s: service[node.name],
        delays=NO_DELAYS,
        warm_samples=10,
        check=True,
    )
    assert latencies_ms(fleet, [arrival(1, 0.0, 1_000.0, "a")]) == pytest.approx({1: 300.0})


def test_what_the_answer_timeout_cuts_off_is_partial() -> None:
    fleet = VirtualFleet(
        ONE_NODE,
        "edfq",
        service=lambda _node, seed, _window_s: 10.0 if seed == 1 else 0.1,
        delays=NO_DELAYS,
        warm_samples=0,
        check=True,
    )
    outcomes = fleet.run([arrival(1, 0.0, 1_000.0), arrival(2, 1.0, 5_000.0)])
    # 4 × 1 s less 100 ms for the way home; the pod stays busy with it for 10 s.
    assert [(o.number, o.status) for o in outcomes] == [(1, "partial"), (2, "complete")]
    assert [o.latency_ms for o in outcomes] == pytest.approx([3_900.0, 9_100.0])


@given(
    st.sampled_from(POLICIES),
    st.lists(
        st.tuples(st.integers(0, 400), st.integers(1, 90), st.sampled_from([300.0, 800.0])),
        min_size=1,
        max_size=30,
    ),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_pod_works_whenever_there_is_work(
    policy: Policy, work: list[tuple[int, int, float]]
) -> None:
    """Whatever the order, one server that never idles in vain is busy for the same periods."""
    work.sort()
    service_s = {number: ms / 1e3 for number, (_, ms, _) in enumerate(work)}
    # A hundredfold, so that no answer timeout is reached.
    trace = [arrival(n, at / 1e3, slo * 100) for n, (at, _, slo) in enumerate(work)]
    fleet = VirtualFleet(
        ONE_NODE,
        policy,
        service=lambda _node, seed, _window_s: service_s.get(seed or 0, 0.05),
        delays=NO_DELAYS,
        warm_samples=0,
        check=True,
    )
    outcomes = fleet.run(trace)
    assert all(o.status == "complete" for o in outcomes)
    free_s = 0.0
    for at, ms, _ in work:
        free_s = max(free_s, at / 1e3) + ms / 1e3
    by_number = {a.number: a.at_s for a in trace}
    last_s = max(by_number[o.number] + (o.latency_ms or 0.0) / 1e3 for o in outcomes)
    assert last_s == pytest.approx(free_s)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_trace_gives_the_same_outcomes(policy: Policy) -> None:
    plan = part_of(building_fleet(), 4, 3)
    trace = list(itertools.islice(arrivals(plan, rate_per_s=60.0, seed=3), 300))

    def outcomes() -> object:
        return VirtualFleet(plan, policy, warm_samples=200, check=True).run(trace)

    first = outcomes()
    assert first == outcomes()
    assert isinstance(first, list)
    assert {o.number for o in first} == {a.number for a in trace}


def test_policies_serve_the_same_work() -> None:
    """The draws belong to the query, so without queueing every policy gives the same latencies."""
    plan = part_of(building_fleet(), 2, 2)
    trace = list(itertools.islice(arrivals(plan, rate_per_s=0.05, seed=3), 50))
    fifo, edfq = (
        sorted(VirtualFleet(plan, policy, warm_samples=10).run(trace), key=lambda o: o.number)
        for policy in ("fifo", "edfq")
    )
    assert fifo == edfq


def test_progress_is_told() -> None:
    plan = part_of(building_fleet(), 2, 2)
    trace = list(itertools.islice(arrivals(plan, rate_per_s=5.0, seed=3), 600))
    told: list[int] = []
    VirtualFleet(plan, "edfq", warm_samples=10).run(trace, told.append)
    assert told == [256, 512]


@pytest.mark.long
def test_edfq_keeps_the_tight_classes_where_fifo_does_not() -> None:
    """Between the highest loads that FIFO and EDFQ sustain, the order is what decides."""
    plan = building_fleet()
    trace = list(itertools.islice(arrivals(plan, rate_per_s=15.6, seed=1), 6_000))
    p99 = {}
    for policy in ("fifo", "edfq"):
        summaries = summarize(VirtualFleet(plan, policy, warm_samples=4_000).run(trace))
        p99[policy] = {s.kind: s.p99_ms or 0.0 for s in summaries}
    assert p99["edfq"]["1.2"] < 500.0 < p99["fifo"]["1.2"]
    assert p99["edfq"]["3"] < 1_200.0
    assert TESTBED_DELAYS.communication_s == 0.00287
