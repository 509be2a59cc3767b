"""Both simulators against their naive twin: the same events, to the last bit.

Times that are whole numbers make ties of all kinds: tasks that are enqueued at one instant, results
at that instant, equal keys.
"""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest

from _core import simulator as simulation
from _core.deadlines.order_statistics import UnloadedModel
from _core.deadlines.size_regression import SizeModel
from _core.queue.policy import DEMOTED, DEMOTING, POLICIES
from tests.oracles import simulation as oracle

INT32 = (
    "node_iad",
    "node_pods",
    "task_set",
    "task_size",
    "query_class",
    "query_scheduler",
    "task_query",
)
INT64 = ("set_first",)


def as_buffers(trace: dict[str, list[Any]]) -> dict[str, Any]:
    """The trace as the simulator takes it."""
    codes = dict.fromkeys(INT32, "i") | dict.fromkeys(INT64, "q") | {"set_nodes": "i"}
    return {name: array(codes.get(name, "d"), values) for name, values in trace.items()}


class World:
    """A small random trace with its service times and deadlines."""

    def __init__(self, seed: int, *, whole: bool) -> None:
        self.random = random.Random(seed)
        self.whole = whole
        iads = self.random.randint(1, 3)
        nodes = [iad for iad in range(iads) for _ in range(self.random.randint(1, 5))]
        sets = [self.some_nodes(nodes, iad) for iad in range(iads) for _ in range(2)]
        queries = self.random.randint(1, 25)
        arrivals = sorted(self.time(0, 30) for _ in range(queries))
        tasks = [
            (query, chosen)
            for query in range(queries)
            for chosen in self.random.sample(range(len(sets)), self.random.randint(1, iads))
        ]
        self.trace = {
            "node_iad": nodes,
            "node_pods": [self.random.choice((1, 1, 2, 3)) for _ in nodes],
            "set_first": [sum(map(len, sets[:i])) for i in range(len(sets) + 1)],
            "set_nodes": [node for chosen in sets for node in chosen],
            "task_set": [chosen for _, chosen in tasks],
            "task_size": [self.random.randint(1, len(sets[chosen])) for _, chosen in tasks],
            "query_arrived_s": arrivals,
            "query_class": [self.random.randrange(3) for _ in range(queries)],
            "task_query": [query for query, _ in tasks],
            # Not in the order of the queries.
            "task_enqueued_s": [arrivals[query] + self.time(0, 3) for query, _ in tasks],
            "task_budget_s": [self.random.choice((2.0, 3.0, 5.0)) for _ in tasks],
            "task_percentile": [self.random.choice((90.0, 99.0)) for _ in tasks],
            "task_after_s": [self.time(0, 1) for _ in tasks],
            "task_window_s": [self.random.choice((60.0, 600.0, 3600.0)) for _ in tasks],
            "query_scheduler": [self.random.randrange(3) for _ in range(queries)],
            "query_percentile": [self.random.choice((90.0, 99.0)) for _ in range(queries)],
        }
        subtasks = sum(self.trace["task_size"])
        self.service_s = [[self.time(0, 4) for _ in range(subtasks)] for _ in range(2)]
        # Right, or wrong by up to a second.
        self.expected_s = [
            [max(0.0, service_s + self.time(-1, 1)) for service_s in times]
            for times in self.service_s
        ]
        self.advance_s = [self.time(-1, 1) for _ in tasks]
        self.node_service = [self.random.randrange(2) for _ in nodes]
        self.deadline_s = [at_s + self.time(-1, 4) for at_s in self.trace["task_enqueued_s"]]
        self.iads = iads

    def time(self, low: int, high: int) -> float:
        if self.whole:
            return float(self.random.randint(low, high))
        return self.random.uniform(low, high)

    def some_nodes(self, nodes: list[int], iad: int) -> list[int]:
        own = [number for number, of in enumerate(nodes) if of == iad]
        return self.random.sample(own, self.random.randint(1, len(own)))

    def models(self) -> list[UnloadedModel]:
        """A model for each IAD, with a few samples in it."""
        made = []
        for iad in range(self.iads):
            model = UnloadedModel(max_count=20, max_age_s=10.0, prior_mean_s=1.0)
            for column in range(self.trace["node_iad"].count(iad)):
                model.add_node()
                model.observe(column, 0.5 + 0.1 * column, 0.0)
            made.append(model)
        return made

    def sizes(self) -> list[SizeModel]:
        """An empty model for each IAD."""
        return [SizeModel(1.0) for _ in range(self.iads)]

    def simulated(self, name: str, policy: str, **more: Any) -> simulation.Run:
        """By `_core`."""
        services = [
            simulation.ServiceTimes.given(array("d", times), array("d", expected))
            for times, expected in zip(self.service_s, self.expected_s, strict=True)
        ]
        for given in more.keys() & {"deadline_s", "advance_s"}:
            more[given] = array("d", more[given])
        run: simulation.Run = getattr(simulation, name)(
            simulation.Trace(**as_buffers(self.trace)),
            services,
            array("i", self.node_service),
            policy=policy,
            record=True,
            **more,
        )
        return run

    def expected(self, name: str, policy: str, **more: Any) -> oracle.Run:
        """By the twin."""
        services = [
            oracle.ServiceTimes.given(times, expected)
            for times, expected in zip(self.service_s, self.expected_s, strict=True)
        ]
        run: oracle.Run = getattr(oracle, name)(
            oracle.Trace(**self.trace), services, self.node_service, policy=policy, **more
        )
        return run


