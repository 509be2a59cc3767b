"""What the cluster's test runs on it, a program of its own: a process has one session only.

python cluster_driver.py MASTER FOLDER: prints one JSON object. Tasks of its last job leave a file
each in FOLDER when they begin, and those after the first wait until there is one named `go`.
"""

import json
import sys
import threading
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession, functions

from fleet.spark.session import open_session
from tests.fleet.spark.shared import SETTINGS, SHORT_LIVED

TASKS = 8
AT_ONCE = 4  # of these tasks, so many wait for nobody


def grouped(spark: SparkSession) -> list[list[float]]:
    """Percentiles of groups, whose rows are everywhere."""
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id % 97 as key", "id * 31 % 1009 as value")
    groups = rows.groupBy("key").agg(
        functions.count("value"),
        functions.sum("value"),
        functions.percentile("value", functions.lit(0.99)),
    )
    return sorted(list(row) for row in groups.collect())


def counted(spark: SparkSession, folder: str) -> list[tuple[int, int]]:
    """How often each rest of a division by 7 is there, slowly enough to be disturbed."""

    def slow(task: int, numbers):
        begun = Path(folder) / f"task-{task}-{TaskContext.get().taskAttemptId()}"
        begun.touch()
        pause = threading.Event()
        while task >= AT_ONCE and not (Path(folder) / "go").exists():
            pause.wait(0.02)
        return ((number % 7, 1) for number in numbers)

    numbers = spark.sparkContext.parallelize(range(10_000), TASKS)
    pairs = numbers.mapPartitionsWithIndex(slow)
    return sorted(pairs.reduceByKey(lambda a, b: a + b, 4).collect())


def main(master: str, folder: str) -> None:
    settings = {
        **SETTINGS,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
    }
    with open_session("cluster test", master, settings) as spark:
        said = {
            "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
            "grouped": grouped(spark),
            "counted": counted(spark, folder),
        }
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
