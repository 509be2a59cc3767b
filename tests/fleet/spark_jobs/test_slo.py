"""SLO attainment, by hand."""

from typing import Any

from pyspark.sql import SparkSession

from fleet.lake.schema.tables.base import QUERIES, SUBTASKS, TASKS
from fleet.lake.schema.tables.requests import ATTAINMENT
from fleet.report.jobs.slo import attainment
from tests.fleet.spark_jobs.recorded import found, frame, query, subtask, task


def refused(at_s: float, **other: Any) -> dict[str, Any]:
    row = {"status": "refused", "reason": "infeasible", "slo_met": False, "aggregated_ms": 0.5}
    return query(at_s, **(row | other))


def attained(spark: SparkSession, queries, tasks, subtasks) -> list[dict[str, Any]]:
    made = attainment(
        frame(spark, QUERIES, queries),
        frame(spark, TASKS, tasks),
        frame(spark, SUBTASKS, subtasks),
    )
    return found(made, ATTAINMENT)


def test_an_answer_that_lacks_readings_alone_is_no_miss(spark: SparkSession) -> None:
    """An export of more time than nodes keep has parts without any reading."""
    outcomes = {
        "empty": [("e1", "no_data"), ("e2", "ok")],
        "down": [("d1", "no_data"), ("d1", "node_down")],
        "silent": [("s1", "no_data"), ("s2", None)],
        "unknown": [("u1", None)],
    }
    queries = [
        query(n, query=name, label="export", status="partial", slo_met=False,
              tasks=sorted({task for task, _ in ended}))
        for n, (name, ended) in enumerate(outcomes.items())
    ]  # fmt: skip
    queries.append(query(9, label="export", tasks=["t9"]))
    ended = [each for some in outcomes.values() for each in some]
    tasks = [task(n, task=name) for n, name in enumerate(["t9", *{name for name, _ in ended}])]
    subtasks = [
        subtask(n, task=name, node=f"n{n}", outcome=outcome)
        for n, (name, outcome) in enumerate([("t9", "ok"), *ended])
        if outcome is not None
    ]
    rows = [row for row in attained(spark, queries, tasks, subtasks) if row["policy"] == "edfq"]
    [row] = rows
    assert (row["queries"], row["partial"], row["no_data"], row["kept"]) == (5, 4, 1, 1)
    assert row["attainment"] == 1 / 4


def test_attainment_by_hand(spark: SparkSession) -> None:
    named = {"label": "edfq 1.1"}
    queries = [
        # Nine in time (10 … 90 ms), one too late, one partial, one refused: 9 of 11.
        *(query(n, aggregated_ms=10.0 * n, tasks=[f"t{n}"], **named) for n in range(1, 10)),
        query(10, aggregated_ms=700.0, slo_met=False, tasks=["t10", "far"], **named),
        query(11, status="partial", aggregated_ms=95.0, slo_met=False, tasks=["t11"], **named),
        refused(12, tasks=["t12"], **named),
        # One under two policies, one whose tasks nobody knows, and the same id twice.
        query(13, tasks=["t13", "t14"], percentile=99.9, service="air"),
        query(15, query="again", tasks=["gone"], label=" "),
        query(16, query="again", tasks=["gone"], label=" "),
        # Nothing but refused.
        refused(17, label="late"),
    ]
    tasks = [task(n, task=f"t{n}") for n in range(1, 14)]
    tasks += [task(14, task="t14", policy="fifo"), task(10, task="far", iad="iad2")]
    subtasks = [subtask(11, task="t11", outcome="node_down")]
    rows = attained(spark, queries, tasks, subtasks)
    by_class = {(row["policy"], row["class"]): row for row in rows}
    assert set(by_class) == {
        ("edfq", "edfq 1.1"),
        ("mixed", "air p99.9 ≤ 500 ms"),
        ("none", "default p99 ≤ 500 ms"),
        ("none", "late"),
    }
    many = by_class["edfq", "edfq 1.1"]
    counts = ("queries", "complete", "partial", "refused", "kept")
    assert [many[name] for name in counts] == [12, 10, 1, 1, 9]
    assert many["attainment"] == 9 / 11
    # Wilson, 9 of 11.
    assert [round(many[f"attainment_{end}"], 4) for end in ("low", "high")] == [0.5230, 0.9486]
    # Of 10, 20 … 90, 95, 700: ranks ⌈5.5⌉, ⌈9.9⌉ and twice 11; ranks 2 and 10 are around the
    # median with 95 %, and nothing is above the others.
    assert [many[f"{p}_ms"] for p in ("p50", "p90", "p99", "p999")] == [60.0, 95.0, 700.0, 700.0]
    assert (many["p50_low_ms"], many["p50_high_ms"]) == (20.0, 95.0)
    assert (many["p99_low_ms"], many["p99_high_ms"]) == (95.0, None)
    assert by_class["none", "default p99 ≤ 500 ms"]["queries"] == 2
    nothing = by_class["none", "late"]
    assert [nothing[name] for name in counts] == [1, 0, 0, 1, 0]
    assert [nothing[n] for n in ("attainment", "attainment_low", "p50_ms")] == [None] * 3
