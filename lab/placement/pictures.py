"""The pictures of both experiments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from fleet.simulation.pictures import COLOURS, pyplot, save
from fleet.simulation.statistics import interval
from lab.placement.homes.sweeps import CENTROID, FREE, LEAST_USED, NEAREST, OURS, RELOC, Row
from lab.placement.topics.campaign import Found
from lab.placement.topics.packed import PLANNERS

# Random is off the scale.
DRAWN: Final = (NEAREST, CENTROID, LEAST_USED, RELOC, OURS, FREE)
AXES: Final = {"σ": "sigma_km", "spool": "spool_factor", "clusters": "clusters"}
LABELS: Final = {"σ": "σ, km", "spool": "spool size", "clusters": "n_c"}


def topics(found: Found, path: Path) -> None:
    """A column of two panels for each kind of publishers."""
    figure, axes = pyplot("placement-topics").subplots(
        2, len(found.packings), figsize=(10, 7.5), squeeze=False
    )
    for column, kind in enumerate(found.packings):
        _accuracy(axes[0][column], found, kind)
        _brokers(axes[1][column], found, kind)
    save(figure, path)


def _accuracy(axes: Any, found: Found, kind: str) -> None:
    scores = found.scores[kind]
    for number, model in enumerate(dict.fromkeys(score.model for score in scores)):
        mine = [score for score in scores if score.model == model]
        runs = f", {mine[-1].runs} runs" if mine[-1].runs else ""
        axes.errorbar(
            [score.topics + 0.06 * (number - 2) for score in mine],
            [score.r2 for score in mine],
            yerr=[
                [max(score.r2 - score.low, 0.0) for score in mine],
                [max(score.high - score.r2, 0.0) for score in mine],
            ],
            fmt="o-",
            ms=3,
            lw=1,
            capsize=2,
            color=COLOURS[number],
            label=model + runs,
        )
    axes.set_ylim(0.4, 1.02)
    axes.set_xlabel("topics on the broker")
    axes.set_ylabel("R² of log 90th percentile")
    axes.set_title(f"Accuracy, {kind} publishers")
    axes.legend(fontsize=7)


def _brokers(axes: Any, found: Found, kind: str) -> None:
    packings = [*found.packings[kind], *found.queues[kind]]
    most = max(each.topics for each in packings)
    names = list(dict.fromkeys(each.feasibility for each in packings))
    colours = dict(zip(names, (*COLOURS, "black"), strict=False))
    marks = dict(zip((*PLANNERS, "exact"), "oDs^P*", strict=True))
    for name, planner in dict.fromkeys((each.feasibility, each.planner) for each in packings):
        mine = [
            each
            for each in packings
            if (each.feasibility, each.planner, each.topics) == (name, planner, most)
        ]
        axes.plot(
            fmean(each.brokers for each in mine),
            100 * fmean(each.topics_over for each in mine),
            marks[planner],
            ms=6,
            color=colours[name],
        )
    for name, colour in colours.items():
        axes.plot([], [], "o", color=colour, label=name)
    for planner, mark in marks.items():
        axes.plot([], [], mark, color="grey", label=planner)
    axes.set_xlabel(f"brokers for {most} topics")
    axes.set_ylabel("topics over τ, %")
    axes.set_title(f"Packings, {kind} publishers")
    axes.legend(fontsize=7)


def homes(rows: Sequence[Row], path: Path) -> None:
    """A column for each sweep and kind of topics; delays above, storage below."""
    columns = [
        (name, topics)
        for name in AXES
        for topics in ("disjoint", "overlapping")
        if any(row.sweep == name and row.topics == topics for row in rows)
    ]
    figure, grid = pyplot("placement-homes").subplots(
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
