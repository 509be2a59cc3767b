"""The simulator against its naive twin, against closed forms, and against wrong arguments."""

from __future__ import annotations

import contextlib
import math
import random
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _core.deadlines.size_regression import SizeModel
from _core.queue.policy import POLICIES
from _core.simulator import Run, ServiceTimes, Trace, simulate_events, simulate_nodes
from tests.core.simulation_traces import Case
from tests.examples import examples
from tests.oracles import simulation as oracle

Simulate = Callable[..., Run]
BOTH = pytest.mark.parametrize("simulate", [simulate_nodes, simulate_events])


# --- the naive twin ------------------------------------------------------------------------------


def same(run: Run, twin: oracle.Run) -> None:
    assert list(run.subtask_dispatched_s or ()) == twin.subtask_dispatched_s
    assert list(run.subtask_finished_s or ()) == twin.subtask_finished_s
    assert list(run.query_latency_s) == twin.query_latency_s
    assert (run.subtasks, run.late_subtasks) == (twin.subtasks, twin.late_subtasks)
    assert list(run.task_deadline_s or ()) == pytest.approx(twin.task_deadline_s)
    assert list(run.busy_s) == pytest.approx(twin.busy_s)


@BOTH
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("ties", [False, True])
def test_random_traces_with_given_deadlines(simulate: Simulate, policy: str, ties: bool) -> None:
    for seed in range(25):
        case = Case(seed, ties=ties)
        known = {"policy": policy, "deadline_s": case.deadline_s}
        services = [ServiceTimes.given(case.service_s, case.expected_s)]
        run = simulate(Trace(**case.trace), services, case.node_service, **known, record=True)
        twin = getattr(oracle, simulate.__name__)(
            oracle.Trace(**case.trace),
            [oracle.ServiceTimes.given(case.service_s, case.expected_s)],
            case.node_service,
            **known,
        )
        same(run, twin)


@pytest.mark.parametrize("policy", POLICIES)
def test_random_traces_with_models(policy: str) -> None:
    for seed in range(25):
        case = Case(seed, queries=120)
        run = simulate_events(
            Trace(**case.trace),
            [ServiceTimes.given(case.service_s, case.expected_s)],
            case.node_service,
            policy=policy,
            models=case.models(),
            record=True,
        )
        twin = oracle.simulate_events(
            oracle.Trace(**case.trace),
            [oracle.ServiceTimes.given(case.service_s, case.expected_s)],
            case.node_service,
            policy=policy,
            models=case.models(),
        )
        same(run, twin)


SERVICES = (
    ServiceTimes.exponential_sum([0.3, 0.4], known=0.7),
    ServiceTimes.lognormal(0.7, 0.6, 0.1, known=0.7),
    ServiceTimes.quantiles(array("d", [0.2, 0.5, 1.5]), exponential_tail_s=0.75),
)


@pytest.mark.parametrize("policy", POLICIES)
def test_both_ways_draw_the_same_and_do_the_same(policy: str) -> None:
    for seed in range(20):
        case = Case(seed, queries=200)
        trace = Trace(**case.trace)
        node_service = array("i", [node % len(SERVICES) for node in range(case.nodes)])
        known = {"policy": policy, "deadline_s": case.deadline_s, "seed": seed, "record": True}
        known["advance_s"] = array("d", [case.draw.uniform(-1.0, 1.0) for _ in range(trace.tasks)])
        nodes = simulate_nodes(trace, SERVICES, node_service, **known)
        events = simulate_events(trace, SERVICES, node_service, demotion="node", **known)
        for field in Run.__dict__:
            if not field.startswith("_"):
                assert getattr(nodes, field) == getattr(events, field), field


def test_policies_see_the_same_service_times_and_seeds_do_not() -> None:
    case = Case(1, queries=300)
    trace = Trace(**case.trace)

    def taken(policy: str, seed: int) -> np.ndarray:
        run = simulate_nodes(
            trace,
            SERVICES[:1],
            case.node_service,
            policy=policy,
            deadline_s=case.deadline_s,
            seed=seed,
            record=True,
        )
        return np.asarray(run.subtask_finished_s) - np.asarray(run.subtask_dispatched_s)

    for policy in POLICIES:
        assert taken("fifo", 7) == pytest.approx(taken(policy, 7))
    assert not np.any(taken("fifo", 7) == taken("fifo", 8))


