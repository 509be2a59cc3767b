"""Section: health of nodes and sensors, worst first."""

from __future__ import annotations

import importlib
from itertools import pairwise
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from fleet.report.jobs.worst import DRAWN, worst_first
from fleet.report.page import drawing
from fleet.report.page.markup import Picture, Row, Section, nothing, render
from fleet.report.page.sections.climate import unit_of
from fleet.report.page.shown import Shown, Top, node_name

MAX_ROWS: Final = 24
# With fewer faulty sensors than this, healthy ones are shown beside them.
FEWEST: Final = 8
ACROSS: Final = 2
TITLE: Final = "Nodes and sensors"


def section(shown: Shown) -> Section:
    """The number of healthy channels, pictures of the worst ones, and all findings."""
    top = shown.top(
        shown.frame("sensor_health").withColumn("name", node_name()), worst_first(), MAX_ROWS
    )
    if not top.rows:
        return Section("health", TITLE, nothing("There are no readings of this time."))
    drawn = _drawn(shown, top)
    bad = sum(row["verdict"] != "ok" for row in top.rows)
    listed = top.rows[: max(bad, FEWEST)]
    body = render(
        "health.html",
        verdicts=_verdicts(shown),
        pictures=drawn,
        rows=[
            {
                **row,
                "area": shown.label(row["area"]),
                "said": _verdict(row),
                "is_bad": row["verdict"] != "ok",
            }
            for row in listed
        ],
        more=top.total - len(listed),
    )
    return Section("health", TITLE, body, tuple(drawn))


def _verdict(row: Row) -> str:
    return drawing.text(row["verdict"].replace("_", " "), 24)


def _verdicts(shown: Shown) -> list[Row]:
    """How many channels there are of each verdict."""
    verdicts = shown.top(
        shown.frame("sensor_health").groupBy("verdict").agg(F.count("*").alias("channels")),
        (F.col("verdict") != "ok", F.desc("channels"), "verdict"),
        MAX_ROWS,
    )
    return [{**row, "verdict": _verdict(row)} for row in verdicts.rows]


def _drawn(shown: Shown, top: Top) -> list[Picture]:
    """Small pictures of the worst channels in one figure; none if all are healthy."""
    bad = [row for row in top.rows if row["verdict"] != "ok"][:DRAWN]
    series: dict[tuple[str, ...], list[Row]] = {}
    for row in shown.top(
        "worst_sensors", ("iad", "node", "sensor", "channel", "time"), 10_000
    ).rows:
        series.setdefault(_key(row), []).append(row)
    bad = [row for row in bad if _key(row) in series]
    if not bad:
        return []
    alt = "Values of the worst channels: " + "; ".join(
        f"{drawing.text(r['name'])} {drawing.text(r['channel'])}, {_verdict(r)}" for r in bad
    )

    def paint(_figure: Any, axes: Any) -> None:
        dates: Any = importlib.import_module("matplotlib.dates")  # it has no types

        cells = [axis for row in axes for axis in row]
        for axis, row in zip(cells, bad, strict=False):
            _series(axis, row, series[_key(row)])
            locator = dates.AutoDateLocator(minticks=2, maxticks=4)
            axis.xaxis.set_major_locator(locator)
            axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        for axis in cells[len(bad) :]:
            axis.set_axis_off()

    rows = -(-len(bad) // ACROSS)
    return [drawing.draw("sensors", 190 * rows, f"{alt}.", paint, rows, ACROSS)]


def _key(row: Row) -> tuple[str, ...]:
    return row["iad"], row["node"], row["sensor"], row["channel"]


def _with_gaps(points: list[Row]) -> list[Row]:
    """The points with an empty one wherever some are missing, so that no line crosses a gap."""
    steps = [b["time"] - a["time"] for a, b in pairwise(points)]
    usual = min(steps, default=None)
    result = points[:1]
    for step, (before, after) in zip(steps, pairwise(points), strict=True):
        if usual is not None and step > 1.5 * usual:
            empty = {**before, "minimum": None, "mean": None, "maximum": None}
            result.append({**empty, "time": before["time"] + usual})
        result.append(after)
    return result


def _series(axis: Any, row: Row, points: list[Row]) -> None:
    points = _with_gaps(points)
    nan = float("nan")
    times = [p["time"] for p in points]
    low, mean, high = (
        [nan if p[k] is None else p[k] for p in points] for k in ("minimum", "mean", "maximum")
    )
    axis.fill_between(times, low, high, color=drawing.SKY, alpha=0.5, linewidth=0)
    axis.plot(times, mean, color=drawing.BLUE, linewidth=1.4)
    axis.set_title(f"{drawing.text(row['name'], 22)}: {_verdict(row)}", fontsize=10)
    unit = unit_of(row["channel"])
    axis.set_ylabel(f"{drawing.text(row['channel'], 14)}" + (f", {unit}" if unit else ""))
