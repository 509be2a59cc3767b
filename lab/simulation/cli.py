"""`fleet lab simulate` and `limits`. A command's implementation is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click
from click.core import ParameterSource

from fleet.cli.options import POLICY, SEED, TEXT, results_folder
from fleet.terminal.installing import require
from lab.options import JOBS, results_in

FLEETS = ("100", "1000", "4000", "12000", "18000")
NODES = click.option(
    "--nodes",
    "fleets",
    type=click.Choice(FLEETS),
    multiple=True,
    help="Edge nodes of the fleet; repeat it for more. By default all.",
)


@click.command(short_help="Find the load that each policy sustains, in simulation.")
@NODES
@click.option(
    "--reading",
    type=click.Choice(("query", "task", "both")),
    default="both",
    show_default=True,
    help="Whether a task's fanout is drawn once a query or for each task.",
)
@click.option(
    "--out-of-range",
    type=click.Choice(("clip", "resample", "both")),
    default="clip",
    show_default=True,
    help="What becomes of a fanout outside its tier.",
)
@click.option(
    "--policy",
    "policies",
    type=POLICY,
    multiple=True,
    help="A policy to simulate; repeat it for more. By default all.",
)
@click.option("--seeds", type=click.IntRange(1, 1_000), help="Traces of each fleet. [default: 10]")
@click.option(
    "--queries",
    type=click.IntRange(1_000, 1_000_000),
    help="Queries of a run. [default: 100000 with up to 1000 nodes, 50000 with 4000, else 30000]",
)
@click.option("--parts", is_flag=True, help="What each part of sanderling brings, too.")
@click.option(
    "--kept", is_flag=True, help="Write down what finished results say, and make no more."
)
@JOBS
@click.option(
    "--spark",
    type=TEXT,
    metavar="URL",
    help="Spark master that computes instead: local[4], spark://host:7077, …; its workers need "
    "this package, and Python, under the same path.",
)
@click.option("--quick", is_flag=True, help="A minute: the small fleets, 3 seeds, 10000 queries.")
@SEED
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("var/simulate"),
    show_default=True,
    help="Where finished results are kept; a run that was cut off goes on from them.",
)
@results_folder("simulation.csv, .svg, _gains.svg and .md go")
def simulate(
    fleets: tuple[str, ...],
    reading: Literal["query", "task", "both"],
    out_of_range: Literal["clip", "resample", "both"],
    policies: tuple[str, ...],
    seeds: int | None,
    queries: int | None,
    parts: bool,
    kept: bool,
    jobs: int,
    spark: str | None,
    quick: bool,
    seed: int,
    directory: Path,
    results: Path | None,
) -> int:
    """Simulate fleets of up to 18,000 nodes, and find the load that each policy sustains.

    Needs numpy, SciPy and matplotlib.
    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    if (
        spark
        and click.get_current_context().get_parameter_source("jobs") is not ParameterSource.DEFAULT
    ):
        raise click.UsageError("--jobs is for this machine's processes: a Spark master has its own")
    require("numpy", "scipy", "matplotlib")
    from lab.simulation import command

    return command.run(
        command.options(
            directory,
            results or directory,
            nodes=tuple(map(int, fleets or (FLEETS[:3] if quick else FLEETS))),
            reading=reading,
            out_of_range=out_of_range,
            policies=policies,
            parts=parts,
            seeds=seeds or (3 if quick else 10),
            queries=queries or (10_000 if quick else None),
            seed=seed,
            jobs=jobs,
            kept=kept,
            spark=spark,
        )
    )


@click.command(short_help="Compare each policy with what any policy could do.")
@NODES
@click.option(
    "--bursts",
    type=click.IntRange(2, 100_000),
    default=200,
    show_default=True,
    help="Small cases whose optimum is found by exact search.",
)
@click.option(
    "--seeds",
    type=click.IntRange(2, 1_000),
    default=3,
    show_default=True,
    help="Traces of each fleet.",
)
@click.option(
    "--queries",
    type=click.IntRange(1_000, 1_000_000),
    help="Queries of a trace. [default: 20000 with 100 nodes, 10000 with 1000, else 5000]",
)
@SEED
@results_in("var/limits", "policy-limits.csv and .md go")
def limits(
    fleets: tuple[str, ...], bursts: int, seeds: int, queries: int | None, seed: int, results: Path
) -> int:
    """Say how far each policy is from what any policy could do.

    The fewest late queries of small bursts, everything known; and a load that no policy passes
    which does not know how long a request takes. One process, some minutes. Needs numpy and SciPy.
    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    require("numpy", "scipy")
    from lab.simulation import limits as command

    nodes = tuple(map(int, fleets or FLEETS))
    return command.run(command.Options(results, nodes, bursts, seeds, seed, queries))


COMMANDS = (simulate, limits)