@pytest.mark.parametrize("kind", ["models", "sizes"])
def test_nobody_else_uses_models_while_a_simulation_does(kind: str) -> None:
    """They change without the GIL: two at a time would write to memory that is freed."""
    case = Case(1, queries=12_000)
    trace = Trace(**case.trace)
    models: list[Any] = getattr(case, kind)()
    services = [ServiceTimes.exponential_sum([0.1])]

    def run() -> Run:
        return simulate_events(
            trace, services, case.node_service, policy="sanderling", **{kind: models}
        )

    def ask() -> None:
        if kind == "models":
            models[0].node_count(0)
        else:
            models[0].expected(0, 1.0)

    refusals = []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        while not running.done() and not refusals:
            try:
                ask()
            except ValueError as error:
                refusals.append(str(error))
        if not running.done():
            with contextlib.suppress(ValueError):  # unless it has ended meanwhile
                run()
        running.result()
    assert refusals == ["a simulation uses the model; others may when it has ended"]
    ask()
    run()


def test_threads_share_a_trace() -> None:
    case = Case(2, queries=2_000)
    trace = Trace(**case.trace)

    def latency(seed: int) -> Any:
        return simulate_nodes(
            trace, SERVICES[:1], case.node_service, policy="fifo", seed=seed
        ).query_latency_s

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(latency, range(8))) == [latency(seed) for seed in range(8)]


# --- closed forms --------------------------------------------------------------------------------


def one_node(pods: int, arrived_s: np.ndarray, budget_s: float = 1.0) -> dict[str, Any]:
    """Queries of one subtask each at one node."""
    queries = len(arrived_s)
    zeros = np.zeros(queries, dtype=np.int32)
    return {
        "node_iad": array("i", [0]),
        "node_pods": array("i", [pods]),
        "set_first": array("q", [0, 1]),
        "set_nodes": array("i", [0]),
        "task_set": zeros,
        "task_size": zeros + np.int32(1),
        "query_arrived_s": arrived_s,
        "query_class": zeros,
        "task_query": np.arange(queries, dtype=np.int32),
        "task_enqueued_s": arrived_s,
        "task_budget_s": np.full(queries, budget_s),
        "task_percentile": np.full(queries, 99.0),
        "task_after_s": np.zeros(queries),
    }


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


# --- wrong arguments -----------------------------------------------------------------------------

INT32 = st.integers(-(2**31), 2**31 - 1)
NUMBERS = {
    "i": st.one_of(st.integers(-2, 6), INT32),
    "q": st.one_of(st.integers(-2, 6), st.integers(-(2**63), 2**63 - 1)),
    "d": st.one_of(st.floats(-1.0, 101.0), st.floats()),
}


