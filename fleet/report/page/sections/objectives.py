"""Section: SLO attainment by class and policy, beside the clients' own measurements."""

from __future__ import annotations

from typing import Any, Final

from fleet.report.page import drawing, markup
from fleet.report.page.markup import Picture, Row, Section, nothing, render
from fleet.report.page.shown import Shown
from fleet.simulation.workload import WARM_UP

MAX_ROWS: Final = 24
DRAWN: Final = 16
FEW: Final = 8
TITLE: Final = "Who kept the SLO"


def section(shown: Shown) -> Section:
    """SLO attainment and response times of each class under each policy."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

    whole = shown.frame("attainment")
    # A warm-up is not load that anybody asked for.
    top = shown.top(
        whole.where(F.col("class") != WARM_UP), (F.desc("queries"), "class", "policy"), MAX_ROWS
    )
    if not top.rows:
        return Section("objectives", TITLE, nothing("There were no queries in this time."))
    rows = sorted(top.rows, key=_order)
    drawn = sorted((row for row in top.rows[:DRAWN] if row["attainment"] is not None), key=_order)
    picture = _picture(drawn)
    body = render(
        "objectives.html",
        picture=picture,
        rows=[{**row, "is_bad": _is_missed(row)} for row in rows],
        more=top.more,
        has_warm_up=not whole.where(F.col("class") == WARM_UP).isEmpty(),
        clients=shown.top("client", ("policy", "kind"), 2 * MAX_ROWS).rows,
    )
    return Section("objectives", TITLE, body, (picture,))


def _is_missed(row: Row) -> bool:
    """Whether fewer queries met the SLO than its percentile requires, beyond chance."""
    high = row["attainment_high"]
    return high is not None and 100 * high < row["percentile"]


def _picture(rows: list[Row]) -> Picture:
    missed = [row for row in rows if _is_missed(row)]
    has_services = len({row["service"] for row in rows}) > 1
    alt = (
        "99th percentile of the response time against the SLO, and SLO attainment, of "
        f"{len(rows)} classes; "
        + (
            f"{len(missed)} kept it less often than asked: "
            + ", ".join(
                f"{drawing.text(r['class'])} ({markup.kept(r['attainment'])})" for r in missed[:4]
            )
            if missed
            else "none missed it beyond chance"
        )
        + "."
    )

    def paint(_figure: Any, axes: Any) -> None:
        from matplotlib.ticker import LogLocator, NullLocator

        times, kept = axes[0]
        for y, row in enumerate(rows):
            colour = drawing.colour_of(row["policy"])
            _time(times, y, row, colour)
            _kept(kept, y, row, colour)
        times.set_yticks(range(len(rows)), [_name(row, has_services=has_services) for row in rows])
        times.set_ylim(len(rows) - 0.4, -0.6)
        times.set_xscale("log")
        times.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=7))
        times.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        times.xaxis.set_minor_locator(NullLocator())
        times.set_xlabel("p99 of the response time, ms")
        times.set_title("Response time")
        kept.set_xlim(0, 100)
        kept.set_xlabel("within the SLO, %")
        kept.set_title("SLO attainment")
        for axis in (times, kept):
            axis.grid(visible=False, axis="y")
            axis.tick_params(axis="y", length=0)

    height = 110 + (34 if len(rows) <= FEW else 27) * len(rows)
    return drawing.draw("slo", height, alt, paint, columns=2, sharey=True, width_ratios=(3, 2))


def _order(row: Row) -> tuple[float, str, str, str]:
    """Policies of one class side by side: a replay's labels begin with them."""
    name = row["class"].removeprefix(f"{row['policy']} ")
    return row["slo_ms"], name, row["service"], row["policy"]


def _name(row: Row, *, has_services: bool) -> str:
    """The class; its service if there are several; its policy if the class does not imply it."""
    words = [drawing.text(row["class"], 22)]
    if has_services and row["service"] not in row["class"].split():
        words.append(drawing.text(row["service"], 12))
    if row["policy"] not in row["class"].split():
        words.append(drawing.text(row["policy"], 10))
    return " · ".join(words)


def _time(axis: Any, y: int, row: Row, colour: str) -> None:
    axis.plot([row["slo_ms"]] * 2, [y - 0.36, y + 0.36], color=drawing.INK, linewidth=2.2)
    value = row["p99_ms"]
    if value is None or value <= 0:
        return
    low, high = row["p99_low_ms"] or value, row["p99_high_ms"]
    axis.plot([low, high or value], [y, y], color=colour, linewidth=3, alpha=0.45)
    axis.plot([value], [y], "o", color=colour, markersize=8)
    if high is None:
        axis.annotate(
            "", (value * 1.35, y), (value, y), arrowprops={"arrowstyle": "->", "color": colour}
        )


def _kept(axis: Any, y: int, row: Row, colour: str) -> None:
    if row["attainment"] is None:
        return
    value = 100 * row["attainment"]
    axis.barh(y, value, height=0.55, color=colour, alpha=0.85)
    low, high = 100 * row["attainment_low"], 100 * row["attainment_high"]
    axis.plot([low, high], [y, y], color=drawing.INK, linewidth=1.5)
    axis.plot([row["percentile"]] * 2, [y - 0.36, y + 0.36], color=drawing.INK, linewidth=2.2)
    is_wide = value > 30
    axis.text(
        2 if is_wide else value + 4, y, markup.kept(row["attainment"]),
        va="center", color="white" if is_wide else drawing.INK, fontsize=9.5, fontweight="bold",
    )  # fmt: skip
