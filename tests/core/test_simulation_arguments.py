"""Wrong arguments of a simulation, and what the buffers of a trace hold."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _core.deadlines.size_regression import SizeModel
from _core.simulator import Run, ServiceTimes, Trace, simulate_events, simulate_nodes
from tests.core.simulation_traces import BOTH, SERVICES, Case, Simulate, one_node
from tests.examples import examples

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
