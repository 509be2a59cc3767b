"""Output of the load-step experiment: every second as CSV, a picture, and a page."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from agent.wire.master_config import MasterAutoscale
from fleet.simulation.pictures import COLOURS, pyplot, save
from lab.load_steps.load import PROFILE, SLO_MS, Step, StepsRun
from lab.load_steps.measures import Second, StepResult, by_second, by_step
from lab.provenance import Provenance

COLUMNS: Final = {"real": "Real processes", "virtual": "Virtual time"}
NAME: Final = "autoscaling"


class Experiment(Struct, frozen=True):
    """The parameters and results of the experiment."""

    rates_per_s: tuple[float, ...]
    seconds: float
    nodes: int
    seed: int
    origin: Provenance
    rules: MasterAutoscale
    steps: tuple[Step, ...]
    real: StepsRun
    virtual: StepsRun

    @property
    def runs(self) -> dict[str, StepsRun]:
        """Both runs by name."""
        return {"real": self.real, "virtual": self.virtual}


def write(experiment: Experiment, folder: Path) -> list[Path]:
    """Write data, picture and page into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    window_s = experiment.rules.window_s
    seconds = {
        name: by_second(run, experiment.steps, window_s) for name, run in experiment.runs.items()
    }
    steps = {
        name: by_step(run, experiment.steps, window_s) for name, run in experiment.runs.items()
    }
    data, picture, page = (folder / f"{NAME}.{end}" for end in ("csv", "svg", "md"))
    with data.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", *Second.__struct_fields__])
        for name, rows in seconds.items():
            writer.writerows([name, *map(_cell, asdict(row).values())] for row in rows)
    draw(experiment, seconds, picture)
    page.write_text(page_of(experiment, steps), encoding="utf-8")
    return [data, picture, page]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else value


# --- the picture ----------------------------------------------------------------------------------


def draw(experiment: Experiment, seconds: dict[str, list[Second]], path: Path) -> None:
    """Load, pods and violations over time: the real run on the left, virtual time on the right."""
    figure, grid = pyplot(NAME).subplots(
        3, 2, sharex=True, sharey="row", figsize=(11, 6.6), height_ratios=(1, 1, 1.5)
    )
    for column, (name, rows) in enumerate(seconds.items()):
        _draw_run(experiment, rows, grid[:, column])
        grid[0, column].set_title(f"{COLUMNS[name]}, seed {experiment.seed}", loc="left")
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
    grid[1, 0].legend(loc="upper left", frameon=False)
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
        axis.spines[["top", "right"]].set_visible(False)
        for edge_s in edges_s[1:-1]:
            axis.axvline(edge_s, color="#999999", linewidth=0.6, linestyle=":")


# --- the page -------------------------------------------------------------------------------------


PAGE: Final = """\
# Auto-scaling on load steps

Written by `fleet lab autoscale`; what the auto-scaler does and why is in
[autoscaling.md](../understand/autoscaling.md).

![Load, pods and deadline violations over time]({name}.svg)

One IAD with {nodes} edge nodes that emulate the profile `{profile}`: a mean service time of 93 ms.
Every query asks all of them for readings under p99 ≤ {slo_ms:g} ms; {rates} queries/s,
{seconds:g} s each, Poisson arrivals. Rules: window {rules.window_s:g} s, threshold
{rules.above_percent:g} %, hysteresis {rules.hysteresis:g}, cool-down {rules.cool_down_s:g} s.

{origin}

## Real processes

{real}

A service time is waited for, so several pods of a node run at once on any number of processors.

## Virtual time (no measurement)

{virtual}

The same arrivals and service times, the same task scheduler and auto-scaler; see
[decision 4](../decisions/0004-virtual-time.md).

*Settled* is one window after the step's last change of pods, or after its start if there was none.
*SLO kept* counts all queries asked in the step, those before the change included. A node that keeps
a pod more than another of the same load waits for a clearer sign ("Patience" in autoscaling.md).
The real run shares its machine with whatever else runs there: see the load average.
"""
HEADINGS: Final = (
    "queries/s",
    "node",
    "pods",
    "changes",
    "reversals",
    "last change after",
    "violations until settled",
    "violations after",
    "SLO kept",
)


def page_of(experiment: Experiment, steps: dict[str, list[StepResult]]) -> str:
    """The page as Markdown."""
    return PAGE.format(
        name=NAME,
        nodes=experiment.nodes,
        profile=PROFILE,
        slo_ms=SLO_MS,
        rates=" → ".join(f"{rate:g}" for rate in experiment.rates_per_s),
        seconds=experiment.seconds,
        rules=experiment.rules,
        origin=experiment.origin.table(
            data=f"[{NAME}.csv]({NAME}.csv): a row per second and node; percentages of the last "
            "window"
        ),
        real=_table(steps["real"]),
        virtual=_table(steps["virtual"]),
    )


def _table(rows: Sequence[StepResult]) -> str:
    lines = [HEADINGS, ("---",) * len(HEADINGS)]
    for row in rows:
        after = "–" if row.last_change_s is None else f"{row.last_change_s:.1f} s"
        cells = (
            f"{row.rate_per_s:g}",
            row.node,
            f"{row.pods_before} → {row.pods_after}",
            str(row.changes),
            str(row.reversals),
            after,
            _percent(row.missed_until_settled_percent),
            _percent(row.missed_after_percent),
            _percent(row.slo_percent),
        )
        lines.append(cells)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"
