"""`fleet lab homes` and `fleet lab placement-…`. A command's implementation is imported when it
runs."""

from __future__ import annotations

from pathlib import Path

import click

from fleet.cli.options import SEED, results_folder, run_directory
from fleet.terminal.installing import require
from lab.options import results_in


@click.command(short_help="Compare homes by RELOC, its peers and ours.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 1_000),
    default=4,
    show_default=True,
    help="Cases drawn at each point.",
)
@results_in("var/placement-homes", "placement-homes.csv, .svg and .md go")
def homes(seeds: int, results: Path) -> int:
    """Compare homes by RELOC, its peers and ours, over locality, spool sizes and clusters.

    Besides: small cases against their optimum, and events against a plan made anew. Takes about
    6 minutes of one processor, or a minute and a half a seed.
    Needs numpy, SciPy and matplotlib. Exit status: 0 done, 2 wrong usage, 130 interrupted.
    """
    require("numpy", "scipy", "matplotlib")
    from lab.placement import command

    return command.homes(results, seeds)


@click.command(short_help="Pack topics onto brokers (k-TCP): models and planners.")
@click.option("--quick", is_flag=True, help="Half a minute: 20 topics, few training runs.")
@SEED
@results_in("var/placement-topics", "placement-topics.csv, .svg and .md go")
def placement_topics(quick: bool, seed: int, results: Path) -> int:
    """Pack topics onto brokers (k-TCP): latency models, planners, and one queue for all.

    On a simulated broker. Takes about 10 minutes.
    Needs numpy, SciPy, scikit-learn, networkx and matplotlib.
    """
    require("numpy", "scipy", "sklearn", "networkx", "matplotlib")
    from lab.placement import command

    return command.topics(results, seed, quick=quick)


@click.command(short_help="Let clones move by themselves: Flock's rule and ours.")
@click.option("--quick", is_flag=True, help="Half a minute: few clones, few games.")
@SEED
@results_in("var/placement-clones", "placement-clones.csv, .svg and .md go")
def placement_clones(quick: bool, seed: int, results: Path) -> int:
    """Let clones move by themselves (Flock): the paper's rule, ours, and those who know all.

    In virtual rounds. Takes about 6 minutes of one processor.
    Needs numpy, SciPy and matplotlib.
    """
    require("numpy", "scipy", "matplotlib")
    from lab.placement import command

    return command.clones(results, seed, quick=quick)


@click.command(short_help="Score latency models on runs of real masters.")
@click.option(
    "--lake",
    "lakes",
    type=click.Path(file_okay=False, path_type=Path),
    multiple=True,
    required=True,
    help="Of a campaign of fleet placement measure; again for another discipline.",
)
@SEED
@results_in("var/placement-real", "placement-real.csv and .md go")
def placement_real(lakes: tuple[Path, ...], seed: int, results: Path) -> int:
    """Score latency models on runs of real masters: one queue, and a worker a topic.

    Needs numpy, SciPy, scikit-learn and PySpark.
    """
    require("numpy", "scipy", "sklearn", "pyspark")
    from lab.placement.real import command

    return command.run(lakes, results, seed)


