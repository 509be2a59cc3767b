"""Queueing against load, by hand."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.base import QUERIES, SUBTASKS, TASKS
from fleet.lake.schema.tables.requests import LOAD_CURVE
from fleet.report.jobs import load
from fleet.report.jobs.load import load_curve
from tests.fleet.spark_jobs.recorded import found, frame, query, subtask, task

Rows = list[dict[str, Any]]


class Recorded:
    """Queries of one task and subtask each, spread over windows of 10 s."""

    def __init__(self) -> None:
        self.queries: Rows = []
        self.tasks: Rows = []
        self.subtasks: Rows = []

    def window(self, number: int, count: int, policy: str, **waited: Any) -> None:
        for n in range(count):
            at_s = 10.0 * number + n * 10.0 / count
            iad = f"iad{n % 2 + 1}"
            name = f"t{number}.{n}"
            self.queries.append(query(at_s, iad=iad, tasks=[name], aggregated_ms=100.0 + n))
            self.tasks.append(task(at_s, iad=iad, task=name, policy=policy))
            self.subtasks.append(subtask(at_s, iad=iad, task=name, policy=policy, **waited))


def test_a_curve_by_hand(spark: SparkSession) -> None:
    recorded = Recorded()
    late = {"dispatched_ms": 401.0, "result_ms": 471.0, "missed_deadline": True}
    for number, count in enumerate((5, 6, 12, 60, 9)):
        recorded.window(number, count, "fifo", **(late if count == 60 else {}))
    # In the sixth the policy changes; the seventh and the last are the ends of another run.
    recorded.window(5, 3, "fifo")
    recorded.window(5, 4, "edfq")
    for number, count in enumerate((2, 23, 24, 2), 6):
        recorded.window(number, count, "edfq")
    # Another run after a pause: only its middle one counts.
    for number in (30, 31, 32):
        recorded.window(number, 2, "edfq")
    # Two refused queries are load as well, and one has a subtask that never left.
    refused = {"status": "refused", "slo_met": False, "aggregated_ms": 0.1}
    recorded.queries += [query(10.1, **refused), query(10.2, query="r", **refused)]
    never = {"dispatched_ms": None, "result_ms": None, "outcome": "timeout"}
    recorded.subtasks.append(subtask(10.0, task="t1.0", node="n2", missed_deadline=True, **never))
    rows = found(
        load_curve(
            frame(spark, QUERIES, recorded.queries),
            frame(spark, TASKS, recorded.tasks),
            frame(spark, SUBTASKS, recorded.subtasks),
        ),
        LOAD_CURVE,
    )
    # At most 6/s in at most 12 bins: half a query/s each.
    shown = {
        (row["policy"], row["rate_per_s"]): (row["windows"], row["queries"], row["subtasks"])
        for row in rows
    }
    assert shown == {
        ("edfq", 0.25): (1, 2, 2),
        ("edfq", 2.25): (2, 47, 47),
        ("fifo", 0.75): (1, 8, 6),
        ("fifo", 1.25): (1, 12, 12),
        ("fifo", 6.25): (1, 60, 60),
    }
    *_, low, _, high = rows
    assert (low["queueing_ms"], low["queueing_p99_ms"]) == (10.0, 10.0)
    assert low["violations"] == pytest.approx(100 / 7)
    assert (low["response_ms"], low["response_p99_ms"]) == (pytest.approx(102.5), 105.0)
    assert (high["queueing_ms"], high["queueing_p99_ms"]) == (400.0, 400.0)
    assert (high["response_ms"], high["response_p99_ms"]) == (pytest.approx(129.5), 159.0)
    assert high["violations"] == 100.0


def test_too_short_a_time_has_no_curve(spark: SparkSession) -> None:
    recorded = Recorded()
    recorded.window(0, 5, "fifo")
    recorded.window(1, 5, "fifo")
    frames = (
        frame(spark, QUERIES, recorded.queries),
        frame(spark, TASKS, recorded.tasks),
        frame(spark, SUBTASKS, recorded.subtasks),
    )
    assert found(load_curve(*frames), LOAD_CURVE) == []


@pytest.mark.parametrize(
    ("seconds", "window_s"),
    [
        ((), 10.0),
        # Half a minute of 8 queries a second, then a run that is kept for an hour.
        ((*[n / 8 for n in range(240)], 3_600.0), 2.0),
        # A query every 2 s, and every 10 minutes.
        (tuple(2.0 * n for n in range(50)), 30.0),
        (tuple(600.0 * n for n in range(50)), 30.0),
        ((*[1.0] * 30, *[3.0] * 30, 5.0, 7.0, 9.0, 11.0), 2.0),
        ((0.0, 0.1, 0.2, 0.3, 0.4, 9.0), 10.0),
    ],
)
def test_windows_are_as_long_as_ten_queries_take(spark, seconds, window_s):
    times = spark.createDataFrame([(each,) for each in seconds], "s double")
    assert load.window_s(times.select(F.col("s").cast("timestamp").alias("time"))) == window_s
