"""Heat maps, and range plots where there is only one column."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final

from fleet.report.page import drawing
from fleet.report.page.markup import Picture
from fleet.report.page.shown import DAY_S, HOUR_S, Grid

TICKS: Final = 8


def heat_map(
    name: str,
    grid: Grid,
    unit: str,
    alt: str,
    *,
    palette: str = "viridis",
    low: float | None = None,
) -> Picture:
    """A grid of colours; unknown values are grey. The colour bar is labelled `unit`."""

    def paint(picture: Any, axes: Any) -> None:
        axis = axes[0][0]
        values = [[math.nan if v is None else v for v in row] for row in grid.values]
        known = [v for row in values for v in row if not math.isnan(v)]
        bottom, top = low if low is not None else min(known), max(known)
        image = axis.imshow(
            values, aspect="auto", cmap=palette, interpolation="nearest",
            vmin=bottom, vmax=top if top > bottom else bottom + 1,
        )  # fmt: skip
        axis.set_facecolor("#d9dde2")
        axis.grid(visible=False)
        axis.set_yticks(
            range(len(grid.names)), [drawing.text(n) for n in grid.names],
            fontsize=9 if len(grid.names) > 20 else 10,
        )  # fmt: skip
        axis.set_xticks(*ticks(grid))
        axis.set_xlabel(f"UTC; a column is {length(grid.step_s)}")
        picture.colorbar(
            image, ax=axis, label=unit, pad=0.01, fraction=0.04, aspect=1.6 * len(grid.names)
        )

    return drawing.draw(name, 110 + 17 * len(grid.names), alt, paint)


def ticks(grid: Grid) -> tuple[list[float], list[str]]:
    """Positions and labels of a heat map's times: days at their start, otherwise hours."""
    places: list[float] = []
    words: list[str] = []
    every = max(1, math.ceil(len(grid.times) / TICKS))
    if grid.step_s < DAY_S and every * grid.step_s > 6 * HOUR_S:
        days = [n for n, time in enumerate(grid.times) if time.hour == 0]
        chosen = days[:: max(1, math.ceil(len(days) / TICKS))]
    else:
        chosen = list(range(0, len(grid.times), every))
    before: datetime | None = None
    for n in chosen:
        time = grid.times[n]
        is_new_day = before is None or before.date() != time.date()
        day = time.strftime("%d %b") if is_new_day else ""
        hour = (
            ""
            if grid.step_s >= DAY_S or (len(chosen) > 1 and chosen[1] - chosen[0] >= 24)
            else (time.strftime("%H:%M"))
        )
        places.append(n - 0.5 if hour else n)
        words.append("\n".join(word for word in (hour, day) if word))
        before = time
    return places, words


def length(seconds: int) -> str:
    """``1 hour``, ``7 days``."""
    for unit_s, name in ((DAY_S, "day"), (HOUR_S, "hour")):
        if seconds % unit_s == 0:
            count = seconds // unit_s
            return f"{count} {name}{'s' if count > 1 else ''}"
    return f"{seconds} s"
