"""Click commands: `fleet placement measure`, `train` and `follow`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleet.cli.lake import engine_options
from fleet.cli.options import INTERVAL, SEED, Number, run_directory
from fleet.terminal.installing import require

if TYPE_CHECKING:
    from fleet.inventory.folder import Folder


@click.command(short_help="Measure topics that share a master, on this machine.")
@click.option("--quick", is_flag=True, help="A minute: 6 configurations of up to 3 topics.")
@click.option(
    "--runs",
    type=click.IntRange(1, 10_000),
    default=180,
    show_default=True,
    help="Configurations: sets of topics.",
)
@click.option(
    "--topics",
    type=click.IntRange(1, 32),
    default=6,
    show_default=True,
    help="Topics of a configuration, at most; it has from 1 to that, in turn.",
)
@click.option(
    "--seconds",
    "interval_s",
    type=Number(1, 3_600),
    default=20.0,
    show_default=True,
    help="Each is measured twice for so long, after as long a time to settle.",
)
@click.option(
    "--most-load",
    type=Number(0.2, 1.0),
    default=0.9,
    show_default=True,
    help="Of the cores, by all topics of a configuration together.",
)
@click.option(
    "--worker-a-topic",
    is_flag=True,
    help="A worker for each topic instead of one for each core: the paper's broker.",
)
@SEED
@run_directory("var/placement")
def measure(
    quick: bool,
    runs: int,
    topics: int,
    interval_s: float,
    most_load: float,
    worker_a_topic: bool,
    seed: int,
    directory: Path,
) -> int:
    """Measure topics that share a master: a master and workers run here, under many loads.

    Processors that take a known CPU time get messages at known rates, by the processes of a real
    master. What it records is what `fleet placement train` learns from; nothing else should run.

    Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
    """
    from fleet.placement.campaign import command
    from fleet.placement.campaign.run import QUICK, Extent

    extent = QUICK if quick else Extent(runs, tuple(range(1, topics + 1)), interval_s, most_load)
    return command.measure(directory, extent, seed, worker_a_topic=worker_a_topic)


@click.command(short_help="Train the latency model from what masters recorded.")
@engine_options
@click.option(
    "--percentile",
    type=click.Choice(["50", "90", "99"]),
    default="90",
    show_default=True,
    help="Of latencies; objectives of another percentile are judged by the formulas alone.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("latency-model.json"),
    show_default=True,
    help="Where the model goes.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the scores as JSON.")
def train(
    lake: Path | None,
    folder: Folder | None,
    spark: str,
    percentile: str,
    output: Path,
    as_json: bool,
) -> int:
    """Train the latency model from what masters recorded, and say how well it predicts.

    R² is of the logarithm of the percentile, of configurations that the model was not trained on;
    beside it stand the paper's models and a replicate run.
    Needs numpy, SciPy and scikit-learn.

    Exit status: 0 done, 2 wrong usage, 5 the lake has too few records, 130 interrupted.
    """
    require("numpy", "scipy", "sklearn", "pyspark")
    from fleet.placement.campaign import command

    return command.train_from(lake, folder, spark, float(percentile), output, as_json=as_json)


@click.command(short_help="Pull, learn, plan and move, again and again.")
@engine_options
@click.option(
    "--every",
    "every_s",
    type=INTERVAL,
    help="How often to look. [default: placement.every_s of the inventory, 1h]",
)
@click.option(
    "--window",
    "window_s",
    type=INTERVAL,
    help="Use records of at most this age. [default: placement.window_s of the inventory, 1h]",
)
@click.option("--once", is_flag=True, help="Look once and end, for a timer.")
@click.option("--dry", is_flag=True, help="Say what it would do; move nothing.")
@click.option(
    "--local",
    type=click.Path(file_okay=False, path_type=Path),
    help="Not the fleet, but the masters of a run in this folder, on this machine.",
)
def follow(
    lake: Path | None,
    folder: Folder | None,
    spark: str,
    every_s: float | None,
    window_s: float | None,
    once: bool,
    dry: bool,
    local: Path | None,
) -> int:
    """Follow the load: pull, ingest, plan and move, again and again, with a line each time.

    It moves units only with `follow = true` under `[placement]` in the inventory, only if a plan
    saves more than its moves cost, and never from records that are old or few.
    Needs pyspark and pyarrow.

    Exit status: 0 ended by SIGTERM, or with --once: done, 1 with --once: nothing could be learned,
    2 wrong usage, 130 interrupted.
    """
    require("pyarrow", "pyspark")
    from fleet.placement.loop import follow as command

    return command.start(
        local, folder, lake, spark, every_s=every_s, window_s=window_s, once=once, dry=dry
    )
