"""Queueing delay against load (DSSP Fig. 8), for whatever loads were recorded."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.lake.schema.tables.requests import LOAD_CURVE
from fleet.report.jobs.requests import (
    MIXED,
    NONE,
    about_pods,
    queueing_ms,
    response_ms,
    started_s,
    task_ids,
    with_policy,
)
from fleet.report.jobs.statistics import percentile, ranked, round_width, share

BINS: Final = 12
# So many windows without a query end a run.
PAUSE: Final = 6
KEYS: Final = ("policy", "rate_per_s")
WINDOW_S: Final = 10.0
# Windows are long enough for that many queries while there are some, and no longer, or nothing
# would be left of a short trial between its first and its last one.
WINDOWS_S: Final = (2.0, 5.0, 10.0, 30.0, 60.0)
QUERIES: Final = 10


def window_s(queries: DataFrame) -> float:
    """How long windows are best for `QUERIES`; reads their times once. Pauses do not count, so the
    hours that a run is kept for afterwards do not change the windows of its load."""
    least_s = WINDOWS_S[0]
    busy = F.count_distinct(F.floor(F.col("time").cast("double") / least_s))
    (count, windows) = queries.agg(F.count("*"), busy).first() or (0, 0)
    if not count:
        return WINDOW_S
    wanted_s = QUERIES * least_s * windows / count
    return next((each for each in WINDOWS_S if each >= wanted_s), WINDOWS_S[-1])


def load_curve(
    queries: DataFrame, tasks: DataFrame, subtasks: DataFrame, window_s: float = WINDOW_S
) -> DataFrame:
    """`LOAD_CURVE` of `QUERIES`, `TASKS` and `SUBTASKS`: a row for each policy and bin of rates.

    The rate of a window of `window_s` seconds is that of all queries which all IADs received in it,
    refused ones too; wall clocks of masters must agree to much less than a window. Windows of one
    policy make a run, until another policy comes or for `PAUSE` windows no query; its first and
    last window are cut somewhere and left out, and so are those in which the policy changed. Rates
    fall into at most `BINS` bins of equal, round width. What a query and its subtasks took counts
    in the window in which the query came. Violations are of the subtasks that `about_pods` names.
    """
    window = F.floor(started_s() / F.lit(window_s)).alias("window")
    asked = with_policy(queries, tasks).select("policy", "tasks", window, response_ms())
    windows = _windows(asked.select("window", "policy"), window_s)
    responses = asked.drop("policy").join(windows, "window")
    of_queries = (
        ranked(responses.select(*KEYS, "window", "response_ms"), KEYS, "response_ms")
        .groupBy(*KEYS)
        .agg(
            F.count_distinct("window").alias("windows"),
            F.count("*").alias("queries"),
            F.avg("response_ms").alias("mean_ms"),
            percentile("response_ms", 99.0).alias("response_p99_ms"),
        )
        .withColumnRenamed("mean_ms", "response_ms")
    )
    waits = task_ids(responses, *KEYS).join(
        subtasks.select(
            "task",
            queueing_ms().alias("queueing_ms"),
            about_pods().alias("counted"),
            (about_pods() & F.col("missed_deadline")).alias("missed"),
        ),
        "task",
    )
    of_subtasks = (
        ranked(waits, KEYS, "queueing_ms")
        .groupBy(*KEYS)
        .agg(
            F.count("queueing_ms").alias("subtasks"),
            F.avg("queueing_ms").alias("mean_ms"),
            percentile("queueing_ms", 99.0).alias("queueing_p99_ms"),
            (100.0 * share(F.count_if("missed"), F.count_if("counted"))).alias("violations"),
        )
        .withColumnRenamed("mean_ms", "queueing_ms")
    )
    return (
        of_queries.join(of_subtasks, list(KEYS), "left")
        .withColumn("subtasks", F.coalesce("subtasks", F.lit(0)))
        .select(*LOAD_CURVE.names)
    )


def _windows(asked: DataFrame, window_s: float) -> DataFrame:
    """Whole windows of one policy: `window`, `policy` and the middle of their bin of rates."""
    known = F.when(F.col("policy") != NONE, F.col("policy"))
    counted = asked.groupBy("window").agg(
        F.count("*").alias("queries"), F.min(known).alias("policy"), F.max(known).alias("other")
    )
    policy = F.when(F.col("policy") == F.col("other"), F.col("policy")).otherwise(MIXED)
    # Windows one after another, of all the time: one row each, few enough for one task.
    in_order = Window.orderBy("window")
    neighbours = {}
    for name, step in (("before", F.lag), ("after", F.lead)):
        near = step("window").over(in_order)
        same = step("policy").over(in_order) == F.col("policy")
        close = F.abs(near - F.col("window")) <= PAUSE
        neighbours[name] = F.coalesce(same & close, F.lit(False))
    whole = (
        counted.withColumn("policy", policy)
        .withColumns(neighbours)
        .where("before and after")
        .where(F.col("policy") != MIXED)
    )
    rate = F.col("queries") / F.lit(window_s)
    # Policies are compared in the same bins.
    width = round_width(F.max(rate).over(Window.partitionBy()), BINS)
    # Rounded before the floor: 0.6 / 0.2 is a hair below 3 in floating point.
    place = F.floor(F.round(rate / F.col("width"), 9)) + F.lit(0.5)
    return whole.withColumn("width", width).select(
        "window", "policy", (place * F.col("width")).alias("rate_per_s")
    )
