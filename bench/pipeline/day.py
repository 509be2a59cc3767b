"""One day of the demo's fleet as tables of a lake, without an ingest: readings at 1 Hz, records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.pipeline.faults import day
from bench.pipeline.generate import CHANNELS, DAY_MS, START_MS, Node
from bench.pipeline.rooms import rooms
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base
from fleet.lake.schema.tables.model import Table

START: Final = datetime.fromtimestamp(START_MS / 1000, UTC)
NODES: Final = 32
IADS: Final = 4
QUERIES: Final = 1300  # with their tasks and subtasks 6,500 records
POLICIES: Final = ("edfq", "fifo")
# What Arrow calls the types of columns.
TYPES: Final = {
    "string": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    "double": pa.float64(), "float": pa.float32(), "bigint": pa.int64(), "int": pa.int32(),
    "smallint": pa.int16(), "boolean": pa.bool_(), "array<string>": pa.list_(pa.string()),
}  # fmt: skip
NOTHING: Final = {"string": "", "boolean": False, "array<string>": [], "timestamp": START}


def write_day(lake: Lake, number: int = 0, seed: int = 1) -> int:
    """Add day `number` to the lake's tables; returns the rows of readings. Deterministic."""
    lake.landing.mkdir(parents=True, exist_ok=True)
    recorded = rooms()
    names = sorted(recorded)
    fleet = [
        Node(n, f"iad{n % IADS + 1}", f"n{n:02}", f"b1/f{n % IADS + 1}/r{n:02}")
        for n in range(NODES)
    ]
    rows = 0
    for iad in sorted({node.iad for node in fleet}):
        tables = [
            _readings(node, recorded[names[node.number % len(names)]], number, seed)
            for node in fleet
            if node.iad == iad
        ]
        rows += _write(lake, base.READINGS, iad, number, pa.concat_tables(tables))
    for table, found in _records(fleet, number, seed).items():
        for iad in sorted({row["iad"] for row in found}):
            made = _rows(table, [row for row in found if row["iad"] == iad])
            _write(lake, table, iad, number, made)
    return rows


def _readings(node: Node, minutes: Any, number: int, seed: int) -> pa.Table:
    made = day(minutes, node.number, number, seed)
    count = len(made.ms)
    times = pa.array((made.ms + START_MS + number * DAY_MS) * 1000, TYPES["timestamp"])
    parts = []
    for name, values, quality in zip(CHANNELS, made.values, made.quality, strict=True):
        known = {
            "node": pa.array([node.name] * count),
            "sensor": pa.array(["dht22"] * count),
            "channel": pa.array([name] * count),
            "time": times,
            "value": pa.array(values, pa.float32()),
            "quality": pa.array(quality, pa.int16()),
            "history": pa.array([f"{node.number:032x}"] * count),
            "sequence": pa.array(np.arange(count) + number * DAY_MS),
        }
        parts.append(_filled(base.READINGS, known, count))
    return pa.concat_tables(parts)


def _filled(table: Table, known: dict[str, Any], count: int) -> pa.Table:
    """Columns in order, without those of the partitions; what is not known is nothing."""
    columns = {}
    for column in table.columns:
        if column.name in table.partitions:
            continue
        nothing = None if column.nullable else NOTHING.get(column.type, 0)
        columns[column.name] = known.get(
            column.name, pa.array([nothing] * count, TYPES[column.type])
        )
    return pa.table(columns)


def _records(fleet: list[Node], number: int, seed: int) -> dict[Table, list[dict[str, Any]]]:
    """Queries of one IAD each, three nodes a query, half of them under each policy."""
    dice = np.random.default_rng((seed, number, 7))
    queries, tasks, subtasks = [], [], []
    day_at = START + timedelta(days=number)
    for n in range(QUERIES):
        at_s = n * 86_400.0 / QUERIES
        nodes = [node for node in fleet if node.iad == f"iad{n % IADS + 1}"]
        asked = dice.choice(len(nodes), 3, replace=False)
        waits = dice.exponential(20.0, 3)
        runs = np.exp(4 + 0.5 * dice.standard_normal(3))
        took = float((waits + runs).max()) + 3.0
        policy = POLICIES[n * len(POLICIES) // QUERIES]
        shared = {
            "iad": nodes[0].iad, "time": day_at + timedelta(seconds=at_s), "start_s": at_s,
            "service": "temperature", "label": f"{policy} live", "percentile": 99.0,
            "status": "complete", "asked": 1, "answered": 1, "aggregated_ms": took,
            "evaluated_ms": 1.0,
        }  # fmt: skip
        task = f"{number}-t{n}"
        queries.append(
            {**shared, "query": f"{number}-q{n}", "slo_ms": 250.0, "slo_met": took <= 250.0,
             "tasks": [task], "task_percentile": 99.0}
        )  # fmt: skip
        tasks.append(
            {**shared, "task": task, "policy": policy, "budget_ms": 240.0, "fanout": 3,
             "origin": nodes[0].iad}
        )  # fmt: skip
        for which, wait, run in zip(asked, waits, runs, strict=True):
            sent = 1.0 + float(wait)
            subtasks.append(
                {"iad": nodes[0].iad, "time": shared["time"], "start_s": at_s, "task": task,
                 "label": shared["label"], "policy": policy, "window_s": 60.0,
                 "enqueued_ms": 1.0, "deadline_ms": 80.0, "node": nodes[which].name,
                 "dispatched_ms": sent, "result_ms": sent + float(run) + 1.0,
                 "node_wait_ms": 0.5, "execution_ms": float(run), "missed_deadline": sent > 80.0,
                 "dispatches": 1, "outcome": "ok"}
            )  # fmt: skip
    nodes_rows = [
        {"iad": node.iad, "node": node.name, "areas": [node.area], "time": day_at} for node in fleet
    ]
    return {
        base.QUERIES: queries, base.TASKS: tasks, base.SUBTASKS: subtasks, base.NODES: nodes_rows
    }  # fmt: skip


def _rows(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    known = {
        c.name: pa.array(
            [row.get(c.name, None if c.nullable else NOTHING.get(c.type, 0)) for row in rows],
            TYPES[c.type],
        )
        for c in table.columns
        if c.name not in table.partitions
    }
    return pa.table(known)


def _write(lake: Lake, table: Table, iad: str, number: int, rows: pa.Table) -> int:
    date = (START + timedelta(days=number)).date()
    folder = lake.table(table.name) / f"iad={iad}" / f"date={date}"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "part-made.parquet", compression="snappy")
    return int(rows.num_rows)
