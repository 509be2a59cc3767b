"""Simulator throughput: subtasks per second, against SimPy, and a fleet of 18,000 nodes within a
memory limit.

python -m bench.simulation
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from array import array
from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from _core.deadlines.order_statistics import UnloadedModel
from _core.simulator import Run, ServiceTimes, Trace, simulate_events, simulate_nodes
from bench.masstree import SERVERS, SLO, Masstree, masstree
from bench.output import Result, interleaved, report, result
from lab.simulation.table_v import COMMUNICATION_S, EXECUTION_S, SIZES, Draw, draw

ROUNDS = 9
LOAD = 0.6
SIMPY_QUERIES = 20_000
MODEL_QUERIES = 40_000
# For Table V's largest fleet, queries/s: its busiest nodes have a utilisation of 80 %.
TABLE_V_LOAD_PER_S = 8.0
TABLE_V_QUERIES = 100_000
TABLE_V_EVENT_QUERIES = 2_000
WARM_SAMPLES = 1_000


def seconds(run: Any) -> float:
    """Processor time of a call, because the machine may be busy with other work."""
    started = time.process_time()
    run()
    return time.process_time() - started


# --- one core, fixed distributions ---------------------------------------------------------------


def masstree_results() -> list[Result]:
    """Goals: simulate-masstree at least 10 million a second."""
    work = masstree(1)
    trace = work.trace(LOAD)
    nodes_s, events_s = interleaved(
        ROUNDS,
        lambda: seconds(lambda: work.run(trace, "edfq", LOAD, 1)),
        lambda: seconds(lambda: events(work, trace)),
    )
    few = masstree(1, MODEL_QUERIES)
    trace_of_few = few.trace(LOAD)
    models_s = seconds(lambda: with_models(few, trace_of_few))
    return [
        rate("simulate-masstree", trace.subtasks, nodes_s, least=10.0),
        rate("simulate-masstree-events", trace.subtasks, events_s),
        rate("simulate-masstree-histograms", trace_of_few.subtasks, models_s),
    ]


def rate(name: str, subtasks: int, taken_s: float, **more: Any) -> Result:
    """Million subtasks a second."""
    return result(name, subtasks / taken_s / 1e6, "million/s", **more)


def events(work: Masstree, trace: Trace) -> Run:
    """The same simulation on one clock."""
    deadline = work.arrival(LOAD) + SLO - work.unloaded[work.fanout - 1]
    return simulate_events(
        trace, [work.service], one_kind(SERVERS), policy="edfq", deadline_s=deadline.data, seed=1
    )


def with_models(work: Masstree, trace: Trace) -> Run:
    """The same with deadlines from histograms that are empty at first; every task uses another set
    of servers."""
    return simulate_events(
        trace, [work.service], one_kind(SERVERS), policy="edfq", models=[model(SERVERS)], seed=1
    )


def one_kind(nodes: int) -> array[int]:
    """Every node has the first service."""
    return array("i", [0] * nodes)


def model(nodes: int) -> UnloadedModel:
    """An empty model of this many nodes."""
    made = UnloadedModel()
    for _ in range(nodes):
        made.add_node()
    return made


# --- SimPy ---------------------------------------------------------------------------------------


def simpy_result() -> Result:
    """The same model by SimPy; goal at least 100 times faster."""
    work = masstree(1, SIMPY_QUERIES)
    trace = work.trace(LOAD)
    times = service_times(work, trace)
    ours = work.run(trace, "edfq", LOAD, 1).query_latency_s
    assert np.allclose(by_simpy(work, times), ours), "SimPy finds other latencies"
    ours_s, simpy_s = interleaved(
        3,
        lambda: seconds(lambda: work.run(trace, "edfq", LOAD, 1)) / trace.subtasks,
        lambda: seconds(lambda: by_simpy(work, times)) / trace.subtasks,
    )
    peer = "SimPy, a PriorityResource a server"
    return result("simulate-simpy", ours_s, "ns", peer, simpy_s, least_ratio=100.0)


def service_times(work: Masstree, trace: Trace) -> list[float]:
    """The simulator's service time of each subtask, so that SimPy uses the same."""
    run = work.run(trace, "edfq", LOAD, 1, record=True)
    return (np.asarray(run.subtask_finished_s) - np.asarray(run.subtask_dispatched_s)).tolist()


def by_simpy(work: Masstree, times: list[float]) -> list[float]:
    """The latencies of the queries under EDFQ at every server, in idiomatic SimPy; service times
    are known, and cost nothing here."""
    world = simpy.Environment()
    servers = [simpy.PriorityResource(world) for _ in range(SERVERS)]
    latency = [0.0] * len(work.fanout)

    def subtask(query: int, server: Any, deadline: float, service: float) -> Generator[Any]:
        arrived = world.now
        with server.request(priority=deadline) as request:
            yield request
            yield world.timeout(service)
        latency[query] = max(latency[query], world.now - arrived)

    def arrivals() -> Generator[Any]:
        taken = 0
        slack = (SLO - work.unloaded[work.fanout - 1]).tolist()
        for query, (at, fanout) in enumerate(
            zip(work.arrival(LOAD).tolist(), work.fanout.tolist(), strict=True)
        ):
            yield world.timeout(at - world.now)
            for i in range(taken, taken + fanout):
                server = servers[work.servers[i]]
                world.process(subtask(query, server, at + slack[query], times[i]))
            taken += fanout

    world.process(arrivals())
    world.run()
    return latency