def assert_same(run: simulation.Run, twin: oracle.Run) -> None:
    assert run.subtasks == twin.subtasks
    assert list(run.subtask_dispatched_s or ()) == twin.subtask_dispatched_s
    assert list(run.subtask_finished_s or ()) == twin.subtask_finished_s
    assert list(run.query_latency_s) == twin.query_latency_s
    assert list(run.busy_s) == twin.busy_s
    assert run.late_subtasks == twin.late_subtasks
    assert list(run.task_deadline_s or ()) == pytest.approx(twin.task_deadline_s, 0, 0, nan_ok=True)
    assert list(run.subtask_demoted or ()) == twin.subtask_demoted
    assert run.demoted_subtasks == twin.demoted_subtasks
    advances = None if run.query_advance_s is None else list(run.query_advance_s)
    assert advances == twin.query_advance_s
    assert run.class_advance_s == twin.class_advance_s


@pytest.mark.parametrize("whole", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("policy", oracle.KEYS)
@pytest.mark.parametrize("name", ["simulate_nodes", "simulate_events"])
def test_given_deadlines(name: str, policy: str, whole: bool) -> None:
    for seed in range(60):
        world = World(seed, whole=whole)
        run = world.simulated(name, policy, deadline_s=world.deadline_s)
        assert_same(run, world.expected(name, policy, deadline_s=world.deadline_s))


@pytest.mark.parametrize("whole", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("policy", oracle.KEYS)
def test_deadlines_from_online_histograms(policy: str, whole: bool) -> None:
    for seed in range(40):
        world = World(seed, whole=whole)
        run = world.simulated("simulate_events", policy, models=world.models())
        twin = world.expected("simulate_events", policy, models=world.models())
        assert_same(run, twin)


@pytest.mark.parametrize("whole", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("demotion", ["never", "node"])
@pytest.mark.parametrize("policy", oracle.DEMOTING)
@pytest.mark.parametrize("name", ["simulate_nodes", "simulate_events"])
def test_given_advances(name: str, policy: str, demotion: str, whole: bool) -> None:
    more: dict[str, Any] = {"demotion": demotion}
    demoted = 0
    for seed in range(60):
        world = World(seed, whole=whole)
        more["advance_s"] = world.advance_s
        run = world.simulated(name, policy, **more)
        assert_same(run, world.expected(name, policy, **more))
        demoted += run.demoted_subtasks
    assert (demoted > 100) == (demotion == "node")


@pytest.mark.parametrize("whole", [True, False], ids=["ties", "no ties"])
@pytest.mark.parametrize("demotion", ["never", "node", "task", "query"])
@pytest.mark.parametrize("sized", [True, False], ids=["sizes", "times"])
@pytest.mark.parametrize("balance", [True, False], ids=["balance", "alike"])
@pytest.mark.parametrize("policy", oracle.DEMOTING)
def test_what_is_hopeless_and_what_is_learnt(
    policy: str, balance: bool, sized: bool, demotion: str, whole: bool
) -> None:
    moved = demoted = 0
    for seed in range(40):
        world = World(seed, whole=whole)
        runs: list[Any] = []
        for run in (world.simulated, world.expected):
            more: dict[str, Any] = {"sizes": world.sizes()} if sized else {}
            more |= {"balance": balance, "demotion": demotion, "models": world.models()}
            runs.append(run("simulate_events", policy, **more))
        assert_same(*runs)
        demoted += runs[0].demoted_subtasks
        moved += sum(map(any, runs[0].class_advance_s or ()))
    assert demoted > 100 or (demoted == 0 and demotion == "never")
    assert (moved > 10) == balance


def test_the_twin_knows_every_policy() -> None:
    assert set(oracle.KEYS) == set(POLICIES)
    assert set(oracle.DEMOTING) == DEMOTING
    assert oracle.DEMOTED_S == DEMOTED


# One node with one pod; three queries of one task each. Service: 4, 1 and 1 s.
BY_HAND: dict[str, list[Any]] = {
    "node_iad": [0],
    "node_pods": [1],
    "set_first": [0, 1],
    "set_nodes": [0],
    "task_set": [0, 0, 0],
    "task_size": [1, 1, 1],
    "query_arrived_s": [0.0, 1.0, 2.0],
    "query_class": [0, 1, 0],
    "task_query": [0, 1, 2],
    "task_enqueued_s": [0.5, 1.5, 2.5],
    "task_budget_s": [9.0, 9.0, 8.5],
    "task_percentile": [99.0, 99.0, 99.0],
    "task_after_s": [0.25, 0.0, 0.0],
}


@pytest.mark.parametrize(
    ("policy", "latencies"),
    [
        ("fifo", [4.75, 4.5, 4.5]),
        ("spr", [4.75, 5.5, 3.5]),  # the third has the tighter SLO
        ("tedfq", [4.75, 4.5, 4.5]),  # 10.5 before 11
        ("edfq", [4.75, 5.5, 3.5]),  # deadline 3 before 7
        ("sanderling", [4.75, 4.5, 4.5]),  # as tedfq: nothing is hopeless
    ],
)
def test_counted_by_hand(policy: str, latencies: list[float]) -> None:
    given = [4.0, 1.0, 1.0]
    deadlines = [1.0, 7.0, 3.0]
    twin = oracle.simulate_nodes(
        oracle.Trace(**BY_HAND),
        [oracle.ServiceTimes.given(given, given)],
        [0],
        policy=policy,
        deadline_s=deadlines,
    )
    run = simulation.simulate_nodes(
        simulation.Trace(**as_buffers(BY_HAND)),
        [simulation.ServiceTimes.given(array("d", given), array("d", given))],
        array("i", [0]),
        policy=policy,
        deadline_s=array("d", deadlines),
        record=True,
    )
    assert twin.query_latency_s == latencies
    assert twin.late_subtasks == 1  # the third waits beyond 3 s under each policy
    assert_same(run, twin)
