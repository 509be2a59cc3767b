"""`fleet lab …`: experiments. What a command does is imported when it runs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from fleet import exits
from fleet.parameters import SEED, results_folder, run_directory


@click.group()
def lab() -> None:
    """Experiments with fleets of processes on this machine."""


def without(*libraries: str) -> int | None:
    """The exit status, after one line, if a library is not there: said before the run, not at the
    picture at its end."""
    for library in libraries:
        if find_spec(library) is None:
            how = "in a checkout, run .venv/bin/pip install -e '.[lab]' (make test has it too)"
            return exits.fail(f"{library} is missing; {how}", exits.USAGE)
    return None


@lab.command()
@click.option(
    "--rate",
    "rates_per_s",
    type=click.FloatRange(0, 200, min_open=True),
    multiple=True,
    default=(4.0, 12.0, 24.0, 8.0, 4.0),
    show_default=True,
    help="Queries per second of a step; give it again for each step.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, 3_600),
    default=42,
    show_default=True,
    help="Length of each step.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 8),
    default=2,
    show_default=True,
    help="Edge nodes; every query asks all of them.",
)
@SEED
@run_directory("var/autoscale")
@results_folder("autoscaling.csv, .svg and .md go")
def autoscale(
    rates_per_s: tuple[float, ...],
    seconds: int,
    nodes: int,
    seed: int,
    directory: Path,
    results: Path | None,
) -> int:
    """Let the load step up and down, and show what the auto-scaler makes of it.

    Needs matplotlib. Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    if (status := without("matplotlib")) is not None:
        return status
    from fleet.lab import autoscale as command

    return command.run(
        command.Options(directory, results or directory, float(seconds), rates_per_s, nodes, seed)
    )


@lab.command()
@click.option(
    "--unit",
    "unit_s",
    type=click.FloatRange(0.5, 600),
    default=6.0,
    show_default=True,
    help="Seconds; each process is down for two, and the run takes twelve.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=click.FloatRange(0, 100, min_open=True),
    default=8.0,
    show_default=True,
    help="Queries per second.",
)
@SEED
@run_directory("var/faults")
@results_folder("failures.md goes")
def faults(
    unit_s: float, rate_per_s: float, seed: int, directory: Path, results: Path | None
) -> int:
    """Kill an edge node, a master and the registration service under load; say who noticed what.

    Exit status: 0 all as expected, 1 not, 2 wrong usage, 130 interrupted.
    """
    from fleet.lab import fault_results, fault_run

    options = fault_run.Options(directory, unit_s, rate_per_s, seed)
    return fault_results.run(options, results or directory)