# --- Table V, 18,000 nodes -----------------------------------------------------------------------


def table_v_results() -> list[Result]:
    """A full point in a process of its own; goals: within minutes and 4 GiB."""
    child = subprocess.run(
        [sys.executable, "-m", "bench.simulation", "table-v"],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(child.stdout)
    return [
        result(
            "simulate-18000",
            found["total_s"],
            "s",
            subtasks=found["subtasks"],
            simulation_s=round(found["simulation_s"], 2),
            million_per_s=round(found["subtasks"] / found["simulation_s"] / 1e6, 1),
            peak_gib=round(found["peak_kib"] / 2**20, 2),
        ),
        *table_v_event_results(),
    ]


def table_v_point() -> dict[str, float]:
    """Trace, deadlines and simulation, all in this process."""
    started = time.perf_counter()
    load = draw(SIZES[-1], reading="query", out_of_range="clip", queries=TABLE_V_QUERIES, seed=1)
    trace = load.trace(TABLE_V_LOAD_PER_S)
    began = time.perf_counter()
    run = simulate_nodes(
        trace,
        [table_v_service()],
        one_kind(trace.nodes),
        policy="edfq",
        deadline_s=deadlines(load),
    )
    ended = time.perf_counter()
    return {
        "subtasks": run.subtasks,
        "simulation_s": ended - began,
        "total_s": ended - started,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def table_v_service(known: float = 0.0) -> ServiceTimes:
    """Communication and execution, exponential both; `known`: the share of the latter that is
    known."""
    return ServiceTimes.exponential_sum([COMMUNICATION_S, EXECUTION_S], known=known)


def deadlines(load: Draw) -> Any:
    """t_D with x_u from the closed form of an exponential's maximum: close enough for a load."""
    share = (load.percentile / 100.0) ** (1.0 / load.node_fanout)
    unloaded_s = COMMUNICATION_S - EXECUTION_S * np.log1p(-share)
    return (load.enqueued_s(TABLE_V_LOAD_PER_S) + load.budget_s - unloaded_s).data


def table_v_event_results() -> list[Result]:
    """The cost of a single clock, and of histograms in addition."""
    load = draw(
        SIZES[-1], reading="query", out_of_range="clip", queries=TABLE_V_EVENT_QUERIES, seed=1
    )
    trace = load.trace(TABLE_V_LOAD_PER_S)
    services, kinds = [table_v_service()], one_kind(trace.nodes)
    known = deadlines(load)
    events_s = seconds(
        lambda: simulate_events(trace, services, kinds, policy="edfq", deadline_s=known)
    )
    models = [warm_model(trace.nodes // trace.iads, iad) for iad in range(trace.iads)]
    models_s = seconds(
        lambda: simulate_events(trace, services, kinds, policy="edfq", models=models)
    )
    return [
        rate("simulate-18000-events", trace.subtasks, events_s),
        rate("simulate-18000-histograms", trace.subtasks, models_s),
        *table_v_sanderling_results(trace),
    ]


def table_v_sanderling_results(trace: Trace) -> list[Result]:
    """The cost of demotion, with a share of the execution known in advance, and of learning
    advances."""
    kinds = one_kind(trace.nodes)
    found = []
    for known in (0.0, 0.5, 1.0):
        services = [table_v_service(known)]
        taken_s = seconds(
            lambda services=services: simulate_nodes(trace, services, kinds, policy="sanderling")
        )
        found.append(rate(f"simulate-18000-sanderling-{known:g}", trace.subtasks, taken_s))
    events_s = seconds(
        lambda: simulate_events(
            trace, [table_v_service(1.0)], kinds, policy="sanderling", balance=True
        )
    )
    return [*found, rate("simulate-18000-sanderling-events", trace.subtasks, events_s)]


def warm_model(nodes: int, seed: int) -> UnloadedModel:
    """A model whose windows hold samples."""
    made = model(nodes)
    draws = np.random.default_rng(seed).exponential(EXECUTION_S, (nodes, WARM_SAMPLES))
    for column, times in enumerate(draws.tolist()):
        for time_s in times:
            made.observe(column, COMMUNICATION_S + time_s, 0.0)
    return made


def run() -> list[Result]:
    """All results."""
    return [*masstree_results(), simpy_result(), *table_v_results()]


if __name__ == "__main__":
    if sys.argv[1:] == ["table-v"]:
        print(json.dumps(table_v_point()))
    else:
        report(run())
