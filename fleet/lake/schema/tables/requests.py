"""Schemas of report tables derived from masters' records."""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables.base import POLICY, SERVICE
from fleet.lake.schema.tables.model import IAD, NODE, Column, Table

CLASS: Final = Column("class", "string", "", "the label; without one, service and SLO")


def _percentile(name: str, text: str) -> tuple[Column, ...]:
    return (
        Column(f"{name}_ms", "double", "ms", f"{text} of the response time, nearest rank", True),
        Column(f"{name}_low_ms", "double", "ms", "lower end of its 95 % interval", True),
        Column(
            f"{name}_high_ms", "double", "ms", "upper end; null if the sample is too small", True
        ),
    )


ATTAINMENT: Final = Table(
    "attainment",
    "Who kept the SLO: one class of queries under one policy.",
    ("policy", "class", "service", "percentile", "slo_ms"),
    (
        Column("policy", "string", "", "that of its tasks; mixed, or none if it has no task"),
        CLASS,
        SERVICE,
        Column("percentile", "double", "%", "percentile of the SLO"),
        Column("slo_ms", "double", "ms", "latency of the SLO"),
        Column("queries", "bigint", "", "queries"),
        Column("complete", "bigint", "", "of these complete"),
        Column("partial", "bigint", "", "of these partial"),
        Column("refused", "bigint", "", "of these refused"),
        Column("kept", "bigint", "", "complete and within the SLO"),
        Column("attainment", "double", "", "kept / (queries − refused − no_data)", True),
        Column("attainment_low", "double", "", "lower end of its 95 % Wilson interval", True),
        Column("attainment_high", "double", "", "upper end", True),
        *_percentile("p50", "median"),
        *_percentile("p90", "90th percentile"),
        *_percentile("p99", "99th percentile"),
        *_percentile("p999", "99.9th percentile"),
        Column("no_data", "bigint", "", "partial only where nodes had no readings in the window"),
    ),
)
TIME_SPENT: Final = Table(
    "time_spent",
    "Where the time went (DSSP Table III): means over the tasks that one IAD served completely.",
    ("iad", "policy"),
    (
        IAD,
        POLICY,
        Column("tasks", "bigint", "", "tasks"),
        Column("subtasks", "bigint", "", "their subtasks"),
        Column("evaluation_ms", "double", "ms", "mean from reception until queued, a task"),
        Column("queueing_ms", "double", "ms", "mean in the queue, a subtask"),
        Column("queueing_p99_ms", "double", "ms", "99th percentile of the same"),
        Column("unloaded_ms", "double", "ms", "mean from dispatch to result, a subtask"),
        Column("unloaded_p99_ms", "double", "ms", "99th percentile of the same"),
        Column("communication_ms", "double", "ms", "mean of unloaded less wait and execution"),
        Column("node_wait_ms", "double", "ms", "mean at the node before a pod took it"),
        Column("execution_ms", "double", "ms", "mean in the pod"),
        Column("aggregation_ms", "double", "ms", "mean from the last result to the task's, a task"),
        Column("task_ms", "double", "ms", "mean from reception to result, a task"),
    ),
)
NODE_HOURS: Final = Table(
    "node_hours",
    "Deadline violations of one node in one hour, and what the auto-scaler would do.",
    ("iad", "node", "hour"),
    (
        IAD,
        NODE,
        Column("hour", "timestamp", "UTC", "start of the hour"),
        Column("subtasks", "bigint", "", "subtasks whose deadline says something about pods"),
        Column("missed", "bigint", "", "of these dispatched after their deadline, or never"),
        Column("violations", "double", "%", "deadline-violation percentage"),
        Column("violations_low", "double", "%", "lower end of its 95 % Wilson interval"),
        Column("violations_high", "double", "%", "upper end"),
        Column("queueing_ms", "double", "ms", "mean queueing", True),
        Column("busy", "double", "pods", "mean number of pods at work", True),
        Column("pods_down", "int", "", "how often the auto-scaler would take a pod away"),
        Column("pods_up", "int", "", "how often it would add pods"),
        Column("pods_most", "int", "pods", "the most pods that it would have given"),
    ),
)
LOAD_CURVE: Final = Table(
    "load_curve",
    "Queueing against load (DSSP Fig. 8): windows of equal length, by the rate of their queries.",
    ("policy", "rate_per_s"),
    (
        POLICY,
        Column("rate_per_s", "double", "1/s", "λ: middle of a bin of offered rates"),
        Column("windows", "bigint", "", "windows in the bin"),
        Column("queries", "bigint", "", "queries that arrived in them"),
        Column("subtasks", "bigint", "", "subtasks of theirs that were dispatched"),
        Column("queueing_ms", "double", "ms", "mean queueing of a subtask", True),
        Column("queueing_p99_ms", "double", "ms", "99th percentile of the same", True),
        Column("response_ms", "double", "ms", "mean response time of a query", True),
        Column("response_p99_ms", "double", "ms", "99th percentile of the same", True),
        Column("violations", "double", "%", "deadline-violation percentage", True),
    ),
)
TABLES: Final = (ATTAINMENT, TIME_SPENT, NODE_HOURS, LOAD_CURVE)
