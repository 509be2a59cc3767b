"""`fleet lab simulate`: DSSP's large-scale simulation (Tables V and VI, Fig. 10)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from rich.console import Console

from fleet.common import exits
from fleet.terminal import screen
from fleet.testbed.run_folder import RunFolderError
from lab.provenance import now
from lab.simulation.contenders import CONTENDERS, MAIN, PARTS, trainings
from lab.simulation.evaluation import Evaluation
from lab.simulation.points import KeptResults, Key, Result
from lab.simulation.results import paper_gains, sustained_loads, write
from lab.simulation.run import Setting
from lab.simulation.screen import SimulationScreen
from lab.simulation.spark_workers import SparkWorkers
from lab.simulation.table_v import SIZES, OutOfRange, Reading, Size
from lab.simulation.training import training_of
from lab.simulation.units import Begun, Campaign, Unit, work
from lab.simulation.workers import Done, WorkerError, Workers

# Queries per run by nodes: fewer where each has more subtasks.
QUERIES: Final = {100: 100_000, 1_000: 100_000, 4_000: 50_000, 12_000: 30_000, 18_000: 30_000}
# Loads of Fig. 10, queries/s, at the largest fleet, for some of the seeds.
CURVE_LOADS_PER_S: Final = (1.0, 2.0, 3.0, 4.0, 5.0, 5.5, 6.0, 6.5)
CURVE_SEEDS: Final = 2
# Seeds of sanderling's parts by nodes: with the fast simulator, and with the other one.
PART_SEEDS: Final = {100: (10, 10), 1_000: (10, 5), 4_000: (10, 3)}


class Options(Struct, frozen=True):
    """The options of the command; `command` repeats it."""

    command: str
    directory: Path
    results: Path
    sizes: tuple[Size, ...]
    readings: tuple[Reading, ...]
    rules: tuple[OutOfRange, ...]
    contenders: tuple[str, ...]
    seeds: tuple[int, ...]
    queries: dict[int, int]
    jobs: int
    kept: bool
    spark: str | None


def options(
    directory: Path,
    results: Path,
    *,
    nodes: tuple[int, ...],
    reading: Reading | Literal["both"],
    out_of_range: OutOfRange | Literal["both"],
    policies: tuple[str, ...],
    parts: bool,
    seeds: int,
    queries: int | None,
    seed: int,
    jobs: int,
    kept: bool,
    spark: str | None = None,
) -> Options:
    """Options from a command line: `seeds` traces from `seed` on, all policies if it names none,
    with sanderling's `parts` or without; `queries` None is `QUERIES`; `kept` makes no new results;
    `spark` is a Spark master that computes instead of `jobs` processes here."""
    words = ["fleet lab simulate"]
    if set(nodes) != {size.nodes for size in SIZES}:
        words += [f"--nodes {count}" for count in sorted(set(nodes))]
    words += [f"--reading {reading}", f"--out-of-range {out_of_range}"]
    words += [f"--policy {policy}" for policy in policies]
    words += ["--parts"] if parts else []
    words += [f"--seeds {seeds}"] + ([f"--queries {queries}"] if queries else [])
    words += [f"--seed {seed}"] + (["--kept"] if kept else [])
    return Options(
        command=" ".join(words),
        directory=directory,
        results=results,
        sizes=tuple(size for size in SIZES if size.nodes in nodes),
        readings=("query", "task") if reading == "both" else (reading,),
        rules=("clip", "resample") if out_of_range == "both" else (out_of_range,),
        contenders=tuple(
            name
            for name in (*MAIN, *PARTS)
            if (not policies or CONTENDERS[name].policy in policies) and (parts or name in MAIN)
        ),
        seeds=tuple(range(seed, seed + seeds)),
        queries={nodes: queries or count for nodes, count in QUERIES.items()},
        jobs=jobs,
        kept=kept,
        spark=spark,
    )


def run(options: Options) -> int:
    """Compute the missing results, then write all of them; returns the exit status."""
    try:
        with KeptResults(options.directory) as kept:
            _run(options, kept)
    except (RunFolderError, WorkerError) as error:
        return exits.fail(str(error), exits.FAILED)
    return exits.DONE


def _run(options: Options, kept: KeptResults) -> None:
    console = screen.console()
    provenance = now(options.command)
    campaign = Campaign(keys_of(options), kept, options.seeds[0])
    there = len(campaign.keys) - len(campaign.missing())
    from_before = f", {there} of them from before" if there else ""
    screen.line(console, f"{len(campaign.keys)} results{from_before} …")
    processes = options.jobs if options.kept else _make(campaign, options, console)
    report = Evaluation(campaign.results())
    if not report.sizes:
        raise RunFolderError(f"{options.directory}: no results are kept there")
    for table in (sustained_loads(report), paper_gains(report)):
        table.show(console)
    for path in write(report, provenance, processes, options.results):
        screen.line(console, f"wrote {path}")


def _make(campaign: Campaign, options: Options, console: Console) -> int:
    """Compute the missing results; returns the number of processes."""
    missing = campaign.missing()
    if not missing:
        return options.jobs
    shown = SimulationScreen(console)
    with _workers(options, len(missing)) as workers, shown.running(missing):
        for process, unit, said in workers.run(campaign.next_unit):
            match said:
                case Begun():
                    shown.begun(process, said.key)
                case Result():
                    campaign.take(said)
                    shown.finished(said)
                case Done():
                    campaign.done(unit)
                    shown.idle(process)
        return workers.count


@contextmanager
def _workers(options: Options, missing: int) -> Iterator[Workers[Unit] | SparkWorkers[Unit]]:
    """The workers: processes of this machine, or executors of a Spark master."""
    if options.spark is None:
        with Workers[Unit](min(options.jobs, missing), work) as workers:
            yield workers
    else:
        from fleet.spark.session import open_session

        with open_session("fleet lab simulate", options.spark) as session:
            yield SparkWorkers[Unit](session, work)


def keys_of(options: Options) -> list[Key]:
    """All requested results: training runs, searches, and at the largest fleet curves.

    Curves and sanderling's parts are for the first reading only.
    """
    keys = []
    for size, seed in itertools.product(options.sizes, options.seeds):
        for reading, rule in itertools.product(options.readings, options.rules):
            setting = Setting(size, reading, rule, options.queries[size.nodes], seed)
            first = (reading, rule) == (options.readings[0], options.rules[0])
            place = seed - options.seeds[0]
            names = [
                name
                for name in options.contenders
                if name in MAIN or (first and place < _part_seeds(name, size))
            ]
            if place == 0:
                keys += [Key(training_of(setting), name, None) for name in trainings(names)]
            keys += [Key(setting, name, None) for name in names]
            if first and size == options.sizes[-1] and place < CURVE_SEEDS:
                keys += [Key(setting, name, CURVE_LOADS_PER_S) for name in names if name in MAIN]
    # All readings share the training runs.
    return list(dict.fromkeys(keys))


def _part_seeds(name: str, size: Size) -> int:
    """Number of seeds for which a part of sanderling is measured."""
    fast, slow = PART_SEEDS.get(size.nodes, (0, 0))
    return slow if CONTENDERS[name].one_clock else fast
