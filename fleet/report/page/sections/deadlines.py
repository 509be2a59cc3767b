"""Section: deadline violations per node and hour, and the auto-scaler's response."""

from __future__ import annotations

from typing import Any, Final

from fleet.report.page import drawing, maps
from fleet.report.page.markup import Picture, Row, Section, nothing, percent, render
from fleet.report.page.shown import ROWS, Shown, grid, node_name

MAX_ROWS: Final = 12
BARS: Final = 24
TITLE: Final = "Deadline violations"


def section(shown: Shown) -> Section:
    """The worst nodes by hour, and the worst hours."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

    frame = shown.frame("node_hours").withColumn("name", node_name())
    order = (F.desc("missed"), F.desc("violations"), F.desc("subtasks"), "name", "hour")
    hours = shown.top(frame, order, MAX_ROWS)
    if not hours.rows:
        return Section("deadlines", TITLE, nothing("No subtask had a deadline in this time."))
    rate = (100 * F.sum("missed") / F.sum("subtasks")).alias("value")
    by_node = frame.groupBy("name").agg(
        F.sum("missed").alias("missed"), F.sum("subtasks").alias("subtasks"), rate
    )
    nodes = shown.top(by_node, (F.desc("missed"), F.desc("subtasks"), "name"), ROWS)
    names = [row["name"] for row in nodes.rows]
    found = grid(frame, names, 100 * F.sum("missed") / F.sum("subtasks"), nodes.more)
    assert found is not None
    if len(found.times) > 1:
        picture = maps.heat_map(
            "deadlines", found, "violations, %", _alt(nodes.rows), palette="YlOrRd", low=0.0
        )
    else:
        picture = _bars(nodes.rows[:BARS])
    body = render(
        "deadlines.html",
        picture=picture,
        nodes_left_out=nodes.total - min(len(nodes.rows), BARS if len(found.times) == 1 else ROWS),
        hours=hours,
    )
    return Section("deadlines", TITLE, body, (picture,))


def _alt(rows: list[Row]) -> str:
    worst = rows[0]
    return (
        f"Deadline violations of {len(rows)} nodes by hour. {drawing.text(worst['name'])} missed "
        f"most deadlines: {worst['missed']:,} of {worst['subtasks']:,} ({percent(worst['value'])})."
    )


def _bars(rows: list[Row]) -> Picture:
    def paint(_figure: Any, axes: Any) -> None:
        axis = axes[0][0]
        axis.barh(range(len(rows)), [row["value"] for row in rows], 0.68, color=drawing.RED)
        longest = max(row["value"] for row in rows) or 1.0
        for y, row in enumerate(rows):
            said = f"{percent(row['value'])} of {row['subtasks']:,}"
            axis.text(row["value"] + longest / 100, y, said, va="center", fontsize=9.5)
        axis.set_yticks(range(len(rows)), [drawing.text(row["name"]) for row in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(0, longest * 1.25)
        axis.set_xlabel("deadline violations, %")
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)

    return drawing.draw("deadlines", 80 + 24 * len(rows), _alt(rows), paint)
