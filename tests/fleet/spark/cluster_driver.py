"""What the cluster's test runs on it, a program of its own: a process has one session only.

python cluster_driver.py MASTER FOLDER: prints one JSON object. Tasks of its last job leave a file
each in FOLDER when they begin, and those after the first wait until there is one named `go`.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

from fleet.lake.schema.tables.base import QUERIES, SUBTASKS, TASKS
from fleet.report.jobs.slo import attainment
from fleet.spark.session import open_session
from tests.fleet.spark.shared import SETTINGS, SHORT_LIVED
from tests.fleet.spark_jobs.recorded import frame, query, task

PARTS = 8
AT_ONCE = 4  # of these tasks, so many wait for nobody


def reported(spark: SparkSession) -> list[list[Any]]:
    """Attainment of queries of three classes under two policies: a join, and ranks in groups."""
    queries, tasks = [], []
    for n in range(300):
        more = {"aggregated_ms": 20.0 + n * 37 % 600, "slo_met": n * 37 % 600 < 480}
        queries.append(query(n, label=f"class {n % 3}", tasks=[f"t{n}"], **more))
        tasks.append(task(n, task=f"t{n}", policy=("fifo", "edfq")[n * 7 // 5 % 2]))
    made = attainment(
        frame(spark, QUERIES, queries), frame(spark, TASKS, tasks), frame(spark, SUBTASKS, [])
    )
    return sorted(list(row) for row in made.collect())


def counted(spark: SparkSession, folder: str) -> list[tuple[int, int]]:
    """How often each rest of a division by 7 is there, slowly enough to be disturbed."""

    def slow(task: int, numbers):
        begun = Path(folder) / f"task-{task}-{TaskContext.get().taskAttemptId()}"
        begun.touch()
        pause = threading.Event()
        while task >= AT_ONCE and not (Path(folder) / "go").exists():
            pause.wait(0.02)
        return ((number % 7, 1) for number in numbers)

    numbers = spark.sparkContext.parallelize(range(10_000), PARTS)
    pairs = numbers.mapPartitionsWithIndex(slow)
    return sorted(pairs.reduceByKey(lambda a, b: a + b, 4).collect())


def main(master: str, folder: str) -> None:
    settings = {
        **SETTINGS,
        "spark.executor.memory": "512m",
        # No task before both executors are there: both are to have done some.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
    }
    with open_session("cluster test", master, settings) as spark:
        said = {
            "reported": reported(spark),
            "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
            "counted": counted(spark, folder),
        }
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
