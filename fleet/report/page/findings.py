"""Findings of a report: sentences generated from its numbers."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.worst import worst_first
from fleet.report.page.markup import (
    Html,
    Row,
    digits,
    element,
    join,
    number,
    percent,
    plain,
    share,
    whole,
)
from fleet.report.page.sections.time_spent import PARTS
from fleet.report.page.shown import Shown


def sentences(shown: Shown) -> list[Html]:
    """Sentences about attainment, time, deadlines and sensors, for those that have numbers."""
    found = [_objectives(shown), _time(shown), _deadlines(shown), _sensors(shown), _lost(shown)]
    return [sentence for sentence in found if sentence is not None]


def _objectives(shown: Shown) -> Html | None:
    served = F.sum("queries") - F.sum("refused")
    top = shown.top(
        shown.frame("attainment")
        .groupBy("policy")
        .agg(served.alias("served"), F.try_divide(F.sum("kept"), served).alias("kept"))
        .where("served > 0"),
        (F.desc("kept"), "policy"),
        6,
    )
    if not top.rows:
        return None
    parts = [
        join(
            _strong(row["policy"]), " kept the SLO of ", number(row["kept"], share), " of ",
            number(row["served"], whole), " queries",
        )
        for row in top.rows
    ]  # fmt: skip
    return join(_listed(parts), ".")


def _strong(name: object) -> Html:
    """A name, emphasised."""
    return element("b", plain(name, 40))


def _listed(parts: list[Html]) -> Html:
    return join(*[piece for n, part in enumerate(parts) for piece in ((", " if n else ""), part)])


def _time(shown: Shown) -> Html | None:
    way = sum((F.col(key) for key, _, _ in PARTS), F.lit(0.0))
    frame = shown.frame("time_spent").withColumn("queued", F.try_divide("queueing_ms", way))
    rows = shown.top(frame, (F.desc("queued"), "iad", "policy"), 1).rows
    if not rows or rows[0]["queued"] is None:
        return None
    row = rows[0]
    return join(
        _strong(row["iad"]), " under ", plain(row["policy"]), " spends ",
        number(row["queued"], share), " of a subtask's time in the queue, ",
        number(row["queueing_ms"], digits), " ms on average.",
    )  # fmt: skip


def _deadlines(shown: Shown) -> Html | None:
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
    if not rows:
        return None
    row: Row = rows[0]
    if not row["missed"]:
        return join("No subtask was dispatched after its deadline.")
    scaled = (
        join("; the auto-scaler would give it up to ", number(row["pods"], whole), " pods")
        if row["up"]
        else "; the auto-scaler would add no pod"
    )
    return join(
        "Most deadlines were missed at ", _strong(f"{row['iad']}/{row['node']}"), ": ",
        number(row["missed"], whole), " of ", number(row["subtasks"], whole), " (",
        number(row["violations"], percent), ")", scaled, ".",
    )  # fmt: skip


def _sensors(shown: Shown) -> Html | None:
    frame = shown.frame("sensor_health")
    counts = shown.one(
        frame.agg(F.count("*").alias("all"), F.count_if(F.col("verdict") != "ok").alias("bad"))
    )
    if not counts["all"]:
        return None
    if not counts["bad"]:
        return join("All ", number(counts["all"], whole), " channels of sensors are ok.")
    worst = shown.top(frame, worst_first(), 1).rows[0]
    return join(
        number(counts["bad"], whole), " of ", number(counts["all"], whole),
        " channels of sensors are not ok; the worst: ", _strong(worst["area"]), ", ",
        plain(worst["channel"], 40), " of ", plain(f"{worst['iad']}/{worst['node']}"), ", ",
        _strong(worst["verdict"].replace("_", " ")), ", with ", number(worst["success"], share),
        " of its readings.",
    )  # fmt: skip


def _lost(shown: Shown) -> Html | None:
    sums = shown.one(
        shown.frame("contents").agg(
            F.sum("failed").alias("failed"),
            F.sum("expired_readings").alias("expired"),
            F.sum("quarantined").alias("quarantined"),
        )
    )
    parts = [
        join(number(sums[key], whole), f" {what}")
        for key, what in (
            ("failed", "failed pulls"),
            ("expired", "readings (at most) that expired before they were exported"),
            ("quarantined", "lines and row groups in quarantine"),
        )
        if sums[key]
    ]
    return join("Lost or late: ", _listed(parts), ".") if parts else None
