"""SLO attainment by query class and policy."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.requests import ATTAINMENT
from fleet.report.jobs.requests import (
    CLASS,
    QUERY,
    class_name,
    response_ms,
    task_ids,
    with_policy,
)
from fleet.report.jobs.statistics import percentile, percentile_interval, ranked, share, wilson

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9}


# How the subtasks of a query end that lacks nothing but readings.
READ: Final = ("ok", "no_data")


def attainment(queries: DataFrame, tasks: DataFrame, subtasks: DataFrame) -> DataFrame:
    """`ATTAINMENT` of `QUERIES`, `TASKS` and `SUBTASKS`: a row for each policy and class.

    A query's policy is that of its tasks. A response time is from reception to answer, at the query
    scheduler. The attainment counts all that were not refused; an answer that is not complete did
    not keep the SLO, however fast it was, and its response time is among the percentiles. One that
    lacks areas only because nodes had no readings of that time neither kept nor missed it, as no
    wait would have brought more: an export of more time than nodes keep has such parts.
    """
    keys = ("policy", *CLASS)
    lacking = _lacking_readings(queries, subtasks)
    asked = (
        with_policy(queries, tasks)
        .join(lacking, list(QUERY), "left")
        .select(
            "policy",
            class_name(),
            "service",
            "percentile",
            "slo_ms",
            "status",
            "slo_met",
            F.coalesce("no_data", F.lit(False)).alias("lacks_readings"),
            response_ms(),
        )
    )
    counted = (
        ranked(asked, keys, "response_ms")
        .groupBy(*keys)
        .agg(
            F.count("*").alias("queries"),
            *(F.count_if(F.col("status") == s).alias(s) for s in ("complete", "partial")),
            F.count_if(F.col("status") == "refused").alias("refused"),
            F.count_if("slo_met").alias("kept"),
            F.count_if("lacks_readings").alias("no_data"),
            *(column for name, p in PERCENTILES.items() for column in _percentile(name, p)),
        )
    )
    taken = F.col("queries") - F.col("refused") - F.col("no_data")
    low, high = wilson(F.col("kept"), taken)
    return counted.withColumns(
        {
            "attainment": share(F.col("kept"), taken),
            "attainment_low": low,
            "attainment_high": high,
        }
    ).select(*ATTAINMENT.names)


def _lacking_readings(queries: DataFrame, subtasks: DataFrame) -> DataFrame:
    """Of the partial queries, by `QUERY`, whether they lack readings and nothing else: `no_data`.
    A query with a task of which no record is known may lack more."""
    partial = queries.where(F.col("status") == "partial").withColumn("tasks_sent", F.size("tasks"))
    outcome = F.col("outcome")
    return (
        task_ids(partial, *QUERY, "tasks_sent")
        .join(subtasks.select("task", "outcome"), "task")
        .groupBy(*QUERY, "tasks_sent")
        .agg(
            F.every(outcome.isin(*READ)).alias("read"),
            F.some(outcome == "no_data").alias("empty"),
            F.count_distinct("task").alias("tasks_known"),
        )
        .select(
            *QUERY,
            (F.col("read") & F.col("empty") & (F.col("tasks_known") == F.col("tasks_sent"))).alias(
                "no_data"
            ),
        )
    )


def _percentile(name: str, p: float) -> tuple[Column, ...]:
    low, high = percentile_interval("response_ms", p)
    return (
        percentile("response_ms", p).alias(f"{name}_ms"),
        low.alias(f"{name}_low_ms"),
        high.alias(f"{name}_high_ms"),
    )
