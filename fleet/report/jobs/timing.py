"""Time breakdown from reception to result (DSSP Table III, Fig. 7)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.requests import TIME_SPENT
from fleet.report.jobs.requests import queueing_ms, served_once, unloaded_ms
from fleet.report.jobs.statistics import percentile, percentiles, ranked

KEYS: Final = ("iad", "policy")
FEW: Final = 2_000_000


def time_spent(tasks: DataFrame, subtasks: DataFrame, few: int = FEW) -> DataFrame:
    """`TIME_SPENT` of `TASKS` and `SUBTASKS`: a row for each IAD and policy.

    Only tasks that are complete count, and of these the subtasks that were dispatched once and
    answered; a task's aggregation begins with its last result, which may be another's. Up to `few`
    subtasks are ranked, which takes fewer passes; more than one task should sort are not.
    """
    complete = tasks.where(F.col("status") == "complete").select(
        *KEYS, "task", "evaluated_ms", "aggregated_ms"
    )
    answered = subtasks.where((F.col("outcome") == "ok") & F.col("result_ms").isNotNull())
    last = answered.groupBy("iad", "task").agg(F.max("result_ms").alias("last_ms"))
    of_tasks = (
        complete.join(last, ["iad", "task"])
        .groupBy(*KEYS)
        .agg(
            F.count("*").alias("tasks"),
            F.avg("evaluated_ms").alias("evaluation_ms"),
            F.avg(F.col("aggregated_ms") - F.col("last_ms")).alias("aggregation_ms"),
            F.avg("aggregated_ms").alias("task_ms"),
        )
    )
    once = (
        subtasks.where(
            served_once() & F.col("node_wait_ms").isNotNull() & F.col("execution_ms").isNotNull()
        )
        .select(
            "iad",
            "task",
            queueing_ms().alias("queueing_ms"),
            unloaded_ms().alias("unloaded_ms"),
            "node_wait_ms",
            "execution_ms",
        )
        .join(complete.select("iad", "task", "policy"), ["iad", "task"])
    )
    at_node_ms = F.col("node_wait_ms") + F.col("execution_ms")
    means = (
        F.count("*").alias("subtasks"),
        F.avg("queueing_ms").alias("queueing_ms"),
        F.avg("unloaded_ms").alias("unloaded_ms"),
        F.avg(F.col("unloaded_ms") - at_node_ms).alias("communication_ms"),
        F.avg("node_wait_ms").alias("node_wait_ms"),
        F.avg("execution_ms").alias("execution_ms"),
    )
    p99s = {"queueing_ms": "queueing_p99_ms", "unloaded_ms": "unloaded_p99_ms"}
    if subtasks.count() <= few:
        once = ranked(ranked(once, KEYS, "queueing_ms"), KEYS, "unloaded_ms")
        highs = [percentile(value, 99.0).alias(name) for value, name in p99s.items()]
        of_subtasks = once.groupBy(*KEYS).agg(*means, *highs)
    else:
        highs_of = percentiles(once, KEYS, 99.0, p99s)
        of_subtasks = once.groupBy(*KEYS).agg(*means).join(highs_of, list(KEYS), "left")
    return of_tasks.join(of_subtasks, list(KEYS)).select(*TIME_SPENT.names)
