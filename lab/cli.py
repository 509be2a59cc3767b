"""`fleet lab …`: experiments. A command's implementation is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from fleet.cli.options import POLICY, SEED, Number, results_folder, run_directory
from fleet.terminal.installing import require
from lab.options import JOBS, results_in
from lab.placement import cli as placement
from lab.simulation import cli as simulation


@click.group()
def lab() -> None:
    """Experiments with fleets of processes on this machine."""


for each in (*placement.COMMANDS, *simulation.COMMANDS):
    lab.add_command(each)


@lab.command(short_help="Step the load up and down: what an auto-scaler does.")
@click.option(
    "--rate",
    "rates_per_s",
    type=Number(0, 200, min_open=True),
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
    require("matplotlib")
    from lab.autoscale import run as command

    return command.run(
        command.Options(directory, results or directory, float(seconds), rates_per_s, nodes, seed)
    )


@lab.command(short_help="Kill a node, a master or the registration service.")
@click.option(
    "--unit",
    "unit_s",
    type=Number(0.5, 600),
    default=6.0,
    show_default=True,
    help="Seconds; each process is down for two, and the run takes twelve.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=Number(0, 100, min_open=True),
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
    from lab.faults import results as fault_results
    from lab.faults import run as fault_run

    options = fault_run.Options(directory, unit_s, rate_per_s, seed)
    return fault_results.run(options, results or directory)


@lab.command(short_help="Inject random faults, and check the guarantees.")
@click.option(
    "--histories",
    type=click.IntRange(1, 100_000),
    default=20,
    show_default=True,
    help="Runs, each of a new fleet with faults from a seed of its own.",
)
@click.option(
    "--seconds",
    type=Number(1, 3_600),
    default=8.0,
    show_default=True,
    help="How long faults are injected into each fleet.",
)
@click.option(
    "--check",
    "saved",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Instead, judge this saved history (SEED.jsonl) again.",
)
@SEED
@JOBS
@run_directory("var/chaos")
@results_folder("chaos.md goes")
def chaos(
    histories: int,
    seconds: float,
    saved: Path | None,
    seed: int,
    jobs: int,
    directory: Path,
    results: Path | None,
) -> int:
    """Inject random faults into a fleet's processes, links, disks and clocks, and check what
    clients saw.

    Queries are complete or say what is missing, watches have each round, alerts and a topic's
    outputs come once, one master at a time has the topic, and no more is answered than was agreed.
    One history again: --histories 1 --seed N. Needs gcc.
    Exit status: 0 all as promised, 1 not, 2 wrong usage, 130 interrupted.
    """
    from lab.chaos import command

    if saved is not None:
        return command.check(saved)
    options = command.Options(directory, histories, seconds, seed, jobs)
    return command.run(options, results or directory)


@lab.command(short_help="Run everything for hours: what grows or is lost.")
@click.option(
    "--minutes",
    type=Number(1, 100_000),
    default=120.0,
    show_default=True,
    help="Length of the run.",
)
@click.option(
    "--rate",
    "rate_per_s",
    type=Number(0, 100, min_open=True),
    default=6.0,
    show_default=True,
    help="Queries per second; 4 x 8 nodes sustain some 7.5 of the testbed's.",
)
@click.option("--iads", type=click.IntRange(3, 16), default=4, show_default=True, help="Masters.")
@click.option(
    "--nodes", type=click.IntRange(1, 8), default=8, show_default=True, help="Nodes of each."
)
@click.option(
    "--hosts",
    type=click.IntRange(0, 8),
    default=2,
    show_default=True,
    help="Nodes of one more IAD, whose Debian hosts boot here and are deployed to; 0: none. Only "
    "for root: the run says so, and goes on without them.",
)
@SEED
@run_directory("var/soak")
@results_folder("soak.md goes")
def soak(
    minutes: float,
    rate_per_s: float,
    iads: int,
    nodes: int,
    hosts: int,
    seed: int,
    directory: Path,
    results: Path | None,
) -> int:
    """Run masters, nodes, a gateway and their clients, and judge growth, latencies and losses.

    Readings are kept for a minute and records rotate after 256 KiB, so that files reach their size
    soon. Now and then a node and a master are restarted, hosts get another release by
    `fleet deploy`, keys rotate, and clones move. What a run is too short for is not shown.
    Needs gcc and SciPy. Exit status: 0 nothing failed, 1 something did, 2 wrong usage, 130
    interrupted.
    """
    require("scipy")
    from lab.soak import run as command

    options = command.Options(directory, minutes * 60.0, rate_per_s, iads, nodes, seed, hosts)
    return command.run(options, results or directory)


@lab.command(short_help="Run the overlay of brokers in virtual time (OctopiA).")
@click.option(
    "--experiment",
    "experiments",
    type=click.Choice(("tables", "burst", "scale", "real")),
    multiple=True,
    help="Only this one; repeat it for more. By default all in virtual time: not real.",
)
@click.option(
    "--size",
    type=Number(0.001, 1.0),
    default=0.01,
    show_default=True,
    help="Notifications of a burst, and of everybody else in it, as a share of the paper's.",
)
@click.option(
    "--draws",
    type=click.IntRange(1, 100),
    default=2,
    show_default=True,
    help="How often it is drawn who is where, for a burst.",
)
@JOBS
@click.option("--quick", is_flag=True, help="A look in minutes: the smallest cases.")
@SEED
@results_in("var/overlay", "overlay-tables, -burst, -scale and -real .csv, .svg and .md go")
def overlay(
    experiments: tuple[Literal["tables", "burst", "scale", "real"], ...],
    size: float,
    draws: int,
    jobs: int,
    quick: bool,
    seed: int,
    results: Path,
) -> int:
    """Run the overlay of brokers in virtual time: OctopiA's experiments (Fig. 9 and 11).

    Tables, messages and delays of advertisements and subscriptions, a publisher that bursts, and
    overlays of many shapes; against routing by tree identification. Needs numpy and matplotlib.
    With --experiment real the first two with real masters, in a quarter of an hour; as root with
    links that are short of bandwidth.
    Exit status: 0 done, 1 real masters did something else than they have to, 2 wrong usage, 130
    interrupted.
    """
    require("numpy", "matplotlib")
    from lab.overlay import command

    return command.run(
        command.Options(results, experiments or command.EXPERIMENTS, size, draws, seed, jobs, quick)
    )


@lab.command(short_help="Find the load at which each policy keeps every SLO.")
@click.option(
    "--policy",
    "policies",
    type=POLICY,
    multiple=True,
    help="Only this policy; repeat it for more.",
)
@click.option(
    "--real",
    "real",
    type=POLICY,
    multiple=True,
    help="Only this policy on real processes, the others in virtual time only; repeat it for more.",
)
@click.option(
    "--rate",
    "rates_per_s",
    type=Number(0, 1_000, min_open=True),
    multiple=True,
    help="Queries per second of a real run, for every policy; repeat it for more. By default "
    "around each policy's own highest rate in virtual time.",
)
@click.option(
    "--around",
    "around_percent",
    type=Number(-90, 200),
    multiple=True,
    default=(-8.0, 8.0),
    show_default=True,
    help="Rates of the real runs, in percent off the highest in virtual time.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, 36_000),
    help="Length of each real run; 140 by default, 20 with --quick.",
)
@SEED
@click.option(
    "--virtual",
    "virtual_queries",
    type=click.IntRange(1, 10_000_000),
    help="Queries of each run in virtual time; 240000 by default, 60000 with --quick.",
)
@click.option(
    "--sized", is_flag=True, help="Service times that grow with the length of the request's window."
)
@click.option("--quick", is_flag=True, help="A look in minutes: short runs, one rate a policy.")
@click.option(
    "--calibrate",
    is_flag=True,
    help="Instead, in virtual time: which shape of the service times gives FIFO the paper's rate.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    help="Processes for virtual time; by default one a processor.",
)
@run_directory("var/testbed")
@results_folder("testbed.csv, .svg and .md (with --sized testbed-sized) go")
def testbed(
    policies: tuple[str, ...],
    real: tuple[str, ...],
    rates_per_s: tuple[float, ...],
    around_percent: tuple[float, ...],
    seconds: int | None,
    seed: int,
    virtual_queries: int | None,
    sized: bool,
    quick: bool,
    calibrate: bool,
    processes: int | None,
    directory: Path,
    results: Path | None,
) -> int:
    """Find the highest load at which each policy keeps every SLO, as in DSSP's testbed.

    4 IADs × 8 nodes as real processes, and the same in virtual time: Tables III and IV, Fig. 8.
    Takes about 40 minutes on two processors, 6 with --quick. Needs matplotlib and numpy.
    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    require("numpy", "matplotlib")
    from lab.testbed import options as testbed_options

    return testbed_options.run(
        testbed_options.Asked(
            policies,
            real,
            rates_per_s,
            around_percent,
            seconds,
            seed,
            virtual_queries,
            quick,
            sized,
            processes,
            directory,
            results,
        ),
        calibrate=calibrate,
    )


