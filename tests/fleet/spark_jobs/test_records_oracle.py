"""Reports of a recorded run, recomputed from the same JSON lines in plain Python."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from statistics import fmean
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from agent.scheduling.tasks.autoscale import Autoscaler, Looked, NodeLoad, finished
from agent.wire.master_config import MasterAutoscale
from agent.wire.records import AnyRecord, QueryRecord, SubtaskRecord, TaskRecord, decode_record
from fleet.lake.schema.tables import requests
from fleet.lake.schema.tables.model import Table
from fleet.report.jobs.deadlines import node_hours
from fleet.report.jobs.load import load_curve
from fleet.report.jobs.slo import attainment
from fleet.report.jobs.timing import time_spent
from fleet.simulation.measures import percentile
from tests.fleet.spark_jobs import virtual_run
from tests.fleet.spark_jobs.recorded import found, frames

# What the tests by hand find (attainment, timing, deadlines, load) is found first.
pytestmark = pytest.mark.long

Tables = tuple[DataFrame, DataFrame, DataFrame]
Rows = dict[tuple[Any, ...], dict[str, Any]]


@cache
def records() -> list[AnyRecord]:
    """All of them; not made by whoever only collects tests."""
    return [decode_record(line) for line in virtual_run.lines()]


@cache
def queries() -> list[QueryRecord]:
    return [each for each in records() if isinstance(each, QueryRecord)]


@cache
def tasks_by_id() -> dict[str, TaskRecord]:
    return {each.task: each for each in records() if isinstance(each, TaskRecord)}


@cache
def subtasks() -> list[SubtaskRecord]:
    return [each for each in records() if isinstance(each, SubtaskRecord)]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    made = [frame.cache() for frame in frames(spark, records())]
    return made[0], made[1], made[2]


def by_key(rows: Iterable[dict[str, Any]], *key: str) -> Rows:
    return {tuple(row[name] for name in key): row for row in rows}


def check(made: DataFrame, table: Table, expected: Rows) -> None:
    """Equal to 1e-9, of all keys."""
    rows = by_key(found(made, table), *table.key)
    assert set(rows) == set(expected)
    for key, row in expected.items():
        for name, value in row.items():
            wanted = pytest.approx(value, rel=1e-9, abs=1e-9) if value is not None else None
            assert rows[key][name] == wanted, (key, name)


def policy_of(query: QueryRecord) -> str:
    policies = {tasks_by_id()[task].policy for task in query.tasks if task in tasks_by_id()}
    return "none" if not policies else policies.pop() if len(policies) == 1 else "mixed"


def p99(values: Iterable[float]) -> float | None:
    return percentile(sorted(values), 99.0)


def test_the_run_has_something_to_report() -> None:
    assert {q.status for q in queries()} == {"complete", "refused"}
    assert sum(not q.slo_met for q in queries() if q.status == "complete") > 20
    assert sum(s.missed_deadline for s in subtasks()) > 50


def lacks_readings_alone(query: QueryRecord) -> bool:
    ended = [(s.task, s.outcome) for s in subtasks() if s.task in query.tasks]
    outcomes = {outcome for _, outcome in ended}
    return (
        query.status == "partial"
        and "no_data" in outcomes <= {"ok", "no_data"}
        and {task for task, _ in ended} == set(query.tasks)
    )


def test_attainment(tables: Tables) -> None:
    classes: dict[tuple[Any, ...], list[QueryRecord]] = defaultdict(list)
    for q in queries():
        classes[policy_of(q), q.label, q.service, q.percentile, q.slo_ms].append(q)
    expected = {}
    for key, asked in classes.items():
        response_ms = sorted(q.aggregated_ms for q in asked if q.status != "refused")
        kept = sum(q.slo_met for q in asked)
        no_data = sum(lacks_readings_alone(q) for q in asked)
        taken = len(response_ms) - no_data
        expected[key] = {
            "queries": len(asked),
            "refused": len(asked) - len(response_ms),
            "kept": kept,
            "no_data": no_data,
            "attainment": kept / taken if taken else None,
            "p50_ms": percentile(response_ms, 50.0),
            "p90_ms": percentile(response_ms, 90.0),
            "p99_ms": percentile(response_ms, 99.0),
            "p999_ms": percentile(response_ms, 99.9),
        }
    check(attainment(*tables), requests.ATTAINMENT, expected)


def test_time_spent(tables: Tables) -> None:
    expected = {}
    for at in {(t.iad, t.policy) for t in tasks_by_id().values()}:
        tasks = [
            t for t in tasks_by_id().values() if (t.iad, t.policy) == at and t.status == "complete"
        ]
        names = {t.task for t in tasks}
        mine = [s for s in subtasks() if s.task in names and s.outcome == "ok"]
        once = [s for s in mine if s.dispatches == 1]
        last = {name: max(s.result_ms or 0 for s in mine if s.task == name) for name in names}
        queueing = [(s.dispatched_ms or 0) - s.enqueued_ms for s in once]
        unloaded = [(s.result_ms or 0) - (s.dispatched_ms or 0) for s in once]
        at_node = [(s.node_wait_ms or 0) + (s.execution_ms or 0) for s in once]
        expected[at] = {
            "tasks": len(tasks),
            "subtasks": len(once),
            "evaluation_ms": fmean(t.evaluated_ms for t in tasks),
            "queueing_ms": fmean(queueing),
            "queueing_p99_ms": p99(queueing),
            "unloaded_ms": fmean(unloaded),
            "unloaded_p99_ms": p99(unloaded),
            "communication_ms": fmean(a - b for a, b in zip(unloaded, at_node, strict=True)),
            "node_wait_ms": fmean(s.node_wait_ms or 0 for s in once),
            "execution_ms": fmean(s.execution_ms or 0 for s in once),
            "aggregation_ms": fmean(t.aggregated_ms - last[t.task] for t in tasks),
            "task_ms": fmean(t.aggregated_ms for t in tasks),
        }
    check(time_spent(*tables[1:]), requests.TIME_SPENT, expected)


# --- deadlines ------------------------------------------------------------------------------------


def ended_s(s: SubtaskRecord) -> float:
    ended_ms = s.result_ms
    if ended_ms is None:
        ended_ms = max(s.deadline_ms, s.dispatched_ms or 0.0)
    return s.wall_ms / 1e3 + ended_ms / 1e3


def hour_of(s: SubtaskRecord) -> int:
    return s.wall_ms // 3_600_000


def scaled(subtasks: Sequence[SubtaskRecord]) -> dict[int, list[int]]:
    """By hour of a node: how often down, how often up, the most; looking every second, always."""
    scaler = Autoscaler(MasterAutoscale(enabled=True), 8)
    events = []
    for s in sorted(subtasks, key=ended_s):
        event = finished(replace(s, start_s=s.wall_ms / 1e3))
        if event is not None:
            events.append((ended_s(s), hour_of(s), event))
    waits = [
        (s.wall_ms / 1e3 + s.enqueued_ms / 1e3, s.wall_ms / 1e3 + (s.dispatched_ms or 0) / 1e3)
        for s in subtasks
    ]
    pods, hour = 1, 0
    hours: dict[int, list[int]] = {}
    # Looks begin with the first thing that is told: here the first end, nobody waits long.
    for look in range(math.floor(events[0][0]), math.floor(events[-1][0]) + 1):
        while events and events[0][0] < look:
            at_s, hour, event = events.pop(0)
            hours.setdefault(hour, [0, 0, pods])
            scaler.handle(event, at_s)
        queued = sum(begin < look <= end for begin, end in waits)
        for scale in scaler.handle(
            Looked((NodeLoad(subtasks[0].node, pods, 1, queued),)), float(look)
        ):
            hours[hour][scale.count > pods] += 1
            pods = scale.count
            hours[hour][2] = max(hours[hour][2], pods)
    for _, hour, _ in events:
        hours.setdefault(hour, [0, 0, pods])
    return hours


def test_node_hours(tables: Tables) -> None:
    expected = {}
    for iad, node in {(s.iad, s.node) for s in subtasks()}:
        of_node = [s for s in subtasks() if (s.iad, s.node) == (iad, node)]
        pods = scaled(of_node)
        for hour in {hour_of(s) for s in of_node}:
            everybody = [s for s in subtasks() if s.iad == iad and hour_of(s) == hour]
            span_s = max(map(ended_s, everybody)) - min(s.wall_ms / 1e3 for s in everybody)
            mine = [s for s in of_node if hour_of(s) == hour]
            busy_ms = sum((s.result_ms or 0) - (s.dispatched_ms or 0) for s in mine if s.result_ms)
            counted = [s for s in mine if s.deadline_ms > s.enqueued_ms]
            missed = sum(s.missed_deadline for s in counted)
            time = datetime.fromtimestamp(hour * 3600, UTC).replace(tzinfo=None)
            expected[iad, node, time] = {
                "subtasks": len(counted),
                "missed": missed,
                "violations": 100.0 * missed / len(counted),
                "queueing_ms": fmean((s.dispatched_ms or 0) - s.enqueued_ms for s in counted),
                "busy": busy_ms / 1e3 / span_s,
                "pods_down": pods[hour][0],
                "pods_up": pods[hour][1],
                "pods_most": pods[hour][2],
            }
    assert sum(row["pods_up"] for row in expected.values()) > 2
    assert sum(row["pods_down"] for row in expected.values()) > 0
    check(node_hours(tables[2]), requests.NODE_HOURS, expected)


# --- load -----------------------------------------------------------------------------------------


def test_load_curve(tables: Tables) -> None:
    window_s = 5.0
    windows: dict[int, list[QueryRecord]] = defaultdict(list)
    for q in queries():
        windows[math.floor(q.wall_ms / 1e3 / window_s)].append(q)
    policies = {}
    for number, asked in windows.items():
        known = {policy_of(q) for q in asked} - {"none"}
        policies[number] = known.pop() if len(known) == 1 else "mixed"
    # Both runs are without a pause: whole windows have neighbours.
    whole = [n for n in windows if {n - 1, n + 1} <= set(windows)]
    most = max(len(windows[n]) for n in whole) / window_s
    width = next(w for w in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if most / w <= 12)
    bins: dict[tuple[str, float], list[int]] = defaultdict(list)
    for n in whole:
        place = math.floor(round(len(windows[n]) / window_s / width, 9)) + 0.5
        bins[policies[n], place * width].append(n)
    of_task = defaultdict(list)
    for s in subtasks():
        of_task[s.task].append(s)
    expected = {}
    for key, numbers in bins.items():
        asked = [q for n in numbers for q in windows[n]]
        response = [q.aggregated_ms for q in asked if q.status != "refused"]
        theirs = [s for q in asked for task in q.tasks for s in of_task[task]]
        queueing = [s.dispatched_ms - s.enqueued_ms for s in theirs if s.dispatched_ms is not None]
        counted = [s.missed_deadline for s in theirs if s.deadline_ms > s.enqueued_ms]
        expected[key] = {
            "windows": len(numbers),
            "queries": len(asked),
            "subtasks": len(queueing),
            "queueing_ms": fmean(queueing),
            "queueing_p99_ms": p99(queueing),
            "response_ms": fmean(response),
            "response_p99_ms": p99(response),
            "violations": 100.0 * sum(counted) / len(counted),
        }
    assert len(expected) >= 6
    check(load_curve(*tables, window_s=window_s), requests.LOAD_CURVE, expected)
