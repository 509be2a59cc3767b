"""Section: topics' processors, their objectives against what they achieved."""

from __future__ import annotations

from typing import Any, Final

from fleet.report.page import drawing
from fleet.report.page.markup import Picture, Row, Section, nothing, render
from fleet.report.page.shown import Shown

MAX_ROWS: Final = 48
DRAWN: Final = 16
# A topic that kept its objective in fewer of its minutes is marked.
KEPT: Final = 0.95
TITLE: Final = "Processing"


def section(shown: Shown) -> Section:
    """A row for each topic at each master, the one that most often missed its objective first."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

    frame = shown.frame("processed")
    missed = (F.col("records") - F.col("kept")).desc()
    top = shown.top(frame, (missed, F.desc("late"), F.desc("load"), "iad", "topic"), MAX_ROWS)
    if not top.rows:
        return Section("processing", TITLE, nothing("No topic had a processor in this time."))
    for row in top.rows:
        row["is_bad"] = row["kept"] < KEPT * row["records"]
    measured = [row for row in top.rows if row["achieved_ms"] is not None][:DRAWN]
    picture = _picture(measured) if measured else None
    body = render("processing.html", picture=picture, top=top)
    return Section("processing", TITLE, body, (picture,) if picture else ())


def _picture(rows: list[Row]) -> Picture:
    worst = max(rows, key=lambda row: row["worst_ms"])
    alt = (
        f"Latency of {len(rows)} topics. The worst minute is that of "
        f"{drawing.text(worst['topic'])}: {worst['worst_ms']:.3g} ms."
    )

    def paint(_figure: Any, axes: Any) -> None:
        axis = axes[0][0]
        for y, row in enumerate(rows):
            axis.plot([row["achieved_ms"], row["worst_ms"]], [y, y], color=drawing.SKY, lw=5)
            axis.plot(row["achieved_ms"], y, "o", color=drawing.BLUE)
            if row["slo_ms"] is not None:
                axis.plot(row["slo_ms"], y, "|", color=drawing.RED, markersize=16, mew=2.5)
        axis.set_xscale("log")
        names = [f"{drawing.text(r['iad'], 20)} · {drawing.text(r['topic'], 24)}" for r in rows]
        axis.set_yticks(range(len(rows)), names)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel("percentile of the objective, ms")
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)

    return drawing.draw("processing", 90 + 26 * len(rows), alt, paint)
