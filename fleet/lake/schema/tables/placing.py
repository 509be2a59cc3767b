"""Schemas of report tables about topics' processors, and about which master has what."""

from __future__ import annotations

from typing import Final

from fleet.lake.schema.tables.base import MOVES, PROCESSOR, TOPIC
from fleet.lake.schema.tables.model import IAD, Column, Table

PROCESSED: Final = Table(
    "processed",
    "One topic's processor at one master, over all records of it.",
    ("iad", "topic", "processor"),
    (
        IAD,
        TOPIC,
        PROCESSOR,
        Column("percentile", "double", "%", "percentile of the latest objective", True),
        Column("slo_ms", "double", "ms", "latency of the latest objective", True),
        Column("seconds", "double", "s", "for which there are records"),
        Column("arrived", "bigint", "", "messages that arrived"),
        Column("processed", "bigint", "", "messages processed"),
        Column("late", "bigint", "", "of these later than the objective"),
        Column("late_share", "double", "", "late / processed", True),
        Column("failed", "bigint", "", "times that it failed"),
        Column("skipped", "bigint", "", "messages given up"),
        Column("rate_per_s", "double", "1/s", "arrived / seconds"),
        Column("cpu_ms", "double", "ms", "mean CPU time of a message", True),
        Column("load", "double", "cores", "CPU time / seconds"),
        Column("records", "bigint", "", "records with a message processed: minutes"),
        Column("kept", "bigint", "", "of these with the objective kept; all without one"),
        Column(
            "achieved_ms", "double", "ms", "percentile of the objective, median of minutes", True
        ),
        Column("worst_ms", "double", "ms", "the same in the worst minute", True),
        Column("state_bytes", "bigint", "bytes", "largest state"),
        Column("state", "string", "", "its state at the end of the last record"),
    ),
)
MASTER_LOAD: Final = Table(
    "master_load",
    "Processors of one master, against what its cores carry.",
    ("iad",),
    (
        IAD,
        Column("topics", "bigint", "", "topics whose processors it had"),
        Column("most_topics", "bigint", "", "of these at the same time, the most"),
        Column("cores", "int", "", "cores"),
        Column("workers", "int", "", "messages processed at a time, at most"),
        Column("load", "double", "cores", "CPU time of all processors / time"),
        Column("most_load", "double", "cores", "the same in the busiest record"),
        Column("processed", "bigint", "", "messages processed"),
        Column("late", "bigint", "", "of these later than their objectives"),
        Column("came", "bigint", "", "units that moved there, as their sources saw it"),
        Column("left", "bigint", "", "units that left"),
    ),
)
MOVED: Final = Table(
    "moved",
    "One move of a unit to another master.",
    MOVES.key,
    tuple(column for column in MOVES.columns if column.name != "date"),
)
MOVE_EFFECTS: Final = Table(
    "move_effects",
    "What a settled move of a topic changed: up to an hour before it where the topic was, and an "
    "hour after it where it went.",
    ("iad", "topic", "start_s"),
    (
        Column("iad", "string", "", "the IAD whose master it left"),
        TOPIC,
        Column("start_s", "double", "s", "when it began, by that master's monotonic clock"),
        Column("time", "timestamp", "UTC", "the same, by its wall clock"),
        Column("target", "string", "", "the IAD whose master took it"),
        Column("reason", "string", "", "pin, drain, arrival, delegate, plan or drift"),
        Column("pause_ms", "double", "ms", "for how long nobody served it", nullable=True),
        Column("percentile", "double", "%", "percentile of its objective", nullable=True),
        Column("slo_ms", "double", "ms", "latency of its objective", nullable=True),
        *(
            Column(f"{side}_{name}", kind, unit, f"{side} it: {meaning}", nullable)
            for side in ("before", "after")
            for name, kind, unit, meaning, nullable in (
                ("records", "bigint", "", "records with a message: minutes", False),
                ("rate_per_s", "double", "1/s", "messages", True),
                ("achieved_ms", "double", "ms", "percentile of the objective, median", True),
                ("worst_ms", "double", "ms", "the same in the worst minute", True),
                ("late_share", "double", "", "later than the objective / processed", True),
                ("way_ms", "double", "ms", "from its sources' masters, mean of messages", True),
            )
        ),
    ),
)
TABLES: Final = (PROCESSED, MASTER_LOAD, MOVED, MOVE_EFFECTS)
