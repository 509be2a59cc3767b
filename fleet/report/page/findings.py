"""Findings of a report: the numbers of its first sentences."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.contents import SUCCEEDED
from fleet.report.jobs.requests import MIXED, NONE
from fleet.report.jobs.worst import worst_first
from fleet.report.page.markup import Row
from fleet.report.page.recommendations import recommendations
from fleet.report.page.sections.climate import unit_of
from fleet.report.page.sections.time_spent import PARTS
from fleet.report.page.shown import Shown
from fleet.simulation.workload import WARM_UP

CHANNELS: Final = 2
WORST: Final = 5
MISSED: Final = 3


def found(shown: Shown) -> dict[str, Any]:
    """Data of ``findings.html``: rooms, sensors, attainment, time, deadlines and losses, each
    empty if there are no numbers, and what to do about them."""
    facts = {
        "rooms": _rooms(shown),
        "objectives": _objectives(shown),
        "time": _time(shown),
        "deadlines": _deadlines(shown),
        "sensors": _sensors(shown),
        "lost": _lost(shown),
    }
    return {**facts, "todo": recommendations(facts)}


def _rooms(shown: Shown) -> list[Row]:
    """The coldest and the warmest area, and likewise of the other most common channels."""
    hours = shown.frame("climate_hours").withColumn("good", F.col("readings") - F.col("bad"))
    mean = F.try_divide(F.sum(F.col("mean") * F.col("good")), F.sum("good"))
    areas = hours.groupBy("channel", "iad", "area").agg(
        mean.alias("mean"), F.sum("good").alias("good")
    )
    rows = shown.top(
        areas.where(F.col("mean").isNotNull())
        .groupBy("channel")
        .agg(
            F.sum("good").alias("good"),
            F.count("*").alias("areas"),
            F.min_by("area", "mean").alias("low_area"),
            F.min("mean").alias("low"),
            F.max_by("area", "mean").alias("high_area"),
            F.max("mean").alias("high"),
        ),
        (F.col("channel") != "temperature", F.desc("good"), "channel"),
        CHANNELS,
    ).rows
    return [
        {
            **row,
            "unit": unit_of(row["channel"]),
            "low_area": shown.label(row["low_area"]),
            "high_area": shown.label(row["high_area"]),
        }
        for row in rows
    ]


def _objectives(shown: Shown) -> dict[str, Any]:
    """Attainment by policy, and classes that kept their objective or did not.

    A warm-up is not load that anybody asked for, and what reached no node was served under no
    policy: neither is judged. Policies are compared by the classes that most of them had, if any
    had several."""
    taken = F.col("queries") - F.col("refused") - F.col("no_data")
    served = F.sum(taken)
    # A replay's labels contain the policy, too: "fifo 1.2" and "edfq 1.2" are the same load.
    labelled = F.startswith("class", F.concat("policy", F.lit(" ")))
    same = F.when(labelled, F.expr("substring(class, length(policy) + 2)")).otherwise(
        F.col("class")
    )
    keys = ("same", "service", "percentile", "slo_ms")
    asked = (
        shown.frame("attainment")
        .where((F.col("class") != WARM_UP) & (taken > 0))
        .withColumn("same", same)
    )
    frame = asked.where(~F.col("policy").isin(NONE, MIXED)).withColumn(
        "policies", F.size(F.collect_set("policy").over(Window.partitionBy(*keys)))
    )
    most = shown.one(frame.agg(F.max("policies").alias("most")))["most"]
    rows = shown.top(
        frame.where(F.col("policies") == most)
        .groupBy("policy")
        .agg(served.alias("served"), F.try_divide(F.sum("kept"), served).alias("kept")),
        (F.desc("kept"), "policy"),
        6,
    ).rows
    nowhere = asked.where(F.col("policy") == NONE).agg(served.alias("queries"))
    return {
        "by_policy": rows,
        "compared": most is not None and most > 1,
        **_judged(shown, frame),
        "nowhere": shown.one(nowhere)["queries"] or 0,
    }


def _judged(shown: Shown, frame: DataFrame) -> dict[str, Any]:
    """How many classes kept their objective, how many are too few queries to tell, and those that
    did not."""
    wanted = F.col("percentile") / 100
    is_kept = F.col("attainment") >= wanted
    is_missed = F.col("attainment_high") < wanted
    counts = shown.one(
        frame.agg(
            F.count("*").alias("classes"),
            F.count_if(is_kept).alias("kept"),
            F.count_if(is_missed).alias("missed"),
        )
    )
    order = (wanted - F.col("attainment")).desc()
    missed = shown.top(frame.where(is_missed), (order, "class", "policy"), MISSED)
    return {
        "classes": counts["classes"],
        "kept": counts["kept"],
        "unsure": counts["classes"] - counts["kept"] - counts["missed"],
        "missed": missed.rows,
        "missed_more": missed.more,
    }


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
    worst = shown.top(frame.where(F.col("verdict") != "ok"), worst_first(), WORST)
    rows = [{**row, "area": shown.label(row["area"])} for row in worst.rows]
    return {**counts, "worst": rows, "more": worst.more}


def _lost(shown: Shown) -> list[tuple[float, str]]:
    sums = shown.one(
        shown.frame("contents").agg(
            F.sum("expired_readings").alias("expired"),
            F.sum("quarantined").alias("quarantined"),
        )
    )
    # One that failed before one that succeeded has lost nothing.
    behind = shown.frame("pulled").where(~F.col("outcome").isin(*SUCCEEDED))
    sums |= shown.one(behind.agg(F.sum("failed").alias("failed")))
    return [
        (sums[key], what)
        for key, what in (
            ("failed", "failed pulls"),
            ("expired", "readings (at most) that expired before they were exported"),
            ("quarantined", "lines and row groups in quarantine"),
        )
        if sums[key]
    ]
