"""Findings of a report: the numbers of its first sentences."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.worst import worst_first
from fleet.report.page.markup import Row
from fleet.report.page.sections.time_spent import PARTS
from fleet.report.page.shown import Shown
from fleet.simulation.workload import WARM_UP


def found(shown: Shown) -> dict[str, Any]:
    """What ``findings.html`` says: attainment, time, deadlines and sensors, each empty if there are
    no numbers."""
    return {
        "objectives": _objectives(shown),
        "time": _time(shown),
        "deadlines": _deadlines(shown),
        "sensors": _sensors(shown),
        "lost": _lost(shown),
    }


def _objectives(shown: Shown) -> dict[str, Any]:
    """Attainment by policy. Policies are compared by the classes that most of them had, if any had
    several, and without a warm-up, which is not load that anybody asked for."""
    served = F.sum("queries") - F.sum("refused")
    # A replay's labels contain the policy, too: "fifo 1.2" and "edfq 1.2" are the same load.
    labelled = F.startswith("class", F.concat("policy", F.lit(" ")))
    same = F.when(labelled, F.expr("substring(class, length(policy) + 2)")).otherwise(
        F.col("class")
    )
    keys = ("same", "service", "percentile", "slo_ms")
    frame = (
        shown.frame("attainment")
        .where((F.col("class") != WARM_UP) & (F.col("queries") > F.col("refused")))
        .withColumn("same", same)
        .withColumn("policies", F.size(F.collect_set("policy").over(Window.partitionBy(*keys))))
    )
    most = shown.one(frame.agg(F.max("policies").alias("most")))["most"]
    rows = shown.top(
        frame.where(F.col("policies") == most)
        .groupBy("policy")
        .agg(served.alias("served"), F.try_divide(F.sum("kept"), served).alias("kept")),
        (F.desc("kept"), "policy"),
        6,
    ).rows
    return {"by_policy": rows, "compared": most is not None and most > 1}


def _time(shown: Shown) -> Row | None:
    way = sum((F.col(key) for key, _, _ in PARTS), F.lit(0.0))
    frame = shown.frame("time_spent").withColumn("queued", F.try_divide("queueing_ms", way))
    rows = shown.top(frame, (F.desc("queued"), "iad", "policy"), 1).rows
    return rows[0] if rows and rows[0]["queued"] is not None else None


def _deadlines(shown: Shown) -> Row | None:
    """The node that missed most."""
    frame = (
        shown.frame("node_hours")
        .groupBy("iad", "node")
        .agg(
            F.sum("missed").alias("missed"),
            F.sum("subtasks").alias("subtasks"),
            F.max("pods_most").alias("pods"),
            F.sum("pods_up").alias("up"),
        )
        .where("subtasks > 0")
        .withColumn("violations", 100 * F.col("missed") / F.col("subtasks"))
    )
    rows = shown.top(frame, (F.desc("missed"), F.desc("violations"), "iad", "node"), 1).rows
    return rows[0] if rows else None


def _sensors(shown: Shown) -> Row:
    """How many channels there are, how many are not ok, and the worst of these."""
    frame = shown.frame("sensor_health")
    counts = shown.one(
        frame.agg(F.count("*").alias("all"), F.count_if(F.col("verdict") != "ok").alias("bad"))
    )
    if counts["bad"]:
        counts["worst"] = shown.top(frame, worst_first(), 1).rows[0]
    return counts


def _lost(shown: Shown) -> list[tuple[float, str]]:
    sums = shown.one(
        shown.frame("contents").agg(
            F.sum("failed").alias("failed"),
            F.sum("expired_readings").alias("expired"),
            F.sum("quarantined").alias("quarantined"),
        )
    )
    return [
        (sums[key], what)
        for key, what in (
            ("failed", "failed pulls"),
            ("expired", "readings (at most) that expired before they were exported"),
            ("quarantined", "lines and row groups in quarantine"),
        )
        if sums[key]
    ]