@lab.command(short_help="Measure how well the checks of readings find faults.")
@click.option(
    "--data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The whole recording (CSV, may be gzip); by default the rooms in the repository.",
)
@click.option(
    "--labels",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Its faults; by default those of the building in the repository.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 1_000),
    default=3,
    show_default=True,
    help="How often each mode of faults is put into each channel of each healthy room.",
)
@click.option(
    "--rooms",
    type=click.IntRange(1, 1_000),
    default=12,
    show_default=True,
    help="Healthy rooms that are also judged at 1 Hz.",
)
@JOBS
@SEED
@results_in("var/quality", "quality.csv, .svg and .md go")
def quality(
    data: Path | None,
    labels: Path | None,
    rounds: int,
    rooms: int,
    jobs: int,
    seed: int,
    results: Path,
) -> int:
    """Measure how well the checks of readings find faults, and how often they raise false alarms.

    On the labelled faults of a real building, on injected ones, and on synthetic ones at 1 Hz.
    Takes about 8 minutes on two processors, 1 with --rounds 1 --rooms 1.
    Needs numpy, SciPy and matplotlib. Exit status: 0 all labelled faults were found and healthy
    rooms had less than one false alarm a week, 1 not so, 2 wrong usage.
    """
    require("numpy", "scipy", "matplotlib")
    from lab.quality import command

    return command.run(command.Options(data, labels, results, rounds, rooms, seed, jobs))
