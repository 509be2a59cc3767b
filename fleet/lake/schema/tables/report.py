"""Schemas of report tables about the report's own sources."""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables.base import POLICY
from fleet.lake.schema.tables.model import IAD, Column, Table
from fleet.lake.schema.tables.sensing import CHANNEL, CLIMATE_HOURS, SENSOR_HEALTH

CONTENTS: Final = Table(
    "contents",
    "What the report is made from, of one IAD.",
    ("iad",),
    (
        IAD,
        Column("nodes", "bigint", "nodes", "edge nodes, by the inventory or by their readings"),
        Column("first", "timestamp", "UTC", "first query, task, event or reading", True),
        Column("last", "timestamp", "UTC", "the last one", True),
        Column("queries", "bigint", "", "queries that its query scheduler received"),
        Column("tasks", "bigint", "", "tasks that it served"),
        Column("subtasks", "bigint", "", "their subtasks"),
        Column("events", "bigint", "", "events of its nodes"),
        Column("readings", "bigint", "readings", "readings of its nodes"),
        Column("pulls", "bigint", "", "pulls of its hosts"),
        Column("failed", "bigint", "", "of these without success"),
        Column("expired_files", "bigint", "", "record files that went before they were fetched"),
        Column("expired_groups", "bigint", "", "row groups that went before they were fetched"),
        Column("expired_readings", "bigint", "readings", "readings in those, at most"),
        Column("quarantined", "bigint", "", "lines and row groups that could not be used"),
    ),
)
PULLED: Final = Table(
    "pulled",
    "How one host was pulled.",
    ("iad", "host"),
    (
        IAD,
        Column("host", "string", "", "such as iad4/n3 or iad4/master"),
        Column("pulls", "bigint", "", "pulls"),
        Column("failed", "bigint", "", "of these without success"),
        Column("last", "timestamp", "UTC", "when the last one began, by the operator's clock"),
        Column("outcome", "string", "", "of the last: done, bounded, or the error's kind"),
        Column("error", "string", "", "of the last, or empty"),
        Column("bytes", "bigint", "bytes", "fetched by all of them"),
        Column("expired_files", "bigint", "", "record files that went before they were fetched"),
        Column("expired_groups", "bigint", "", "row groups that went before they were fetched"),
        Column("expired_readings", "bigint", "readings", "readings in those, at most"),
    ),
)
QUARANTINED: Final = Table(
    "quarantined",
    "Why something could not be used.",
    ("iad", "reason"),
    (
        IAD,
        Column("reason", "string", "", "one line"),
        Column("items", "bigint", "", "lines and row groups"),
        Column("example", "string", "", "the beginning of one of them"),
    ),
)
CLIENT: Final = Table(
    "client",
    "What the clients of a local run measured themselves: one kind of queries under one policy.",
    ("policy", "kind"),
    (
        POLICY,
        Column("kind", "string", "", "kind of queries; their label is policy and kind"),
        Column("slo_ms", "double", "ms", "latency of the SLO"),
        Column("queries", "bigint", "", "queries sent"),
        Column("p50_ms", "double", "ms", "median latency, from the arrival in the trace", True),
        Column("p95_ms", "double", "ms", "95th percentile of the same", True),
        Column("p99_ms", "double", "ms", "99th percentile of the same", True),
        Column("attainment", "double", "", "complete and within the SLO / not refused", True),
        Column("refused", "bigint", "", "queries that were refused"),
        Column("partial", "bigint", "", "answers that lacked areas"),
        Column("unanswered", "bigint", "", "queries without any reply"),
        Column("recorded", "bigint", "", "of these queries, those that are in the records"),
        Column(
            "recorded_attainment",
            "double",
            "",
            "complete and within the SLO / recorded and not refused",
            True,
        ),
        Column("recorded_p50_ms", "double", "ms", "median response time of these", True),
        Column("recorded_p99_ms", "double", "ms", "99th percentile of the same", True),
    ),
)
WORST_SENSORS: Final = Table(
    "worst_sensors",
    "Values of the channels that the report draws because their verdict is the worst.",
    ("iad", "node", "sensor", "channel", "time"),
    (
        IAD,
        *SENSOR_HEALTH.columns[1:3],
        CHANNEL,
        Column("time", "timestamp", "UTC", "start of an interval of equal length"),
        *CLIMATE_HOURS.columns[4:],
    ),
)
TABLES: Final = (CONTENTS, PULLED, QUARANTINED, CLIENT, WORST_SENSORS)
