"""Section: topics that moved, measured before and after."""

from __future__ import annotations

from typing import Any, Final

from fleet.query.placement_screen import REASONS
from fleet.report.page import drawing
from fleet.report.page.markup import Picture, Row, Section, nothing, render
from fleet.report.page.shown import Shown

MAX_ROWS: Final = 48
DRAWN: Final = 16
TITLE: Final = "Before and after moves"


def section(shown: Shown) -> Section:
    """The latest moves of topics; latency and way of messages on either side."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

    frame = shown.frame("move_effects")
    top = shown.top(frame, (F.desc("time"), "iad", "topic", "start_s"), MAX_ROWS)
    if not top.rows:
        return Section("moves", TITLE, nothing("No topic moved in this time."))
    both = F.col("before_achieved_ms").isNotNull() & F.col("after_achieved_ms").isNotNull()
    kept = {
        side: F.count_if(both & (F.col(f"{side}_achieved_ms") <= F.col("slo_ms")))
        for side in ("before", "after")
    }
    totals = shown.one(
        frame.agg(
            F.count_if(both & F.col("slo_ms").isNotNull()).alias("judged"),
            *(F.median(F.when(both, F.col(f"{side}_achieved_ms"))).alias(side) for side in kept),
            *(F.median(f"{side}_way_ms").alias(f"{side}_way") for side in kept),
            *(count.alias(f"{side}_kept") for side, count in kept.items()),
        )
    )
    drawn = [
        row
        for row in top.rows
        if row["before_achieved_ms"] is not None and row["after_achieved_ms"] is not None
    ][:DRAWN]
    picture = _picture(drawn) if drawn else None
    for row in top.rows:
        row["reason"] = REASONS.get(row["reason"], row["reason"])
        achieved, goal = row["after_achieved_ms"], row["slo_ms"]
        row["is_bad"] = achieved is not None and goal is not None and achieved > goal
    body = render("moves.html", picture=picture, top=top, totals=totals)
    return Section("moves", TITLE, body, (picture,) if picture else ())


def _picture(rows: list[Row]) -> Picture:
    better = sum(row["after_achieved_ms"] < row["before_achieved_ms"] for row in rows)
    alt = f"Latency of {len(rows)} topics before and after they moved; {better} became faster."

    def paint(_figure: Any, axes: Any) -> None:
        axis = axes[0][0]
        for y, row in enumerate(rows):
            before, after = row["before_achieved_ms"], row["after_achieved_ms"]
            axis.plot([before, after], [y, y], color=drawing.SKY, lw=3)
            axis.plot(before, y, "o", color=drawing.SKY)
            axis.plot(after, y, "o", color=drawing.BLUE)
            if row["slo_ms"] is not None:
                axis.plot(row["slo_ms"], y, "|", color=drawing.RED, markersize=16, mew=2.5)
        axis.set_xscale("log")
        names = [f"{drawing.text(r['topic'], 24)} → {drawing.text(r['target'], 20)}" for r in rows]
        axis.set_yticks(range(len(rows)), names)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel("percentile of the objective, ms")
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)

    return drawing.draw("moves", 90 + 26 * len(rows), alt, paint)
