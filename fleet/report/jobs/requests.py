"""Column expressions about queries, tasks and subtasks that several jobs share."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

NONE: Final = "none"
MIXED: Final = "mixed"
QUERY: Final = ("iad", "query", "start_s")
CLASS: Final = ("class", "service", "percentile", "slo_ms")
"""Columns that say which class a query is of."""


def class_name() -> Column:
    """A query's label; without one its service and SLO: "default p99 ≤ 500 ms"."""
    slo = F.concat(
        F.col("service"),
        F.lit(" p"),
        _plain(F.col("percentile")),
        F.lit(" ≤ "),
        _plain(F.col("slo_ms")),
        F.lit(" ms"),
    )
    return F.when(F.trim("label") != "", F.col("label")).otherwise(slo).alias("class")


def _plain(number: Column) -> Column:
    return F.regexp_replace(number.cast("string"), r"\.0$", "")


def response_ms() -> Column:
    """A query's response time; null if it was refused."""
    return F.when(F.col("status") != "refused", F.col("aggregated_ms")).alias("response_ms")


def queueing_ms() -> Column:
    """How long a subtask waited in its queue; null if it was never dispatched."""
    return F.col("dispatched_ms") - F.col("enqueued_ms")


def unloaded_ms() -> Column:
    """A subtask's unloaded response time, dispatch to result; null without a result."""
    return F.col("result_ms") - F.col("dispatched_ms")


def slack_s() -> Column:
    """How long a subtask could wait (t_Q)."""
    return (F.col("deadline_ms") - F.col("enqueued_ms")) / F.lit(1e3)


def about_pods() -> Column:
    """Whether a subtask's deadline says something about the pods of its node: neither was the node
    down, nor could no number of pods have met it. `agent.scheduling.tasks.autoscale.finished`."""
    return (slack_s() > 0.0) & (F.col("outcome") != "node_down")


def served_once() -> Column:
    """A result came, and from the only dispatch: else its time holds that of a broken link."""
    return (
        (F.col("outcome") == "ok")
        & (F.col("dispatches") == 1)
        & F.col("dispatched_ms").isNotNull()
        & F.col("result_ms").isNotNull()
    )


def started_s() -> Column:
    """When a record's own start was, in seconds since 1970 by the master's wall clock."""
    return F.unix_millis("time") / F.lit(1e3)


def task_ids(queries: DataFrame, *columns: str) -> DataFrame:
    """A row for each task of each query: `columns` of the query and `task`."""
    return queries.select(*columns, F.explode("tasks").alias("task"))


def with_policy(queries: DataFrame, tasks: DataFrame) -> DataFrame:
    """Queries with the `policy` of their tasks, served by whichever IAD: `MIXED` if these differ,
    `NONE` if none is known."""
    found = (
        task_ids(queries, *QUERY)
        .join(tasks.select("task", "policy"), "task")
        .groupBy(*QUERY)
        .agg(F.min("policy").alias("one"), F.max("policy").alias("other"))
    )
    policy = (
        F.when(F.col("one").isNull(), NONE)
        .when(F.col("one") == F.col("other"), F.col("one"))
        .otherwise(MIXED)
    )
    return (
        queries.join(found, list(QUERY), "left").withColumn("policy", policy).drop("one", "other")
    )
