"""Output of the load-step experiment: every second as CSV, a picture, and the page's tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import asdict

from fleet.terminal.tables import Table
from lab import pages
from lab.autoscale.experiment import COLUMNS, NAME, Experiment
from lab.autoscale.measures import Second, StepResult, by_second, by_step


def write(experiment: Experiment, folder: Path) -> list[Path]:
    """Write data, picture, tables and page into `folder`; the paths of data, picture and page."""
    from lab.autoscale.pictures import draw

    window_s = experiment.rules.window_s
    seconds = {
        name: by_second(run, experiment.steps, window_s) for name, run in experiment.runs.items()
    }
    data = pages.write_csv(
        folder / f"{NAME}.csv",
        ["run", *Second.__struct_fields__],
        (
            [name, *map(_cell, asdict(row).values())]
            for name, rows in seconds.items()
            for row in rows
        ),
    )
    picture = folder / f"{NAME}.svg"
    draw(experiment, seconds, picture)
    tables = {
        name: table_of(COLUMNS[name], by_step(run, experiment.steps, window_s))
        for name, run in experiment.runs.items()
    }
    more = {
        "data": f"[{NAME}.csv]({NAME}.csv): a row per second and node; percentages of the last "
        "window"
    }
    return [data, picture, pages.write(folder, NAME, tables, experiment.origin, more)]


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else value


# --- the tables -----------------------------------------------------------------------------------

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


def table_of(title: str, rows: Sequence[StepResult]) -> Table:
    """A row per step and node."""
    cells = [
        (
            f"{row.rate_per_s:g}",
            row.node,
            f"{row.pods_before} → {row.pods_after}",
            str(row.changes),
            str(row.reversals),
            "–" if row.last_change_s is None else f"{row.last_change_s:.1f} s",
            _percent(row.missed_until_settled_percent),
            _percent(row.missed_after_percent),
            _percent(row.slo_percent),
        )
        for row in rows
    ]
    return Table(title, HEADINGS, cells)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} %"
