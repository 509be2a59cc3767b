"""The records of a task and its subtasks."""

from __future__ import annotations

from agent.scheduling.tasks.entry import SubtaskEntry, SubtaskHeading, TaskEntry
from agent.wire.messages import TaskResult
from agent.wire.node_messages import SubtaskResult
from agent.wire.records import SubtaskOutcome, SubtaskRecord, TaskRecord


def task_record(
    iad: str,
    entry: TaskEntry,
    result: TaskResult | None,
    ended_s: float,
    wall_offset_s: float,
) -> TaskRecord:
    """A task that was answered or refused, or that was cancelled: then it has no result."""
    task = entry.task
    deadline = entry.deadline
    if result is None:
        areas = {r.area for r in entry.results}
        answered, asked = len(areas), len(areas.union(gap.area for gap in entry.missing))
    else:
        answered = sum(each.stale_ms is None for each in result.results)
        asked = answered + len(result.missing)
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
        status="cancelled" if result is None else result.status,
        reason=None if result is None else result.reason,
        answered=answered,
        asked=asked,
        evaluated_ms=(entry.evaluated_s - entry.received_s) * 1e3,
        aggregated_ms=(ended_s - entry.received_s) * 1e3,
        origin=entry.iad,
    )


def subtask_heading(iad: str, entry: TaskEntry, wall_offset_s: float) -> SubtaskHeading:
    """The common prefix of the records of a task's subtasks, in the order of `SubtaskRecord`."""
    start_s = entry.received_s
    return (
        iad,
        round((start_s + wall_offset_s) * 1e3),
        start_s,
        entry.task.id,
        entry.task.label,
        entry.policy,
        entry.task.window.length_s,
        (entry.evaluated_s - start_s) * 1e3,
        (entry.deadline_s - start_s) * 1e3,
    )


def subtask_record(
    subtask: SubtaskEntry, outcome: SubtaskOutcome, result: SubtaskResult | None, now: float
) -> SubtaskRecord:
    """A subtask that returned or was given up at `now`.

    Called for every subtask, so the record is built by position, in a third of the time of names.
    """
    entry = subtask.parent
    start_s = entry.received_s
    dispatched_s = subtask.dispatched_s
    wait_ms = execution_ms = None
    if result is not None and dispatched_s is not None:
        wait_ms, execution_ms = _at_node(result, (now - dispatched_s) * 1e3)
    return SubtaskRecord(
        *entry.heading,
        subtask.node.name,
        # A subtask that an idle pod took at once was sent when the evaluation had ended.
        None if dispatched_s is None else (max(dispatched_s, entry.evaluated_s) - start_s) * 1e3,
        None if result is None else (now - start_s) * 1e3,
        wait_ms,
        execution_ms,
        (now if dispatched_s is None else dispatched_s) > entry.deadline_s,
        subtask.dispatches,
        outcome,
        subtask.demoted,
    )


def _at_node(result: SubtaskResult, away_ms: float) -> tuple[float, float]:
    """How long a subtask waited and ran at its node, as that says: no longer than it was away. A
    node may say any number, and one of 10³⁰⁰ would be every mean of all nodes from then on."""
    wait_ms, execution_ms = result.wait_ms, result.execution_ms
    if wait_ms >= 0.0 and execution_ms >= 0.0 and wait_ms + execution_ms <= away_ms:
        return wait_ms, execution_ms
    wait_ms = min(max(0.0, wait_ms), max(0.0, away_ms))
    return wait_ms, min(max(0.0, execution_ms), max(0.0, away_ms) - wait_ms)