@click.command(short_help="Find how many topics a real master carries.")
@click.option(
    "--share",
    type=click.FloatRange(0.01, 0.8),
    default=0.06,
    show_default=True,
    help="Of a core, by each topic.",
)
@click.option(
    "--within",
    "within_ms",
    type=click.FloatRange(50.0, 10_000.0),
    default=1_000.0,
    show_default=True,
    help="Objective of each topic's 90th percentile, in ms.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1.0, 3_600.0),
    default=20.0,
    show_default=True,
    help="How long each mix is run.",
)
@SEED
@run_directory("var/placement-capacity")
@results_folder("placement-capacity.csv and .md go")
def placement_capacity(
    share: float,
    within_ms: float,
    seconds: float,
    seed: int,
    directory: Path,
    results: Path | None,
) -> int:
    """Find how many topics a real master carries: with one queue, and with a worker a topic.

    A master and workers run here; topics whose messages take 5 to 40 ms of CPU time are added until
    one misses its objective. Takes about 5 minutes; nothing else should run.

    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    from lab.placement.real import capacity

    setting = capacity.Setting(share, within_ms, seconds)
    return capacity.command(setting, seed, directory, results or directory)


@click.command(short_help="Pack topics onto real masters (k-TCP): planners.")
@click.option("--quick", is_flag=True, help="A quarter of a minute: 8 topics.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.1, 600.0),
    default=11.0,
    show_default=True,
    help="For all runs on the real master.",
)
@click.option(
    "--campaign",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=Path("docs/results/placement-real.csv"),
    show_default=True,
    help="Data of fleet lab placement-real: the model is trained on its runs with one queue, too.",
)
@SEED
@run_directory("var/placement-packed")
@results_folder("placement-packed.csv and .md go")
def placement_packed(
    quick: bool, minutes: float, campaign: Path, seed: int, directory: Path, results: Path | None
) -> int:
    """Pack topics onto masters by each planner, and run every set of the packings on a real master.

    Also in virtual time, with the same arrivals, and on the simulated broker. How many topics and
    messages are late, beside each other. Takes about 12 minutes; nothing else should run.
    Needs numpy, SciPy, scikit-learn and networkx.

    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    require("numpy", "scipy", "sklearn", "networkx")
    from lab.placement.real import packed

    setting, words = packed.Setting(minutes=minutes), f" --minutes {minutes:g}"
    if quick:
        setting, words = packed.QUICK, " --quick"
    return packed.command(setting, words, seed, campaign, directory, results or directory)


@click.command(short_help="Let clones move by themselves between real masters.")
@click.option(
    "--masters", type=click.IntRange(2, 100), default=12, show_default=True, help="Real masters."
)
@click.option(
    "--clones",
    type=click.IntRange(2, 1_000),
    default=100,
    show_default=True,
    help="Clones; their devices are simulated.",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(0.2, 60.0),
    default=5.0,
    show_default=True,
    help="Seconds between two readings of a device.",
)
@SEED
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("var/placement-flock"),
    show_default=True,
    help="Where the masters' files are kept, a folder for each run.",
)
@results_folder("placement-flock.csv and .md go")
def placement_flock(
    masters: int, clones: int, every_s: float, seed: int, directory: Path, results: Path | None
) -> int:
    """Let clones move by themselves (Flock) between real masters that are 5 to 55 ms apart.

    Begins with each clone at its device's master, and ends when none has moved for half a minute.
    Prints and writes rounds, moves, cost beside a central plan, pauses, and what subscribers got.
    Takes some five minutes. Exit status: 0 done, 1 it did not settle, or a master failed.
    """
    from lab.placement.flock import command
    from lab.placement.flock.world import Setting

    setting = Setting(masters=masters, clones=clones, every_s=every_s)
    return command.command(setting, seed, directory, results or directory)


@click.command(short_help="Have topics follow the load between real masters.")
@click.option("--quick", is_flag=True, help="One shift of two topics, in a minute.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("var/placement-loop"),
    show_default=True,
    help="Where the masters' files and the lake are kept, a folder for each run.",
)
@results_folder("placement-loop.csv and .md go")
def placement_loop(quick: bool, directory: Path, results: Path | None) -> int:
    """Have topics follow the load: from masters' logs to models, a plan, moves, and the report.

    People publish and listen on one floor of a building, then on the other, to and fro. Each time
    the job of `fleet placement follow` looks, and has the topics moved. Writes what it said, and
    latencies before and after. Takes some five minutes. Needs pyspark and pyarrow.

    Exit status: 0 done, 1 topics did not follow, or a master failed, 2 wrong usage.
    """
    require("pyarrow", "pyspark")
    from lab.placement.loop import command

    return command.command(directory, results or directory, quick=quick)


COMMANDS = (
    homes,
    placement_topics,
    placement_clones,
    placement_real,
    placement_capacity,
    placement_packed,
    placement_flock,
    placement_loop,
)
