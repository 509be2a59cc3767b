"""The pictures of the experiments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import isfinite, log
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from fleet.simulation.pictures import COLOURS, pyplot, save
from fleet.simulation.statistics import interval
from lab.placement.clones.experiments import METHODS as CLONE_METHODS
from lab.placement.clones.experiments import Results
from lab.placement.clones.experiments import Row as CloneRow
from lab.placement.clones.tables import RULES
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


def clones(found: Results, path: Path) -> None:
    """Rounds of both rules, costs of all methods, what old facts do, and many clones."""
    figure, axes = pyplot("placement-clones").subplots(2, 2, figsize=(10, 7.5))
    compared = [row for row in found.rows if row.experiment == "compare" and row.scaled]
    _clone_rounds(axes[0][0], compared)
    _clone_costs(axes[0][1], compared)
    _clone_faults(axes[1][0], [row for row in found.rows if row.experiment == "faults"])
    _many_clones(axes[1][1], [row for row in found.rows if row.experiment.startswith("many")])
    save(figure, path)


def _clone_rounds(axes: Any, rows: Sequence[CloneRow]) -> None:
    for colour, rule in zip(COLOURS, RULES, strict=False):
        for line, utilisation in zip("-:", (0.5, 0.7), strict=True):
            mine = [
                row
                for row in rows
                if row.method == rule and abs(row.utilisation - utilisation) < 1e-6
            ]
            label = f"{rule}, {utilisation:g}"
            _means(axes, mine, "clones", "rounds", color=colour, ls=line, label=label)
    axes.set_yscale("log")
    axes.set_xlabel("clones at 37 clouds")
    axes.set_ylabel("rounds (500: not settled)")
    axes.set_title("Rounds until nobody wants to move")
    axes.legend(fontsize=7)


def _clone_costs(axes: Any, rows: Sequence[CloneRow]) -> None:
    known = [row for row in rows if isfinite(row.ratio)]
    for colour, method in zip((*COLOURS, "black"), CLONE_METHODS, strict=False):
        mine = [row for row in known if row.method == method and row.utilisation < 0.6]
        _means(axes, mine, "clones", "ratio", color=colour, label=method)
    axes.axhline(1.0, color="grey", lw=0.5)
    axes.set_ylim(0.95, 1.35)  # A cloud that is nearly full is off the scale.
    axes.set_xlabel("clones at 37 clouds, utilisation .5")
    axes.set_ylabel("cost over annealing")
    axes.set_title("Social cost")
    axes.legend(fontsize=7)


def _clone_faults(axes: Any, rows: Sequence[CloneRow]) -> None:
    for colour, rule in zip(COLOURS, RULES[:2], strict=False):
        for line, lost in zip("-:", (0.0, 0.5), strict=True):
            mine = [row for row in rows if row.method == rule and row.lost == lost]
            label = f"{rule}, {lost:.0%} lost"
            _means(axes, mine, "age", "moves", color=colour, ls=line, label=label)
    axes.set_yscale("log")
    axes.set_xlabel("age of facts, rounds")
    axes.set_ylabel("moves a clone")
    axes.set_title("Old facts and lost messages")
    axes.legend(fontsize=7)


def _many_clones(axes: Any, rows: Sequence[CloneRow]) -> None:
    for colour, name in zip(COLOURS, dict.fromkeys(row.experiment for row in rows), strict=False):
        mine = [row for row in rows if row.experiment == name]
        label = f"moves of a master: {name.removeprefix('many, ')}"
        _means(axes, mine, "clones", "rounds", color=colour, label=label)
    sizes = sorted({row.clones for row in rows})
    if sizes:
        squared = [log(n) ** 2 for n in sizes]
        axes.plot(sizes, squared, color="grey", lw=0.8, ls="--", label="log² n")
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel("clones at 100 masters")
    axes.set_ylabel("rounds")
    axes.set_title("Arrivals by price, then drift")
    axes.legend(fontsize=7)


def _means(axes: Any, rows: Sequence[CloneRow], across: str, up: str, **how: Any) -> None:
    """A line of means with 95 % intervals."""
    values: dict[float, list[float]] = defaultdict(list)
    for row in rows:
        values[getattr(row, across)].append(float(getattr(row, up)))
    if not values:
        return
    at = sorted(values)
    found = [interval(values[x]) for x in at]
    means = [each.mean for each in found]
    half = [min(each.half_width or 0.0, 0.9 * each.mean) for each in found]
    axes.errorbar(at, means, yerr=half, marker="o", ms=3, lw=1, capsize=2, **how)
