"""One trace through the masters' schedulers in virtual time and through the simulator: the same
events, to the last bit.

The simulator's queries arrive when their scheduler receives them: from there it counts."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import accumulate, islice
from typing import Any

import pytest
from msgspec import Struct

from _core.deadlines.order_statistics import UnloadedModel, task_percentile
from _core.deadlines.size_regression import SizeModel
from _core.queue.policy import DEMOTING, POLICIES
from _core.simulator import Run, ServiceTimes, Trace, simulate_events
from agent.scheduling.events import (
    Instruction,
    SendAnswer,
    SendToNode,
    SubtaskReturned,
    WriteRecord,
)
from agent.scheduling.tasks.entry import SubtaskEntry
from agent.scheduling.tasks.scheduler import TaskScheduler
from agent.wire.base import MAX_TIMEOUT_MS, Policy
from agent.wire.emulation import PROFILES, SIZED, service_time_s
from agent.wire.node_messages import Subtask
from agent.wire.records import SubtaskRecord
from fleet.simulation.layout import FleetLayout, NodeLayout, building_fleet
from fleet.simulation.measures import Outcome
from fleet.simulation.virtual import Delays, VirtualFleet
from fleet.simulation.workload import PERCENTILE, Arrival, arrivals

# The first thousand of the trace in `make test`.
QUERIES = [1_000, pytest.param(4_000, marks=pytest.mark.long)]
RATE_PER_S = 18.0  # the nodes of the hot spot are busy a third of the time
HIGH_RATE_PER_S = 46.0  # nearly always: queries miss their SLOs, what is hopeless is demoted
WARM_SAMPLES = 300
# Communication is part of the service here, so that both add it up in the same order.
DELAYS = Delays(communication_s=0.0)

Place = tuple[int, str]  # (emulation seed of the query, node)


def service_s(node: NodeLayout, seed: int | None, window_s: float) -> float:
    profile = PROFILES[f"{node.profile}{SIZED}"]
    return 0.00287 + service_time_s(profile, node.name, seed, window_s)


class Events(Struct):
    """What happened, by where; and the answers, by query."""

    elapsed_ms: dict[str, float] = {}
    demoted: dict[Place, bool] = {}
    deadline_s: dict[Place, float] = {}
    dispatched_s: dict[Place, float] = {}
    returned_s: dict[Place, float] = {}


def virtual_fleet(policy: Policy) -> VirtualFleet:
    """Queries wait longer than anything takes: the simulator knows no timeouts."""
    fleet = VirtualFleet(
        building_fleet(),
        policy,
        service=service_s,
        delays=DELAYS,
        warm_samples=WARM_SAMPLES,
    )
    for plane in fleet._queries.values():
        plane.scheduler._timeout_factor = MAX_TIMEOUT_MS
    return fleet


def watched(fleet: VirtualFleet) -> Events:
    """Write down what the fleet's schedulers are told and tell."""
    events = Events()
    for plane in fleet._queries.values():
        plane.handle = _spy_answers(plane.handle, events)
    for plane in fleet._tasks.values():
        plane.handle = _spy(plane.scheduler, plane.handle, events)
    return events


def _spy_answers(
    handle: Callable[[Any, float], list[Instruction]], events: Events
) -> Callable[[Any, float], list[Instruction]]:
    def spied(event: Any, now: float) -> list[Instruction]:
        instructions = handle(event, now)
        for told in instructions:
            if isinstance(told, SendAnswer):
                events.elapsed_ms[told.answer.id] = told.answer.elapsed_ms
        return instructions

    return spied


def _spy(
    scheduler: TaskScheduler,
    handle: Callable[[Any, float], list[Instruction]],
    events: Events,
) -> Callable[[Any, float], list[Instruction]]:
    def busy(peer: Any, number: int) -> SubtaskEntry:
        node = scheduler._nodes.on(peer)
        assert node is not None
        return node.busy[number]

    def place(subtask: SubtaskEntry) -> Place:
        seed = subtask.parent.task.emulation_seed
        assert seed is not None
        return seed, subtask.node.name

    def spied(event: Any, now: float) -> list[Instruction]:
        returned = None
        if isinstance(event, SubtaskReturned):
            returned = place(busy(event.peer, event.result.id))
            events.returned_s[returned] = now
        instructions = handle(event, now)
        for told in instructions:
            match told:
                case WriteRecord(record=SubtaskRecord() as record):
                    assert returned is not None
                    events.demoted[returned] = record.demoted
                case SendToNode(peer=peer, message=Subtask(id=number)):
                    subtask = busy(peer, number)
                    events.dispatched_s[place(subtask)] = now
                    events.deadline_s[place(subtask)] = subtask.parent.deadline_s
        return instructions

    return spied


class Told(Struct):
    """The trace as the simulator takes it, and where each of its subtasks is."""

    arguments: dict[str, Any]
    places: list[Place]
    services: ServiceTimes
    node_service: array[int]


