"""Tables of the lake from few words, and a small lake of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base

T = datetime(2026, 11, 20, 10, tzinfo=UTC)
NOTHING = {
    "string": "", "boolean": False, "date": T.date(), "timestamp": T, "array<string>": [],
    "double": 0.0, "float": 0.0,
}  # fmt: skip


def frame(spark, table, *rows):
    """Rows of a table given by some of their columns; the others are what is nothing."""
    full = [
        tuple(
            row.get(c.name, None if c.nullable else NOTHING.get(c.type, 0)) for c in table.columns
        )
        for row in rows
    ]
    return spark.createDataFrame(full, table.ddl)


def hours(count):
    return timedelta(hours=count)


QUERY = {
    "iad": "iad1", "service": "temperature", "percentile": 99.0, "slo_ms": 500.0,
    "status": "complete",
    "slo_met": True, "asked": 1, "answered": 1, "task_percentile": 99.0,
}  # fmt: skip
TASK = {
    "iad": "iad1", "service": "temperature", "policy": "edfq", "percentile": 99.0,
    "budget_ms": 490.0,
    "fanout": 1, "status": "complete", "evaluated_ms": 1.0, "origin": "iad1",
}  # fmt: skip
SUBTASK = {
    "iad": "iad1", "node": "n1", "policy": "edfq", "window_s": 60.0, "enqueued_ms": 1.0,
    "deadline_ms": 400.0, "node_wait_ms": 1.0, "execution_ms": 50.0, "dispatches": 1,
    "outcome": "ok",
}  # fmt: skip


def small_lake(spark, root: Path) -> Lake:
    """Ten queries in one minute, the n-th of which takes 100 + n ms, 10 n of them in the queue; an
    hour of readings of one room, one a minute, 20 °C and two that are bad; one of two pulls
    failed."""
    lake = Lake(root)
    lake.landing.mkdir(parents=True)
    queries, tasks, subtasks = [], [], []
    for n in range(10):
        at = {"time": T + timedelta(seconds=6 * n), "start_s": 6.0 * n, "label": "live"}
        queries.append(
            {**QUERY, **at, "query": f"q{n}", "tasks": [f"t{n}"], "aggregated_ms": 100.0 + n}
        )
        tasks.append({**TASK, **at, "task": f"t{n}", "aggregated_ms": 99.0 + n})
        sent = 1.0 + 10 * n
        subtasks.append(
            {**SUBTASK, **at, "task": f"t{n}", "dispatched_ms": sent, "result_ms": sent + 60.0,
             "missed_deadline": n == 9}
        )  # fmt: skip
    readings = [
        {"iad": "iad1", "node": "n1", "sensor": "dht", "channel": "temperature", "history": "h",
         "time": T + timedelta(minutes=n), "sequence": n, "value": 20.0,
         "quality": 8 if n in (7, 8) else 0}
        for n in range(60)
    ]  # fmt: skip
    pulls = [{"iad": "iad1", "host": f"iad1/{h}", "outcome": o, "time": T + hours(1)}
             for h, o in (("n1", "done"), ("master", "unreachable"))]  # fmt: skip
    node = {"iad": "iad1", "node": "n1", "areas": ["b1/r1"], "time": T + hours(1)}
    for table, rows in (
        (base.QUERIES, queries), (base.TASKS, tasks), (base.SUBTASKS, subtasks),
        (base.READINGS, readings), (base.PULLS, pulls), (base.NODES, [node]),
    ):  # fmt: skip
        made = frame(spark, table, *rows).coalesce(1)
        made.write.partitionBy("iad", "date").parquet(str(lake.table(table.name)))
    return lake
