"""Section: temperature and humidity of rooms, by hour and by day."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import Column as ColumnExpression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from agent.wire.units import usual_sign
from fleet.report.page import drawing, maps
from fleet.report.page.markup import (
    LONGEST,
    Picture,
    Row,
    Section,
    digits,
    nothing,
    plain,
    render,
    whole,
)
from fleet.report.page.shown import ROWS, Shown, Top, grid
from sensors.quality.limits import quantity_of

TITLE: Final = "Climate"
CHANNELS: Final = 3
DAYS: Final = 28
# Fewer columns than that make no map.
MAP: Final = 4
# Segments that an area can have.
DEEPEST: Final = 16
PALETTES: Final = {"temperature": "inferno", "humidity": "viridis"}


def section(shown: Shown) -> Section:
    """A heat map of each of the most common channels, and the newest days."""
    hours = shown.frame("climate_hours").withColumn("good", F.col("readings") - F.col("bad"))
    channels = shown.top(
        hours.groupBy("channel").agg(F.sum("readings").alias("readings")),
        (F.desc("readings"), F.desc("channel")),
        CHANNELS,
    )
    if not channels.rows:
        return Section("climate", TITLE, nothing("There are no readings of this time."))
    drawn = []
    for n, row in enumerate(channels.rows):
        one = hours.where((F.col("channel") == row["channel"]) & (F.col("good") > 0))
        found = _drawn(shown, one, row["channel"], n)
        if found is not None:
            drawn.append(found)
    days = _days(shown)
    body = render(
        "climate.html",
        drawn=drawn,
        channels_left_out=channels.more,
        days=[{**row, "named": _with_unit(row["channel"], LONGEST)} for row in days.rows],
        days_left_out=days.more,
    )
    return Section("climate", TITLE, body, tuple(picture for picture, _ in drawn))


def _mean() -> ColumnExpression:
    """The mean over several hours or days, weighted by their good values."""
    return F.try_divide(F.sum(F.col("mean") * F.col("good")), F.sum("good"))


def unit_of(channel: str) -> str:
    """The unit of a channel, by its quantity; empty if unknown."""
    return usual_sign(quantity_of(channel))


def _with_unit(channel: str, longest: int) -> str:
    return f"{plain(channel, longest)}, {unit_of(channel)}".rstrip(", ")


def _drawn(shown: Shown, hours: DataFrame, channel: str, n: int) -> tuple[Picture, str] | None:
    """The picture of a channel, and its caption."""
    unit = _with_unit(channel, 24)
    named, level = _named(hours)
    top = shown.top(
        named.groupBy("name").agg(
            _mean().alias("mean"), F.min("minimum").alias("low"), F.max("maximum").alias("high")
        ),
        ("name",),
        ROWS,
    )
    found = grid(named, [row["name"] for row in top.rows], _mean(), top.more)
    if found is None:
        return None
    warmest = max(top.rows, key=lambda row: row["mean"])
    lowest = min(top.rows, key=lambda row: row["mean"])
    alt = (
        f"{plain(channel, 24)} of {len(top.rows)} {level}; means from {digits(lowest['mean'])} in "
        f"{drawing.text(lowest['name'])} to {digits(warmest['mean'])} in "
        f"{drawing.text(warmest['name'])}."
    )
    name = f"climate-{n + 1}"
    if len(found.times) >= MAP:
        palette = PALETTES.get(quantity_of(channel), "cividis")
        picture = maps.heat_map(name, found, unit, alt, palette=palette)
        caption = f"Mean {plain(channel, 24)} of {level}; grey where there is no good value."
    else:
        picture = _ranges(name, top.rows, unit, alt)
        caption = f"Mean {plain(channel, 24)} of {level}, between the lowest and the highest value."
    more = f" {whole(found.more)} more are in climate_hours.csv." if found.more else ""
    return picture, caption + more


def _named(hours: DataFrame) -> tuple[DataFrame, str]:
    """The hours with a `name` for their row: the area, or a parent of it if there are too many."""
    above = {depth: F.substring_index("area", "/", depth) for depth in range(1, DEEPEST + 1)}
    counts: Any = hours.agg(
        *[F.count_distinct(name).alias(str(depth)) for depth, name in above.items()]
    ).collect()[0]
    deepest = next(d for d in above if d == DEEPEST or counts[str(d)] == counts[str(DEEPEST)])
    fits = [depth for depth in above if depth <= deepest and counts[str(depth)] <= ROWS]
    depth = max(fits, default=deepest)
    level = "areas" if depth == deepest else f"areas above, {depth} deep"
    return hours.withColumn("name", above[depth]), level


def _ranges(name: str, rows: list[Row], unit: str, alt: str) -> Picture:
    def paint(_figure: Any, axes: Any) -> None:
        axis = axes[0][0]
        for y, row in enumerate(rows):
            axis.plot([row["low"], row["high"]], [y, y], color=drawing.SKY, linewidth=4)
        axis.plot([row["mean"] for row in rows], range(len(rows)), "o", color=drawing.BLUE)
        axis.set_yticks(range(len(rows)), [drawing.text(row["name"]) for row in rows])
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlabel(unit)

    return drawing.draw(name, 80 + 19 * len(rows), alt, paint)


def _days(shown: Shown) -> Top:
    """The newest days of all areas together."""
    days = shown.frame("climate_days").withColumn("good", F.col("readings") - F.col("bad"))
    return shown.top(
        days.groupBy("day", "channel").agg(
            F.count_distinct("iad", "area").alias("areas"),
            F.sum("readings").alias("readings"),
            F.sum("bad").alias("bad"),
            F.min("minimum").alias("minimum"),
            _mean().alias("mean"),
            F.max("maximum").alias("maximum"),
        ),
        (F.desc("day"), "channel"),
        DAYS,
    )
