"""The experiment's figure: brokers against what misses τ, and accuracy by the number of topics."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from fleet.simulation.pictures import COLOURS, pyplot, save
from lab.placement.topics import Found


def draw(found: Found, path: Path) -> None:
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
    marks = {"FFD": "o", "LFS3+FFD": "s", "LFS": "^", "exact": "*"}
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
            color=COLOURS[names.index(name)],
        )
    for number, name in enumerate(names):
        axes.plot([], [], "o", color=COLOURS[number], label=name)
    for planner, mark in marks.items():
        axes.plot([], [], mark, color="grey", label=planner)
    axes.set_xlabel(f"brokers for {most} topics")
    axes.set_ylabel("topics over τ, %")
    axes.set_title(f"Packings, {kind} publishers")
    axes.legend(fontsize=7)
