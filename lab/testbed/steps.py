"""Time breakdown of a query (Table III), from the masters' records; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct

from agent.wire.records import (
    AnyRecord,
    QueryRecord,
    SubtaskRecord,
    TaskRecord,
)


class Steps(Struct, frozen=True):
    """Mean times at one IAD in milliseconds, NaN where nothing was recorded; numbers as in DSSP's
    Fig. 7. `subtasks` is the sample size."""

    unloaded_ms: float
    query_evaluation_ms: float
    task_evaluation_ms: float
    queueing_ms: float
    communication_ms: float
    execution_ms: float
    task_aggregation_ms: float
    query_aggregation_ms: float
    subtasks: int


def steps_of(records: Mapping[str, Iterable[AnyRecord]], iad: str, run: str) -> Steps:
    """Means at `iad` over the records labelled with `run`; `records` are those of every master,
    whose monotonic clocks must be one: all masters on one host.

    Query aggregation counts from the end of a query's last task, wherever that was served, and so
    includes the transfer of its result.
    """
    queries: list[QueryRecord] = []
    tasks: dict[str, TaskRecord] = {}
    subtasks: list[SubtaskRecord] = []
    for where, some in records.items():
        for record in some:
            if not isinstance(record, QueryRecord | TaskRecord | SubtaskRecord):
                continue
            if not record.label.startswith(f"{run} "):
                continue
            if isinstance(record, TaskRecord):
                tasks[record.task] = record
            elif where == iad and isinstance(record, QueryRecord):
                queries.append(record)
            elif where == iad and isinstance(record, SubtaskRecord) and record.outcome == "ok":
                subtasks.append(record)
    own = {name: task for name, task in tasks.items() if task.iad == iad}
    unloaded = [_unloaded_ms(subtask) for subtask in subtasks]
    at_node = [(s.node_wait_ms or 0.0) + (s.execution_ms or 0.0) for s in subtasks]
    return Steps(
        unloaded_ms=_mean(unloaded),
        query_evaluation_ms=_mean(q.evaluated_ms for q in queries if q.evaluated_ms is not None),
        task_evaluation_ms=_mean(task.evaluated_ms for task in own.values()),
        queueing_ms=_mean((s.dispatched_ms or 0.0) - s.enqueued_ms for s in subtasks),
        communication_ms=_mean(a - b for a, b in zip(unloaded, at_node, strict=True)),
        execution_ms=_mean(s.execution_ms or 0.0 for s in subtasks),
        task_aggregation_ms=_mean(_task_aggregation(own, subtasks)),
        query_aggregation_ms=_mean(_query_aggregation(queries, tasks)),
        subtasks=len(subtasks),
    )


def _unloaded_ms(subtask: SubtaskRecord) -> float:
    return (subtask.result_ms or 0.0) - (subtask.dispatched_ms or 0.0)


def _task_aggregation(
    tasks: Mapping[str, TaskRecord], subtasks: Iterable[SubtaskRecord]
) -> Iterable[float]:
    last_ms: dict[str, float] = {}
    for subtask in subtasks:
        last_ms[subtask.task] = max(last_ms.get(subtask.task, 0.0), subtask.result_ms or 0.0)
    for name, result_ms in last_ms.items():
        if name in tasks and tasks[name].status == "complete":
            yield tasks[name].aggregated_ms - result_ms


def _query_aggregation(
    queries: Iterable[QueryRecord], tasks: Mapping[str, TaskRecord]
) -> Iterable[float]:
    for query in queries:
        if query.tasks and all(name in tasks for name in query.tasks):
            ended_s = max(tasks[n].start_s + tasks[n].aggregated_ms / 1e3 for n in query.tasks)
            yield query.aggregated_ms - (ended_s - query.start_s) * 1e3


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return math.fsum(found) / len(found) if found else math.nan
