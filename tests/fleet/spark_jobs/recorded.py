"""Records for the tests of the jobs, as rows of the lake's tables."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession

from agent.wire.records import AnyRecord
from fleet.lake.schema.tables import base
from fleet.lake.schema.tables.model import Table

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TABLES = {"query": base.QUERIES, "task": base.TASKS, "subtask": base.SUBTASKS}


def query(at_s: float = 0.0, **other: Any) -> dict[str, Any]:
    """A query that was answered in 100 ms, received so many seconds after `START`."""
    row = {
        "query": f"q{at_s}",
        "service": "default",
        "label": "",
        "areas": ["b1"],
        "percentile": 99.0,
        "slo_ms": 500.0,
        "status": "complete",
        "reason": None,
        "slo_met": True,
        "answered": 1,
        "asked": 1,
        "tasks": [],
        "task_percentile": 99.0,
        "evaluated_ms": 1.0,
        "aggregated_ms": 100.0,
        "client": "",
    }
    return _common(at_s) | row | other


def task(at_s: float = 0.0, **other: Any) -> dict[str, Any]:
    """A task that was answered in 90 ms."""
    row = {
        "task": f"t{at_s}",
        "service": "default",
        "label": "",
        "policy": "edfq",
        "percentile": 99.0,
        "budget_ms": 400.0,
        "fanout": 1,
        "unloaded_ms": 200.0,
        "queueing_budget_ms": 200.0,
        "status": "complete",
        "reason": None,
        "answered": 1,
        "asked": 1,
        "evaluated_ms": 1.0,
        "aggregated_ms": 90.0,
        "origin": "iad1",
    }
    return _common(at_s) | row | other


def subtask(at_s: float = 0.0, **other: Any) -> dict[str, Any]:
    """A subtask that waited from 1 to 11 ms, of 201 ms that it could, and came back at 81 ms."""
    row = {
        "task": f"t{at_s}",
        "label": "",
        "policy": "edfq",
        "window_s": 60.0,
        "enqueued_ms": 1.0,
        "deadline_ms": 201.0,
        "node": "n1",
        "dispatched_ms": 11.0,
        "result_ms": 81.0,
        "node_wait_ms": 5.0,
        "execution_ms": 60.0,
        "missed_deadline": False,
        "dispatches": 1,
        "outcome": "ok",
        "demoted": False,
    }
    return _common(at_s) | row | other


def _common(at_s: float) -> dict[str, Any]:
    time = START + timedelta(seconds=at_s)
    return {"iad": "iad1", "date": time.date(), "time": time, "start_s": 1000.0 + at_s}


def frame(spark: SparkSession, table: Table, rows: Iterable[dict[str, Any]]) -> DataFrame:
    """A table's rows."""
    tuples = [tuple(row[name] for name in table.names) for row in rows]
    return spark.createDataFrame(tuples, table.ddl)


def frames(spark: SparkSession, records: Iterable[AnyRecord]) -> list[DataFrame]:
    """Queries, tasks and subtasks of records."""
    rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in TABLES}
    for record in records:
        row = msgspec.to_builtins(record)
        time = EPOCH + timedelta(milliseconds=row["wall_ms"])
        rows[row.pop("record")].append(row | {"time": time, "date": time.date()})
    return [frame(spark, table, rows[kind]) for kind, table in TABLES.items()]


def found(made: DataFrame, table: Table) -> list[dict[str, Any]]:
    """The rows of a result in the order of their key, its schema and key checked."""
    fields = [(field.name, field.dataType.simpleString()) for field in made.schema.fields]
    assert fields == [(column.name, column.type) for column in table.columns]
    rows = [row.asDict() for row in made.collect()]
    for column in table.columns:
        assert column.nullable or all(row[column.name] is not None for row in rows), column.name
    keys = [tuple(row[name] for name in table.key) for row in rows]
    assert len(set(keys)) == len(keys)
    return [row for _, row in sorted(zip(keys, rows, strict=True), key=lambda pair: pair[0])]


def hours(of: float) -> datetime:
    """So many hours after `START`, as Spark gives a timestamp back."""
    return (START + timedelta(hours=of)).astimezone().replace(tzinfo=None)
