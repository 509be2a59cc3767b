"""Picture of the load-step experiment: load, pods and violations over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet.simulation.pictures import COLOURS, pyplot, save
from lab.autoscale.experiment import COLUMNS, NAME, Experiment
from lab.autoscale.measures import Second


def draw(experiment: Experiment, seconds: dict[str, list[Second]], path: Path) -> None:
    """Load, pods and violations over time: the real run on the left, virtual time on the right."""
    figure, grid = pyplot(NAME).subplots(
        3, 2, sharex=True, sharey="row", figsize=(11, 6.6), height_ratios=(1, 1, 1.5)
    )
    for column, (name, rows) in enumerate(seconds.items()):
        _draw_run(experiment, rows, grid[:, column])
        grid[0, column].set_title(f"{COLUMNS[name]}, seed {experiment.seed}")
        grid[2, column].set_xlabel("seconds since the start of the load")
    for axis, label in zip(
        grid[:, 0],
        (
            "queries per second",
            "pods of each node",
            f"deadline violations,\n% of the last {experiment.rules.window_s:g} s",
        ),
        strict=True,
    ):
        axis.set_ylabel(label)
    grid[1, 0].legend(loc="upper left")
    rules = experiment.rules
    figure.suptitle(
        f"Auto-scaling on load steps: pods follow each node's deadline violations "
        f"(window {rules.window_s:g} s, threshold {rules.above_percent:g} %)",
        x=0.01,
        ha="left",
    )
    save(figure, path)


def _draw_run(experiment: Experiment, rows: Sequence[Second], axes: Sequence[Any]) -> None:
    load, pods, missed = axes
    edges_s = [0.0]
    for step in experiment.steps:
        edges_s.append(edges_s[-1] + step.seconds)
    load.stairs(experiment.rates_per_s, edges_s, fill=True, color="#bbbbbb")
    for start_s, step in zip(edges_s, experiment.steps, strict=False):
        load.annotate(
            f"{step.rate_per_s:g}/s",
            (start_s + step.seconds / 2, step.rate_per_s),
            ha="center",
            va="bottom",
        )
    load.set_ylim(0, 1.3 * max(experiment.rates_per_s))
    nodes = sorted({row.node for row in rows})
    for n, node in enumerate(nodes):
        own = [row for row in rows if row.node == node]
        colour = COLOURS[n % len(COLOURS)]
        # Slightly offset, so that equal numbers do not hide each other.
        shift = 0.06 * (n - (len(nodes) - 1) / 2)
        at_s = [row.second for row in own]
        pods.step(at_s, [row.pods + shift for row in own], where="pre", color=colour, label=node)
        percents = [float("nan") if p is None else p for p in (r.missed_percent for r in own)]
        missed.plot(at_s, percents, color=colour)
    pods.set_ylim(0, max(row.pods for row in rows) + 1.4)
    pods.yaxis.get_major_locator().set_params(integer=True)
    above = experiment.rules.above_percent
    missed.axhline(above, color="black", linewidth=0.8, linestyle="--")
    missed.annotate(f"threshold {above:g} %", (edges_s[-1], above + 1), ha="right", va="bottom")
    missed.margins(y=0.1)
    for axis in axes:
        axis.set_xlim(0, edges_s[-1])
        axis.set_xticks(edges_s)
        for edge_s in edges_s[1:-1]:
            axis.axvline(edge_s, color="#999999", linewidth=0.6, linestyle=":")
