"""Fig. 8: the 99th percentile of each class over the rate, a panel for each policy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from fleet.simulation.pictures import COLOURS, pyplot, save
from fleet.simulation.policies import policy_name
from lab.testbed.analysis import SOURCES, Analysis, Experiment, Found, PolicyRuns
from lab.testbed.measures import CLASSES, SLO_MS, interval, p99_ms

PANELS_A_ROW = 3
HIGHEST_MS = 1_700.0
# Horizontal offsets of the classes' points of one run, so that none hides another's bar.
BESIDE_PER_S = 0.15


def draw(experiment: Experiment, analysis: Analysis, path: Path) -> None:
    """Virtual time as lines, real runs as points with their intervals, SLOs dotted."""
    from matplotlib.ticker import MultipleLocator

    count = len(experiment.policies)
    columns = min(PANELS_A_ROW, count)
    lines = math.ceil(count / columns)
    figure, grid = pyplot(experiment.name).subplots(
        lines,
        columns,
        sharex=True,
        sharey=True,
        squeeze=False,
        figsize=(3.8 * columns + 0.6, 3.4 * lines + 0.6),
    )
    panels = list(grid.flat)
    for axis, each, found in zip(panels, experiment.policies, analysis.found, strict=False):
        _panel(axis, each, found, analysis)
    for axis in panels[count:]:
        axis.set_axis_off()
    for number, axis in enumerate(panels[:count]):
        if number % columns == 0:
            axis.set_ylabel("p99, ms")
        if number + columns >= count:
            axis.set_xlabel("λ, queries/s")
            axis.xaxis.set_tick_params(labelbottom=True)
    panels[0].set_ylim(0, HIGHEST_MS)
    panels[0].xaxis.set_major_locator(MultipleLocator(4))
    handles, names = panels[0].get_legend_handles_labels()
    # In the empty panel, if there is one.
    panels[min(count, len(panels) - 1)].legend(handles, names, loc="upper left", fontsize=8)
    figure.suptitle(
        "p99 by class over the load: virtual time (lines), real processes (points, 95 %), "
        "SLO (dotted)",
        x=0.01,
        ha="left",
        fontsize=10,
    )
    save(figure, path)


def _panel(axis: Any, each: PolicyRuns, found: Found, analysis: Analysis) -> None:
    for number, (colour, kind) in enumerate(zip(COLOURS, CLASSES, strict=False)):
        axis.axhline(SLO_MS[kind], color=colour, linewidth=0.8, linestyle=":")
        curve = [run for run in each.curve if len(run.of_class(kind))]
        axis.plot(
            [run.rate_per_s for run in curve],
            [_drawable(p99_ms(run.of_class(kind))) for run in curve],
            color=colour,
            label=f"class {kind}",
        )
        runs = [pair.real for pair in each.pairs if len(pair.real.of_class(kind))]
        points = [interval(analysis.blocks.p99_ms(run, kind)) for run in runs]
        values = [_drawable(point.value) for point in points]
        axis.errorbar(
            [run.rate_per_s + BESIDE_PER_S * (number - 1) for run in runs],
            values,
            yerr=[
                [max(0.0, v - _drawable(p.low)) for v, p in zip(values, points, strict=True)],
                [max(0.0, _drawable(p.high) - v) for v, p in zip(values, points, strict=True)],
            ],
            color=colour,
            fmt="o",
            markersize=3,
            linewidth=0.8,
        )
    highest = interval(found.sources[SOURCES[2]].overall).value
    title = policy_name(each.policy)
    if math.isfinite(highest):
        axis.axvline(highest, color="black", linewidth=0.8, linestyle=":")
        title += f": {highest:.1f}/s in virtual time"
    axis.set_title(title)


def _drawable(milliseconds: float) -> float:
    """Off the panel, but finite, if queries were not answered."""
    return min(milliseconds, 10 * HIGHEST_MS)
