"""Where the time went, by hand."""

import pytest
from pyspark.sql import SparkSession

from fleet.lake.schema.tables.base import SUBTASKS, TASKS
from fleet.lake.schema.tables.requests import TIME_SPENT
from fleet.report.jobs.timing import FEW, time_spent
from tests.fleet.spark_jobs.recorded import found, frame, subtask, task


@pytest.mark.parametrize("few", [0, FEW])
def test_time_spent_by_hand(spark: SparkSession, few: int) -> None:
    tasks = [
        task(1, task="a", evaluated_ms=1.0, aggregated_ms=105.0),
        task(2, task="b", evaluated_ms=3.0, aggregated_ms=110.0),
        task(3, task="c", status="partial", evaluated_ms=900.0),
        task(4, task="d", status="cancelled", evaluated_ms=900.0),
        task(5, task="a", iad="iad2", policy="fifo", aggregated_ms=81.5),
        task(6, task="lost", evaluated_ms=900.0),  # its subtasks were not pulled
    ]
    subtasks = [
        # 10 ms in the queue, 70 to the result, of which 5 and 60 at the node.
        subtask(1, task="a"),
        # 20 ms and 80, of which 5 and 71.
        subtask(1, task="a", node="n2", dispatched_ms=21.0, result_ms=101.0, execution_ms=71.0),
        # Sent twice: only the task's last result.
        subtask(2, task="b", dispatches=2, result_ms=107.0, execution_ms=5_000.0),
        subtask(2, task="b", node="n2", outcome="timeout", result_ms=None, node_wait_ms=None),
        subtask(2, task="b", node="n3", enqueued_ms=11.0),  # at once
        subtask(3, task="c", result_ms=5_000.0),
        subtask(4, task="d", result_ms=5_000.0),
        subtask(5, task="a", iad="iad2", policy="fifo"),
    ]
    first, second = found(
        time_spent(frame(spark, TASKS, tasks), frame(spark, SUBTASKS, subtasks), few), TIME_SPENT
    )
    assert first == pytest.approx(
        {
            "iad": "iad1",
            "policy": "edfq",
            "tasks": 2,
            "subtasks": 3,
            "evaluation_ms": 2.0,
            "queueing_ms": 10.0,
            "queueing_p99_ms": 20.0,
            "unloaded_ms": 220.0 / 3,
            "unloaded_p99_ms": 80.0,
            "communication_ms": (5.0 + 4.0 + 5.0) / 3,
            "node_wait_ms": 5.0,
            "execution_ms": 191.0 / 3,
            "aggregation_ms": (4.0 + 3.0) / 2,
            "task_ms": 107.5,
        }
    )
    assert (second["iad"], second["policy"], second["tasks"]) == ("iad2", "fifo", 1)
    assert second["aggregation_ms"] == pytest.approx(0.5)
