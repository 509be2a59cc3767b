"""What the schedulers write down of each query, task and subtask."""

from __future__ import annotations

from agent.scheduling.query_entry import QueryEntry
from agent.scheduling.task_entry import SubtaskEntry, TaskEntry
from agent.wire.messages import Answer, SubtaskResult, TaskResult
from agent.wire.records import QueryRecord, SubtaskOutcome, SubtaskRecord, TaskRecord


def query_record(iad: str, entry: QueryEntry, answer: Answer, wall_offset_s: float) -> QueryRecord:
    """A query that was answered or refused."""
    query = entry.query
    start_s = entry.received_s
    return QueryRecord(
        iad=iad,
        wall_ms=round((start_s + wall_offset_s) * 1e3),
        start_s=start_s,
        query=query.id,
        service=query.service,
        label=query.label,
        areas=query.areas,
        percentile=query.slo.percentile,
        slo_ms=query.slo.latency_ms,
        status=answer.status,
        reason=answer.reason,
        slo_met=answer.slo_met,
        answered=answer.coverage.answered,
        asked=answer.coverage.asked,
        tasks=tuple(share.task_id for share in entry.shares),
        task_percentile=entry.task_percentile,
        evaluated_ms=None if entry.evaluated_s is None else (entry.evaluated_s - start_s) * 1e3,
        aggregated_ms=answer.elapsed_ms,
    )


def task_record(iad: str, entry: TaskEntry, result: TaskResult, wall_offset_s: float) -> TaskRecord:
    """A task that was answered or refused."""
    task = entry.task
    deadline = entry.deadline
    answered = len(result.results)
    return TaskRecord(
        iad=iad,
        wall_ms=round((entry.received_s + wall_offset_s) * 1e3),
        start_s=entry.received_s,
        task=task.id,
        service=task.service,
        label=task.label,
        policy=entry.policy,
        percentile=task.percentile,
        budget_ms=task.budget_ms,
        fanout=entry.fanout,
        unloaded_ms=None if deadline is None else deadline.unloaded_s * 1e3,
        queueing_budget_ms=None if deadline is None else deadline.queueing_budget_s * 1e3,
        status=result.status,
        reason=result.reason,
        answered=answered,
        asked=answered + len(result.missing),
        evaluated_ms=(entry.evaluated_s - entry.received_s) * 1e3,
        aggregated_ms=result.total_ms,
    )


def subtask_record(
    iad: str,
    subtask: SubtaskEntry,
    outcome: SubtaskOutcome,
    result: SubtaskResult | None,
    now: float,
    wall_offset_s: float,
) -> SubtaskRecord:
    """A subtask that returned or was given up at `now`."""
    entry = subtask.parent
    start_s = entry.received_s
    dispatched_s = subtask.dispatched_s
    assert entry.deadline is not None
    return SubtaskRecord(
        iad=iad,
        wall_ms=round((start_s + wall_offset_s) * 1e3),
        start_s=start_s,
        task=entry.task.id,
        label=entry.task.label,
        policy=entry.policy,
        node=subtask.node.name,
        window_s=entry.task.window.length_s,
        enqueued_ms=(subtask.enqueued_s - start_s) * 1e3,
        deadline_ms=(entry.deadline.at_s - start_s) * 1e3,
        dispatched_ms=None if dispatched_s is None else (dispatched_s - start_s) * 1e3,
        result_ms=None if result is None else (now - start_s) * 1e3,
        node_wait_ms=None if result is None else result.wait_ms,
        execution_ms=None if result is None else result.execution_ms,
        missed_deadline=(now if dispatched_s is None else dispatched_s) > entry.deadline.at_s,
        dispatches=subtask.dispatches,
        outcome=outcome,
    )
