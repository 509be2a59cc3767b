"""Time breakdown from reception to result (DSSP Table III, Fig. 7)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.requests import TIME_SPENT
from fleet.report.jobs.requests import queueing_ms, served_once, unloaded_ms
from fleet.report.jobs.statistics import percentile, ranked

KEYS = ("iad", "policy")


def time_spent(tasks: DataFrame, subtasks: DataFrame) -> DataFrame:
    """`TIME_SPENT` of `TASKS` and `SUBTASKS`: a row for each IAD and policy.

    Only tasks that are complete count, and of these the subtasks that were dispatched once and
    answered; a task's aggregation begins with its last result, which may be another's.
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
    of_subtasks = (
        ranked(ranked(once, KEYS, "queueing_ms"), KEYS, "unloaded_ms")
        .groupBy(*KEYS)
        .agg(
            F.count("*").alias("subtasks"),
            F.avg("queueing_ms").alias("mean_queueing_ms"),
            percentile("queueing_ms", 99.0).alias("queueing_p99_ms"),
            F.avg("unloaded_ms").alias("mean_unloaded_ms"),
            percentile("unloaded_ms", 99.0).alias("unloaded_p99_ms"),
            F.avg(F.col("unloaded_ms") - at_node_ms).alias("communication_ms"),
            F.avg("node_wait_ms").alias("node_wait_ms"),
            F.avg("execution_ms").alias("execution_ms"),
        )
        .withColumnsRenamed({"mean_queueing_ms": "queueing_ms", "mean_unloaded_ms": "unloaded_ms"})
    )
    return of_tasks.join(of_subtasks, list(KEYS)).select(*TIME_SPENT.names)
