"""Section: which master has how much, and what moved."""

from __future__ import annotations

from typing import Any, Final

from fleet.query.placement_screen import REASONS
from fleet.report.page import drawing
from fleet.report.page.markup import Picture, Row, Section, nothing, render
from fleet.report.page.shown import Shown

MAX_ROWS: Final = 32
DRAWN: Final = 16
MOVES: Final = 24
TITLE: Final = "Placement"


def section(shown: Shown) -> Section:
    """Load of each master against its cores; moves, those with the longest pauses first."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

    masters = shown.top("master_load", (F.desc("most_load"), "iad"), MAX_ROWS)
    pause = F.col("pause_ms").desc_nulls_last()
    moves = shown.top("moved", (pause, F.desc("moved_ms"), "iad", "kind", "unit", "start_s"), MOVES)
    if not masters.rows and not moves.rows:
        return Section("placement", TITLE, nothing("No processor ran and nothing moved."))
    for row in moves.rows:
        row["reason"] = REASONS.get(row["reason"], row["reason"])
    totals = shown.one(
        shown.frame("moved").agg(
            F.count("*").alias("moves"),
            F.count_if(F.col("state") == "settled").alias("settled"),
            F.max("pause_ms").alias("longest_ms"),
        )
    )
    drawn = [row for row in masters.rows if row["cores"]][:DRAWN]
    picture = _picture(drawn) if drawn else None
    body = render("placement.html", picture=picture, masters=masters, moves=moves, totals=totals)
    return Section("placement", TITLE, body, (picture,) if picture else ())


def _picture(rows: list[Row]) -> Picture:
    busiest = max(rows, key=lambda row: row["most_load"])
    alt = (
        f"Load of {len(rows)} masters. The busiest is {drawing.text(busiest['iad'])}: "
        f"{busiest['most_load']:.2f} of {busiest['cores']} cores in its busiest minute."
    )

    def paint(_figure: Any, axes: Any) -> None:
        axis = axes[0][0]
        for y, row in enumerate(rows):
            axis.barh(y, row["most_load"], 0.68, color=drawing.SKY)
            axis.barh(y, row["load"], 0.68, color=drawing.BLUE)
            axis.plot(row["cores"], y, "|", color=drawing.RED, markersize=16, mew=2.5)
        axis.set_yticks(range(len(rows)), [drawing.text(row["iad"]) for row in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(left=0)
        axis.set_xlabel("cores kept busy by processors")
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)

    return drawing.draw("placement", 80 + 26 * len(rows), alt, paint)
