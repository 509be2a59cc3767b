"""Deadline violations by node and hour, and the auto-scaler's response to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from agent.scheduling.tasks.autoscale import SubtaskFinished
from fleet.lake.schema.tables.requests import NODE_HOURS
from fleet.report.jobs.autoscaling import LOOK_S, HourOfPods, Replay
from fleet.report.jobs.requests import about_pods, queueing_ms, slack_s, started_s, unloaded_ms
from fleet.report.jobs.statistics import share, wilson

KEYS: Final = ("iad", "node", "hour")
SCALED: Final = "iad string, node string, hour_s bigint, down int, up int, most int"


def node_hours(subtasks: DataFrame) -> DataFrame:
    """`NODE_HOURS` of `SUBTASKS`: a row for each node and hour of reception.

    Only subtasks whose deadline says something about pods count (`about_pods`); hours without any
    have no row. `busy` is the time of all the node's subtasks from dispatch to result, over the
    time from the first reception to the last end at its IAD in that hour.

    The auto-scaler is the masters' own with its defaults, from one pod on. It is shown what was
    recorded: the violations stand as they are, although its pods would have changed them, so the
    numbers are what it would do with these observations and no forecast.
    """
    hour = F.date_trunc("hour", "time").alias("hour")
    seen = subtasks.select(
        "iad",
        "node",
        hour,
        about_pods().alias("counted"),
        "missed_deadline",
        queueing_ms().alias("queueing_ms"),
        (unloaded_ms() / F.lit(1e3)).alias("busy_s"),
        started_s().alias("started_s"),
        _ended_s().alias("ended_s"),
    )
    spans = seen.groupBy("iad", "hour").agg(
        F.nullif(F.max("ended_s") - F.min("started_s"), F.lit(0.0)).alias("span_s")
    )
    counted = F.col("counted")
    hours = seen.groupBy(*KEYS).agg(
        F.count_if(counted).alias("subtasks"),
        F.count_if(counted & F.col("missed_deadline")).alias("missed"),
        F.avg(F.when(counted, F.col("queueing_ms"))).alias("queueing_ms"),
        F.sum("busy_s").alias("busy_s"),
    )
    low, high = wilson(F.col("missed"), F.col("subtasks"))
    return (
        hours.where(F.col("subtasks") > 0)
        .join(spans, ["iad", "hour"])
        .join(_scaled(subtasks), list(KEYS), "left")
        .withColumns(
            {
                "violations": 100.0 * share(F.col("missed"), F.col("subtasks")),
                "violations_low": 100.0 * low,
                "violations_high": 100.0 * high,
                "busy": F.col("busy_s") / F.col("span_s"),
            }
        )
        .select(*NODE_HOURS.names)
    )


def _ended_s() -> Column:
    """When a subtask ended. Without a result: its deadline, or its dispatch if that came later,
    because its record does not say when it was given up."""
    given_up_ms = F.greatest("deadline_ms", "dispatched_ms", "enqueued_ms")
    return _at_s(F.coalesce("result_ms", given_up_ms))


def _at_s(after_ms: Column) -> Column:
    return started_s() + after_ms / F.lit(1e3)


# --- the auto-scaler ------------------------------------------------------------------------------


class _Scaler:
    """The events of one node in order of time, and its hours."""

    def __init__(self) -> None:
        self._replay = Replay()
        self._place: tuple[str, str] = ("", "")

    def eval(self, row: Any) -> Iterator[tuple[str, str, int, int, int, int]]:
        """Take one event (named by Spark's interface)."""
        at_s, iad, node, hour_s, change, enqueued_s, slack_s, missed, busy_s = row
        self._place = iad, node
        if change:
            self._replay.queue(at_s, change)
        else:
            event = SubtaskFinished("", enqueued_s, slack_s, missed, busy_s)
            yield from map(self._row, self._replay.finished(at_s, hour_s, event))

    def terminate(self) -> Iterator[tuple[str, str, int, int, int, int]]:
        """There are no more events (named by Spark's interface)."""
        yield from map(self._row, self._replay.ended())

    def _row(self, hour: HourOfPods) -> tuple[str, str, int, int, int, int]:
        return (*self._place, *hour)


def _scaled(subtasks: DataFrame) -> DataFrame:
    """(iad, node, hour, pods_down, pods_up, pods_most).

    A Python function over sorted rows, since the auto-scaler is a state machine and no expression.
    Each node's rows stream through one in the order of time; no more is held than its window. All
    of Spark's workers must have this package.
    """
    # A node continues under a restarted master; the end of the one and the start of the other are
    # ordered by wall clock.
    scale: Any = F.udtf(_Scaler, returnType=SCALED, useArrow=False)
    events = _finished(subtasks).unionByName(_queued(subtasks))
    rows: DataFrame = scale(events.asTable().partitionBy("iad", "node").orderBy("at_s"))
    # Around the end of an hour, subtasks do not end in the order in which they arrived.
    hour = F.timestamp_seconds("hour_s").alias("hour")
    return rows.groupBy("iad", "node", hour).agg(
        F.sum("down").cast("int").alias("pods_down"),
        F.sum("up").cast("int").alias("pods_up"),
        F.max("most").alias("pods_most"),
    )


def _finished(subtasks: DataFrame) -> DataFrame:
    """The same as `agent.scheduling.tasks.autoscale.finished`, from records by wall clock."""
    return subtasks.where(about_pods()).select(
        _ended_s().alias("at_s"),
        "iad",
        "node",
        F.unix_seconds(F.date_trunc("hour", "time")).alias("hour_s"),
        F.lit(0).alias("change"),
        _at_s(F.col("enqueued_ms")).alias("enqueued_s"),
        slack_s().alias("slack_s"),
        F.col("missed_deadline").alias("missed"),
        (unloaded_ms() / F.lit(1e3)).alias("busy_s"),
    )


def _queued(subtasks: DataFrame) -> DataFrame:
    """Changes of the number of waiting subtasks, as the auto-scaler sees it."""
    begin_s = _at_s(F.col("enqueued_ms"))
    end_s = F.coalesce(_at_s(F.col("dispatched_ms")), _ended_s())
    waited = subtasks.select("iad", "node", begin_s.alias("begin_s"), end_s.alias("end_s")).where(
        F.floor(F.col("begin_s") / LOOK_S) < F.floor(F.col("end_s") / LOOK_S)
    )
    ends = F.array(
        F.struct(F.col("begin_s").alias("at_s"), F.lit(1).alias("change")),
        F.struct(F.col("end_s").alias("at_s"), F.lit(-1).alias("change")),
    )
    return waited.select("iad", "node", F.explode(ends).alias("end")).select(
        "end.at_s",
        "iad",
        "node",
        F.lit(None).cast("bigint").alias("hour_s"),
        "end.change",
        F.lit(None).cast("double").alias("enqueued_s"),
        F.lit(None).cast("double").alias("slack_s"),
        F.lit(None).cast("boolean").alias("missed"),
        F.lit(None).cast("double").alias("busy_s"),
    )
