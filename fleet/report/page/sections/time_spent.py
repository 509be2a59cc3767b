"""Section: time breakdown (DSSP Table III)."""

from __future__ import annotations

from typing import Any, Final

from fleet.report.page import drawing
from fleet.report.page.markup import Picture, Row, Section, nothing, render
from fleet.report.page.shown import Shown

MAX_ROWS: Final = 32
DRAWN: Final = 16
TITLE: Final = "Where the time went"
PARTS: Final = (
    ("evaluation_ms", "evaluation", drawing.PINK),
    ("queueing_ms", "queueing", drawing.RED),
    ("communication_ms", "communication", drawing.SKY),
    ("node_wait_ms", "wait at the node", drawing.ORANGE),
    ("execution_ms", "execution", drawing.BLUE),
    ("aggregation_ms", "aggregation", drawing.GREEN),
)


def section(shown: Shown) -> Section:
    """The parts of a task's time, for each IAD and policy."""
    top = shown.top("time_spent", ("iad", "policy"), MAX_ROWS)
    if not top.rows:
        return Section("time", TITLE, nothing("No task was served completely in this time."))
    picture = _picture(top.rows[:DRAWN])
    body = render("time_spent.html", picture=picture, top=top)
    return Section("time", TITLE, body, (picture,))


def way_ms(row: Row) -> float:
    """The parts together."""
    return float(sum(row[key] for key, _, _ in PARTS))


def _picture(rows: list[Row]) -> Picture:
    worst = max(rows, key=lambda row: row["queueing_ms"])
    alt = (
        f"Mean times of {len(rows)} combinations of IAD and policy. The longest queueing is in "
        f"{drawing.text(worst['iad'])} under {drawing.text(worst['policy'])}: "
        f"{worst['queueing_ms']:.0f} of {way_ms(worst):.0f} ms."
    )

    def paint(picture: Any, axes: Any) -> None:
        axis = axes[0][0]
        starts = [0.0] * len(rows)
        for key, name, colour in PARTS:
            widths = [row[key] for row in rows]
            axis.barh(range(len(rows)), widths, 0.68, starts, color=colour, label=name)
            starts = [start + width for start, width in zip(starts, widths, strict=True)]
        longest = max(starts) or 1.0
        for y, (row, end) in enumerate(zip(rows, starts, strict=True)):
            axis.text(end + longest / 100, y, f"{way_ms(row):,.0f}", va="center", fontsize=9.5)
        names = [f"{drawing.text(r['iad'], 20)} · {drawing.text(r['policy'], 10)}" for r in rows]
        axis.set_yticks(range(len(rows)), names)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(0, longest * 1.08)
        axis.set_xlabel("mean, ms")
        axis.grid(visible=False, axis="y")
        axis.tick_params(axis="y", length=0)
        picture.legend(loc="outside upper center", ncols=3)

    return drawing.draw("time", 140 + 30 * len(rows), alt, paint)