def told(plan: FleetLayout, asked: list[Arrival]) -> Told:
    """A task for each IAD of a query; a set for each choice of nodes."""
    node_of = {node.area: i for i, node in enumerate(plan.nodes)}
    scheduler_of = {iad.name: i for i, iad in enumerate(plan.iads)}
    iad_of = [i for i, iad in enumerate(plan.iads) for _ in iad.nodes]
    sets: dict[tuple[int, ...], int] = {}
    load: dict[str, list[Any]] = {name: [] for name in LOAD}
    places = []
    times = []
    for number, arrival in enumerate(asked):
        choices: dict[int, list[int]] = {}
        for node in (node_of[area] for area in arrival.areas):
            choices.setdefault(iad_of[node], []).append(node)
        received_s = arrival.at_s + DELAYS.query_evaluation_s
        load["query_arrived_s"].append(received_s)
        load["query_class"].append(0)
        load["query_scheduler"].append(scheduler_of[arrival.scheduler])
        load["query_percentile"].append(PERCENTILE)
        for chosen in choices.values():
            load["task_query"].append(number)
            load["task_set"].append(sets.setdefault(tuple(sorted(chosen)), len(sets)))
            load["task_size"].append(len(chosen))
            load["task_enqueued_s"].append(received_s + DELAYS.task_evaluation_s)
            load["task_budget_s"].append(arrival.slo_ms / 1e3)
            load["task_percentile"].append(task_percentile(PERCENTILE, len(choices)))
            load["task_after_s"].append(DELAYS.aggregation_s)
            load["task_window_s"].append(arrival.last_s)
            for node in sorted(chosen):
                places.append((arrival.emulation_seed, plan.nodes[node].name))
                seed, window_s = arrival.emulation_seed, arrival.last_s
                times.append(service_s(plan.nodes[node], seed, window_s))
    arguments: dict[str, Any] = {name: array(LOAD[name], values) for name, values in load.items()}
    arguments |= {
        "node_iad": array("i", iad_of),
        "node_pods": array("i", [1] * len(iad_of)),
        "set_first": array("q", [0, *accumulate(len(nodes) for nodes in sets)]),
        "set_nodes": array("i", [node for nodes in sets for node in nodes]),
    }
    return Told(
        arguments, places, ServiceTimes.given(array("d", times)), array("i", [0] * len(iad_of))
    )


LOAD = {
    "query_arrived_s": "d",
    "query_class": "i",
    "query_scheduler": "i",
    "query_percentile": "d",
    "task_query": "i",
    "task_set": "i",
    "task_size": "i",
    "task_enqueued_s": "d",
    "task_budget_s": "d",
    "task_percentile": "d",
    "task_after_s": "d",
    "task_window_s": "d",
}


def simulated(trace: Told, policy: Policy, fresh: VirtualFleet) -> Run:
    """The simulator's run, with the models of a virtual fleet that has served nothing."""
    estimators = [plane.scheduler._estimator for plane in fresh._tasks.values()]
    models: list[UnloadedModel] = [estimator._model for estimator in estimators]
    sizes: list[SizeModel] = [estimator.observe_size.__self__ for estimator in estimators]
    return simulate_events(
        Trace(**trace.arguments),
        [trace.services],
        trace.node_service,
        policy=policy,
        models=models,
        sizes=sizes,
        balance=True,
        record=True,
    )


@pytest.mark.parametrize("count", QUERIES)
@pytest.mark.parametrize(
    ("policy", "rate_per_s"),
    [(policy, RATE_PER_S) for policy in POLICIES]
    + [(policy, HIGH_RATE_PER_S) for policy in sorted(DEMOTING)],
)
def test_both_do_the_same_at_the_same_times(policy: Policy, rate_per_s: float, count: int) -> None:
    plan = building_fleet()
    asked = list(islice(arrivals(plan, rate_per_s=rate_per_s, seed=11), count))
    fleet = virtual_fleet(policy)
    events = watched(fleet)
    outcomes: list[Outcome] = sorted(fleet.run(asked), key=lambda outcome: outcome.number)
    assert {outcome.status for outcome in outcomes} == {"complete"}

    trace = told(plan, asked)
    run = simulated(trace, policy, virtual_fleet(policy))
    task_of = [task for task, size in enumerate(trace.arguments["task_size"]) for _ in range(size)]
    assert len(events.returned_s) == run.subtasks == len(trace.places)
    assert run.subtask_dispatched_s is not None
    assert run.subtask_finished_s is not None
    assert run.task_deadline_s is not None
    assert run.subtask_demoted is not None
    for i, place in enumerate(trace.places):
        assert run.task_deadline_s[task_of[i]] == events.deadline_s[place]
        assert run.subtask_dispatched_s[i] == events.dispatched_s[place]
        assert run.subtask_finished_s[i] == events.returned_s[place]
        assert run.subtask_demoted[i] == events.demoted[place]
    assert [s * 1e3 for s in run.query_latency_s] == [
        events.elapsed_ms[arrival.query("virtual").id] for arrival in asked
    ]
    assert run.late_subtasks == sum(
        plane.scheduler.counters["deadlines_missed"] for plane in fleet._tasks.values()
    )
    assert run.late_subtasks > 0
    assert run.demoted_subtasks == sum(
        plane.scheduler.counters["subtasks_demoted"] for plane in fleet._tasks.values()
    )
    if rate_per_s == HIGH_RATE_PER_S:
        assert run.demoted_subtasks > 100
    learnt = [
        [plane.scheduler._classes._balance.advance(number) for number in range(3)]
        for plane in fleet._queries.values()
    ]
    assert run.class_advance_s == learnt
    assert all(any(advances) for advances in learnt) or rate_per_s < HIGH_RATE_PER_S
