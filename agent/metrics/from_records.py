"""Metrics from log records: counters and histograms of queries, tasks, subtasks and events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final, get_args

from agent.metrics import master_families as f
from agent.metrics.numbers import BoundedNames, Count, Histogram, Samples
from agent.wire.messages import Refusal
from agent.wire.records import (
    AnyRecord,
    NodeEventRecord,
    QueryRecord,
    SubtaskRecord,
    TaskRecord,
)

MAX_LABELS: Final = 32
MAX_SERVICES: Final = 32
MAX_KINDS: Final = 32
# A sender refused for these reasons gets no label value of its own.
STRANGERS: Final = frozenset[str]({"unknown_service", "not_authorised"})


class FromRecords:
    """Aggregates records in batches; less than 2 µs per subtask."""

    def __init__(self) -> None:
        self._label = BoundedNames(MAX_LABELS)
        self._service = BoundedNames(MAX_SERVICES)
        self._queries = Count(f.QUERIES)
        self._query_duration = Histogram(f.QUERY_DURATION)
        self._slo_misses = Count(f.SLO_MISSES)
        self._tasks = Count(f.TASKS)
        self._task_duration = Histogram(f.TASK_DURATION)
        self._stages = Histogram(f.STAGE_DURATION)
        self._unloaded = Histogram(f.UNLOADED_RESPONSE)
        self._subtasks = Count(f.SUBTASKS)
        self._deadline_misses = Count(f.DEADLINE_MISSES)
        self._refusals = Count(f.REFUSALS)
        self._kind = BoundedNames(MAX_KINDS)
        self._node_events = Count(f.NODE_EVENTS)
        for reason in get_args(Refusal):
            self._refusals.add(("query", reason), 0)
            self._refusals.add(("task", reason), 0)
        self._last: SubtaskRecord | None = None

    def add(self, records: Iterable[AnyRecord]) -> None:
        """Count these records, in the order in which they were created. O(records)."""
        subtasks: defaultdict[str, list[SubtaskRecord]] = defaultdict(list)
        for record in records:
            if type(record) is SubtaskRecord:
                subtasks[record.label].append(record)
                self._last = record
            elif type(record) is TaskRecord:
                self._task(record)
            elif type(record) is QueryRecord:
                self._query(record)
            elif type(record) is NodeEventRecord:
                self._node_events.add((self._kind(record.kind),))
        for label, group in subtasks.items():
            self._subtask_group(self._label(label), group)

    def samples(self) -> list[Samples]:
        """Copies of all metrics."""
        return [
            kept.samples()
            for kept in (
                self._queries, self._query_duration, self._slo_misses, self._tasks,
                self._task_duration, self._stages, self._unloaded, self._subtasks,
                self._deadline_misses, self._refusals, self._node_events,
            )
        ]  # fmt: skip

    def _query(self, record: QueryRecord) -> None:
        new = record.reason not in STRANGERS
        label = self._label(record.label, new=new)
        labels = (self._service(record.service, new=new), label, record.status)
        self._queries.add(labels)
        if record.evaluated_ms is not None:
            self._stages.observe((label, "query_evaluation"), [record.evaluated_ms / 1e3])
        if record.status == "refused":
            self._refusals.add(("query", record.reason or "malformed"))
            return
        self._query_duration.observe(labels, [record.aggregated_ms / 1e3])
        self._slo_misses.add(labels, not record.slo_met)

    def _task(self, record: TaskRecord) -> None:
        label = self._label(record.label, new=record.reason not in STRANGERS)
        self._tasks.add((label, record.status))
        if record.fanout:
            self._stages.observe((label, "task_evaluation"), [record.evaluated_ms / 1e3])
        if record.status == "refused":
            self._refusals.add(("task", record.reason or "malformed"))
            return
        self._task_duration.observe((label, record.status), [record.aggregated_ms / 1e3])
        # A task's record follows that of its last subtask.
        last = self._last
        if last is not None and last.task == record.task and last.result_ms is not None:
            aggregation_s = (record.aggregated_ms - last.result_ms) / 1e3
            self._stages.observe((label, "aggregation"), [max(0.0, aggregation_s)])

    def _subtask_group(self, label: str, group: list[SubtaskRecord]) -> None:
        """Subtasks of one label."""
        for outcome, number in Counter([r.outcome for r in group]).items():
            self._subtasks.add((label, outcome), number)
        self._deadline_misses.add((label,), sum([r.missed_deadline for r in group]))
        queueing, unloaded, waits, executions = [], [], [], []
        for r in group:
            if r.dispatched_ms is None:
                continue
            queueing.append((r.dispatched_ms - r.enqueued_ms) * 1e-3)
            if r.result_ms is None or r.node_wait_ms is None or r.execution_ms is None:
                continue
            unloaded.append((r.result_ms - r.dispatched_ms) * 1e-3)
            waits.append(max(0.0, r.node_wait_ms * 1e-3))
            executions.append(max(0.0, r.execution_ms * 1e-3))
        # Clamp at 0: the times come from two clocks, and a node's may be wrong.
        communication = [
            max(0.0, u - w - e) for u, w, e in zip(unloaded, waits, executions, strict=True)
        ]
        observe = self._stages.observe
        observe((label, "queueing"), queueing)
        observe((label, "communication"), communication)
        observe((label, "node_wait"), waits)
        observe((label, "execution"), executions)
        self._unloaded.observe((label,), unloaded)
