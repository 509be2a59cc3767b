"""`fleet lab simulate`: DSSP's large-scale simulation (Tables V and VI, Fig. 10)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from agent.wire.base import Policy
from fleet import exits, screen
from fleet.lab.policies import POLICIES
from fleet.lab.provenance import now
from fleet.lab.run_folder import RunFolderError
from fleet.lab.simulate_points import KeptResults, Key, Result
from fleet.lab.simulate_report import Report
from fleet.lab.simulate_results import paper_gains, sustained_loads, write
from fleet.lab.simulate_run import Setting
from fleet.lab.simulate_screen import SimulationScreen
from fleet.lab.simulate_units import Begun, Campaign, Unit, work
from fleet.lab.simulate_workers import Done, WorkerError, Workers
from fleet.lab.table_v import SIZES, OutOfRange, Reading, Size

# Loads of Fig. 10, queries/s, at the largest fleet, for some of the seeds.
CURVE_LOADS_PER_S: Final = tuple(load / 2 for load in range(2, 15))
CURVE_SEEDS: Final = 5


class Options(Struct, frozen=True):
    """What the command was asked; `command` asks it again."""

    command: str
    directory: Path
    results: Path
    sizes: tuple[Size, ...]
    readings: tuple[Reading, ...]
    rules: tuple[OutOfRange, ...]
    policies: tuple[Policy, ...]
    seeds: tuple[int, ...]
    queries: int
    jobs: int


def options(
    directory: Path,
    results: Path,
    *,
    nodes: tuple[int, ...],
    reading: Reading | Literal["both"],
    out_of_range: OutOfRange | Literal["both"],
    policies: tuple[str, ...],
    seeds: int,
    queries: int,
    seed: int,
    jobs: int,
) -> Options:
    """What a command line means: `seeds` traces from `seed` on, all policies if it names none."""
    words = ["fleet lab simulate"]
    if set(nodes) != {size.nodes for size in SIZES}:
        words += [f"--nodes {count}" for count in sorted(set(nodes))]
    words += [f"--reading {reading}", f"--out-of-range {out_of_range}"]
    words += [f"--policy {policy}" for policy in policies]
    words += [f"--seeds {seeds}", f"--queries {queries}", f"--seed {seed}"]
    return Options(
        command=" ".join(words),
        directory=directory,
        results=results,
        sizes=tuple(size for size in SIZES if size.nodes in nodes),
        readings=("query", "task") if reading == "both" else (reading,),
        rules=("clip", "resample") if out_of_range == "both" else (out_of_range,),
        policies=tuple(policy for policy in POLICIES if policy in (policies or POLICIES)),
        seeds=tuple(range(seed, seed + seeds)),
        queries=queries,
        jobs=jobs,
    )


def run(options: Options) -> int:
    """Make what is missing of the results, then write them all down; the exit status."""
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
    missing = campaign.missing()
    there = len(campaign.keys) - len(missing)
    from_before = f", {there} of them from before" if there else ""
    screen.line(console, f"{len(campaign.keys)} results{from_before} …")
    shown = SimulationScreen(console)
    with Workers[Unit](min(options.jobs, len(missing)), work) as workers, shown.running(missing):
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
    report = Report(campaign.results())
    for table in (sustained_loads(report), paper_gains(report)):
        table.show(console)
    for path in write(report, provenance, options.jobs, options.results):
        screen.line(console, f"wrote {path}")


def keys_of(options: Options) -> list[Key]:
    """All results that are asked for: searches, and at the largest fleet curves."""
    keys = []
    for size in options.sizes:
        for seed in options.seeds:
            for reading, rule in itertools.product(options.readings, options.rules):
                setting = Setting(size, reading, rule, options.queries, seed)
                keys += [Key(setting, policy, None) for policy in options.policies]
                if size == options.sizes[-1] and seed in options.seeds[:CURVE_SEEDS]:
                    keys += [Key(setting, policy, CURVE_LOADS_PER_S) for policy in options.policies]
    return keys
