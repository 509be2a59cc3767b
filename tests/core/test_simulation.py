"""The simulator against its naive twin, twice the same, and beside other threads."""

from __future__ import annotations

import contextlib
from array import array
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from _core.queue.policy import POLICIES
from _core.simulator import Run, ServiceTimes, Trace, simulate_events, simulate_nodes
from tests.core.simulation_traces import BOTH, SERVICES, Case, Simulate
from tests.oracles import simulation as oracle


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

    refusals: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        while not refusals:  # this thread may get no processor before it has ended
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