@given(seed=st.integers(0, 50), data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_whatever_the_buffers_hold_is_refused_or_simulated(seed: int, data: st.DataObject) -> None:
    case = Case(seed, queries=5)
    arguments = dict(case.trace)
    for name in data.draw(st.lists(st.sampled_from(sorted(arguments)), max_size=2, unique=True)):
        values = array(arguments[name].typecode, arguments[name])
        place = data.draw(st.integers(0, len(values) - 1))
        change = data.draw(st.sampled_from(["value", "shorter", "longer", "empty"]))
        if change == "value":
            values[place] = data.draw(NUMBERS[values.typecode])
        elif change == "longer":
            values.append(data.draw(NUMBERS[values.typecode]))
        else:
            del values[0 if change == "empty" else place :]
        arguments[name] = values
    problem = ""
    try:
        trace = Trace(**arguments)
        service_s = array("d", [0.5] * trace.subtasks)
        services = [ServiceTimes.given(service_s, service_s)]
        kinds = array("i", [0] * trace.nodes)
        sizes = [SizeModel(0.5) for _ in range(trace.iads)]
        for run in (
            simulate_nodes(trace, services, kinds, policy="fifo", record=True),
            simulate_events(trace, services, kinds, policy="fifo", record=True),
            simulate_nodes(trace, services, kinds, policy="sanderling"),
            simulate_events(trace, services, kinds, policy="sanderling", balance=True, sizes=sizes),
        ):
            assert all(latency_s >= 0.5 for latency_s in run.query_latency_s)
    except ValueError as error:
        problem = str(error)
    assert "\n" not in problem


def changed(name: str, place: int, value: float) -> dict[str, Any]:
    arguments = dict(Case(3).trace)
    arguments[name] = array(arguments[name].typecode, arguments[name])
    arguments[name][place] = value
    return arguments


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("node_iad", 0, 1, "node_iad must ascend from 0"),
        ("node_pods", 0, 0, "node 0 has 0 pods"),
        ("set_first", 0, 1, "set_first must go from 0"),
        ("set_first", 1, 0, "set 0 has no node"),
        ("set_nodes", 0, 99, "set 0 holds node 99"),
        ("task_set", 2, -1, "task 2 goes to set -1"),
        ("task_size", 2, 0, "task 2 goes to 0 nodes"),
        ("task_query", 0, 1, "task_query must ascend from 0"),
        ("task_query", -1, 60, "belongs to query 60 of 60"),
        ("query_arrived_s", 3, -1.0, "query 3 at -1.0 s"),
        ("query_arrived_s", 0, math.nan, "query 0 at nan s"),
        ("query_class", 0, -1, "query 0 has class -1"),
        ("task_enqueued_s", 1, -5.0, "task 1 is enqueued at -5.0 s"),
        ("task_enqueued_s", 1, math.inf, "task 1 is enqueued at inf s"),
        ("task_budget_s", 1, 0.0, "task 1 has a budget of 0.0 s"),
        ("task_percentile", 1, 100.0, "task 1 has percentile 100.0"),
        ("task_after_s", 1, -0.1, "task 1 takes -0.1 s"),
        ("task_window_s", 1, math.inf, "task 1 asks for a window of inf s"),
        ("query_scheduler", 1, -1, "query 1 has scheduler -1"),
        ("query_percentile", 1, 0.0, "query 1 has percentile 0.0"),
    ],
)
def test_a_wrong_value_in_a_trace(name: str, place: int, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace(**changed(name, place, value))


def test_sets_are_distinct_nodes_of_one_iad() -> None:
    fleet = {"node_iad": array("i", [0, 0, 1]), "node_pods": array("i", [1, 1, 1])}
    load = Case(0, queries=1)._load(1)
    for nodes, message in (([0, 0], "holds node 0 twice"), ([1, 2], "nodes of several IADs")):
        sets = {"set_first": array("q", [0, 2]), "set_nodes": array("i", nodes)}
        with pytest.raises(ValueError, match=message):
            Trace(**fleet, **sets, **load)


def test_a_last_query_without_tasks() -> None:
    arguments = Case(4).trace
    arguments["query_arrived_s"].append(1e6)
    for name in ("query_class", "query_scheduler"):
        arguments[name].append(0)
    arguments["query_percentile"].append(99.0)
    with pytest.raises(ValueError, match="query 60 has no task"):
        Trace(**arguments)


@BOTH
def test_wrong_arguments_of_a_simulation(simulate: Simulate) -> None:
    case = Case(6)
    trace = Trace(**case.trace)
    services, kinds = [ServiceTimes.given(case.service_s, case.expected_s)], case.node_service
    known: dict[str, Any] = {"policy": "edfq", "deadline_s": case.deadline_s}
    too_few = ServiceTimes.given(array("d", [1.0]))
    eternal = ServiceTimes.exponential_sum([1e300])
    for message, arguments in {
        "no policy 'lifo'": (services, kinds, {"policy": "lifo"}),
        "policy edfq needs": (services, kinds, {"policy": "edfq"}),
        "node_service needs one value": (services, array("i"), known),
        "node 0 has service 0 of 0": ([], kinds, known),
        "1 service times are given": ([too_few], kinds, known),
        "deadline_s has 1 values": (services, kinds, known | {"deadline_s": array("d", [1.0])}),
        "deadline of task 0 is NaN": (
            services,
            kinds,
            known | {"deadline_s": array("d", [math.nan] * trace.tasks)},
        ),
        "seed = -1": (services, kinds, known | {"seed": -1}),
        "advance_s has 1 values": (services, kinds, known | {"advance_s": array("d", [1.0])}),
        "task 0 is advanced by nan s": (
            services,
            kinds,
            known | {"advance_s": array("d", [math.nan] * trace.tasks)},
        ),
        "give `expected`": (
            [ServiceTimes.given(case.service_s)],
            kinds,
            {"policy": "sanderling"},
        ),
        "finish after 1e\\+12 s": ([eternal], kinds, known),
    }.items():
        positional, more = arguments[:2], arguments[2]
        with pytest.raises(ValueError, match=message):
            simulate(trace, *positional, **more)


def test_wrong_models() -> None:
    case = Case(6)
    trace = Trace(**case.trace)
    models = case.models()
    for wrong, more, message in (
        ([], {}, "models needs one model"),
        ([None] * len(models), {}, "models needs one|not an UnloadedModel"),
        (models, {"deadline_s": case.deadline_s}, "give one of them"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate_events(
                trace,
                [ServiceTimes.given(case.service_s, case.expected_s)],
                case.node_service,
                policy="edfq",
                models=wrong,
                **more,
            )


def test_what_does_not_go_together() -> None:
    case = Case(6)
    trace = Trace(**case.trace)
    del case.trace["task_window_s"]
    for of, more, message in (
        (trace, {"sizes": []}, "sizes needs one model"),
        (trace, {"sizes": case.models()}, "is not a SizeModel"),
        (Trace(**case.trace), {"sizes": case.sizes()}, "sizes need a trace with task_window_s"),
        (trace, {"balance": True, "advance_s": array("d", [0.0])}, "advance_s has 1 values"),
        (
            trace,
            {"balance": True, "advance_s": array("d", [0.0] * trace.tasks)},
            "give one of them",
        ),
        (trace, {"demotion": "fleet"}, "no demotion 'fleet'"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate_events(
                of,
                [ServiceTimes.given(case.service_s, case.expected_s)],
                case.node_service,
                policy="sanderling",
                **more,
            )


def test_a_scheduler_knows_so_many_classes() -> None:
    for schedulers, classes in ((1, 64), (2, 128), (1, 65), (2, 130)):
        arguments = one_node(1, np.arange(classes, dtype=float))
        arguments["query_percentile"] = np.linspace(50.0, 99.0, classes)
        arguments["query_scheduler"] = np.arange(classes, dtype=np.int32) % schedulers

        def simulated(arguments: dict[str, Any] = arguments) -> Run:
            trace = Trace(**arguments)
            return simulate_events(
                trace, SERVICES[:1], array("i", [0]), policy="sanderling", balance=True
            )

        if classes <= 64 * schedulers:
            advances = simulated().class_advance_s
            assert [len(own) for own in advances or ()] == [64] * schedulers
        else:
            with pytest.raises(ValueError, match="more than 64 classes"):
                simulated()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ServiceTimes.exponential_sum([]),
        lambda: ServiceTimes.exponential_sum([1.0] * 5),
        lambda: ServiceTimes.exponential_sum([-1.0]),
        lambda: ServiceTimes.lognormal(0.0, 1.0),
        lambda: ServiceTimes.lognormal(1.0, math.nan),
        lambda: ServiceTimes.lognormal(1.0, 1.0, math.inf),
        lambda: ServiceTimes.quantiles(array("d"), exponential_tail_s=1.0),
        lambda: ServiceTimes.quantiles(array("d", [2.0, 1.0]), exponential_tail_s=1.0),
        lambda: ServiceTimes.quantiles(array("d", [1.0]), exponential_tail_s=-1.0),
        lambda: ServiceTimes.exponential_sum([1.0], known=-0.1),
        lambda: ServiceTimes.lognormal(1.0, 1.0, known=math.nan),
        lambda: ServiceTimes.given(array("d", [1.0]), array("d")),
        lambda: ServiceTimes.given(array("d", [1.0]), array("d", [-1.0])),
        lambda: ServiceTimes.given(array("d", [math.nan])),
        lambda: ServiceTimes.given(array("i", [1])),
    ],
)
def test_wrong_service_times(make: Callable[[], ServiceTimes]) -> None:
    with pytest.raises(ValueError):
        make()


def test_a_trace_without_content() -> None:
    trace = Trace.__new__(Trace)
    assert (trace.nodes, trace.iads, trace.queries, trace.tasks, trace.subtasks) == (0,) * 5
    with pytest.raises(ValueError, match="the trace is empty"):
        simulate_nodes(trace, SERVICES, array("i"), policy="fifo")
    with pytest.raises(TypeError):
        Trace(**Case(1).trace).__init__(**Case(1).trace)


def test_a_trace_keeps_its_own_copy() -> None:
    case = Case(7)
    trace = Trace(**case.trace)
    services = [ServiceTimes.given(case.service_s, case.expected_s)]
    known = {"policy": "edfq", "deadline_s": case.deadline_s}
    before = simulate_nodes(trace, services, case.node_service, **known).query_latency_s
    for name in ("set_nodes", "task_set", "task_size", "task_query"):
        for i in range(len(case.trace[name])):
            case.trace[name][i] = 2**31 - 1
    assert simulate_nodes(trace, services, case.node_service, **known).query_latency_s == before
