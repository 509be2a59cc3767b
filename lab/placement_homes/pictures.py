"""Picture of the sweeps: delay and storage of every method, as the paper's Fig. 14 to 16."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fleet.simulation.pictures import COLOURS, pyplot, save
from fleet.simulation.statistics import interval
from lab.placement_homes.sweeps import CENTROID, FREE, LEAST_USED, NEAREST, OURS, RELOC, Row

SALT: Final = "placement-homes"
DRAWN: Final = (NEAREST, CENTROID, LEAST_USED, RELOC, OURS, FREE)  # random is off the scale
AXES: Final = {"σ": "sigma_km", "spool": "spool_factor", "clusters": "clusters"}
LABELS: Final = {"σ": "σ, km", "spool": "spool size", "clusters": "n_c"}


def draw(rows: Sequence[Row], path: Path) -> None:
    """A column for each sweep and kind of topics; delays above, storage below."""
    columns = [
        (name, topics)
        for name in AXES
        for topics in ("disjoint", "overlapping")
        if any(row.sweep == name and row.topics == topics for row in rows)
    ]
    figure, grid = pyplot(SALT).subplots(
        2, len(columns), sharex="col", squeeze=False, figsize=(2.7 * len(columns), 5.4)
    )
    for axes, (name, topics) in zip(grid.T, columns, strict=True):
        of = [row for row in rows if row.sweep == name and row.topics == topics]
        if name == "clusters":  # One σ is enough to see.
            of = [row for row in of if row.sigma_km == min(each.sigma_km for each in of)]
        _draw_column(axes, of, name)
        axes[0].set_title(topics)
        axes[1].set_xlabel(LABELS[name])
    grid[0, 0].set_ylabel("delay of a delivery, ms")
    grid[1, 0].set_ylabel("storage, messages")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))
    figure.suptitle("Homes by method; means over seeds, 95 % shaded", x=0.01, ha="left")
    save(figure, path, bottom=0.07)


def _draw_column(axes: Any, rows: Sequence[Row], name: str) -> None:
    for colour, method in zip(COLOURS, DRAWN, strict=True):
        for axis, key in zip(axes, ("delay", "storage"), strict=True):
            values: dict[float, list[float]] = defaultdict(list)
            for row in rows:
                if row.method == method:
                    values[getattr(row, AXES[name])].append(getattr(row, key))
            at = sorted(values)
            found = [interval(values[x]) for x in at]
            means = [each.mean for each in found]
            half = [each.half_width or 0.0 for each in found]
            axis.plot(
                at, means, color=colour, linewidth=1.2, marker="o", markersize=2, label=method
            )
            low = [m - h for m, h in zip(means, half, strict=True)]
            high = [m + h for m, h in zip(means, half, strict=True)]
            axis.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
    for axis in axes:
        axis.set_ylim(bottom=0)
        if name == "clusters":
            axis.set_xscale("log", base=2)
