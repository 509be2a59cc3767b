"""Figures of `fleet lab simulate`: DSSP's Fig. 10, and gains by the size of the fleet."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any, Final

from fleet.simulation.pictures import COLOURS, pyplot, save
from lab.simulation.contenders import colour, title
from lab.simulation.evaluation import PAPER_GAINS, Evaluation, Variant
from lab.simulation.table_v import CLASSES

# Panels of gains in a row.
COLUMNS: Final = 3
# Upper limit of a panel of Fig. 10, in SLOs: beyond it the exact value no longer matters.
TOP: Final = 1.6
SALT: Final = "simulation"


def draw_latencies(report: Evaluation, path: Path) -> None:
    """p99 of every class against the load, a row per variant and a line per policy."""
    plt = pyplot(SALT)
    drawn = [variant for variant in report.variants if report.curve(variant, report.names[0])]
    variants = drawn or report.variants[:1]
    rows = len(variants)
    figure, grid = plt.subplots(
        rows, len(CLASSES), sharex=True, squeeze=False, figsize=(11, 0.6 + 2.7 * rows)
    )
    for axes, variant in zip(grid, variants, strict=True):
        for k, (axis, kind) in enumerate(zip(axes, CLASSES, strict=True)):
            for name in report.names:
                _draw_curve(axis, report, variant, name, k)
            axis.axhline(kind.slo_s, color="black", linewidth=0.9, linestyle=":")
            axis.set_ylim(0, TOP * kind.slo_s)
            axis.set_title(f"class {k + 1}, SLO {kind.slo_s:g} s")
        axes[0].set_ylabel(f"p99 latency, s\n({variant.name})")
    for axis in grid[-1]:
        axis.set_xlabel("queries per second")
    _legend_below(figure, grid[0, 0])
    size = report.sizes[-1]
    seeds = report.curve_seeds(variants[0])
    what = f"mean over {seeds} seeds, their range shaded" if seeds > 1 else "one seed"
    figure.suptitle(
        f"Latency against load, {size.iads} IADs × {size.nodes_per_iad} nodes ({what})",
        x=0.01,
        ha="left",
    )
    save(figure, path, bottom=0.09 / rows)


def _legend_below(figure: Any, axis: Any) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))


def _draw_curve(axis: Any, report: Evaluation, variant: Variant, name: str, k: int) -> None:
    curve = report.curve(variant, name)
    loads = sorted(curve)
    means = [curve[load][k].mean for load in loads]
    axis.plot(loads, means, color=colour(name), linewidth=1.2, label=title(name))
    low = [curve[load][k].low for load in loads]
    high = [curve[load][k].high for load in loads]
    axis.fill_between(loads, low, high, color=colour(name), alpha=0.2, linewidth=0)


def draw_gains(report: Evaluation, path: Path) -> None:
    """Gains in sustained load of EDFQ over FIFO and SPR, and of the others over EDFQ, by fleet."""
    plt = pyplot(SALT)
    base = "edfq"
    others = [name for name in report.names if name not in (*PAPER_GAINS, base)]
    pairs = [(base, theirs) for theirs in PAPER_GAINS] + [(ours, base) for ours in others]
    rows = math.ceil(len(pairs) / COLUMNS)
    figure, grid = plt.subplots(rows, COLUMNS, squeeze=False, figsize=(3.6 * COLUMNS, 3.1 * rows))
    for axis, pair in itertools.zip_longest(grid.flat, pairs):
        if pair is None:
            axis.set_axis_off()
            continue
        _draw_gain(axis, report, *pair)
        ours, theirs = map(title, pair)
        axis.set_title(f"{ours}{',' if ',' in ours else ''} over {theirs}")
        axis.axhline(0, color="#999999", linewidth=0.6)
    for axes in grid:
        axes[0].set_ylabel("more sustained load, %")
    for axis in grid[-1]:
        axis.set_xlabel("nodes")
    _legend_below(figure, grid[0, 0])
    save(figure, path, bottom=0.1 / rows)


def _draw_gain(axis: Any, report: Evaluation, ours: str, theirs: str) -> None:
    places = range(len(report.sizes))
    for n, variant in enumerate(report.variants):
        shift = 0.08 * (n - (len(report.variants) - 1) / 2)
        shown = [
            (place + shift, gain)
            for place, size in zip(places, report.sizes, strict=True)
            if (gain := report.gain(size, variant, ours, theirs)) is not None
        ]
        axis.errorbar(
            [x for x, _ in shown],
            [gain.mean for _, gain in shown],
            yerr=[gain.half_width or 0.0 for _, gain in shown],
            color=COLOURS[n],
            marker="o",
            markersize=4,
            linewidth=1.2,
            capsize=2,
            label=variant.name,
        )
    if theirs in PAPER_GAINS and ours == "edfq":
        paper = [PAPER_GAINS[theirs][size.nodes] for size in report.sizes]
        axis.plot(places, paper, "k_", markersize=14, markeredgewidth=1.6, label="paper")
    axis.set_xticks(places, [f"{size.nodes:,}" for size in report.sizes])
