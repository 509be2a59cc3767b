"""`fleet lab overlay`: OctopiA's experiments in virtual time and with real masters, and their
results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar

from msgspec import Struct
from rich.console import Console

from fleet.common import exits
from fleet.terminal import screen
from lab import provenance
from lab.overlay import (
    alone,
    burst,
    burst_page,
    memory,
    real,
    real_page,
    scale,
    scale_page,
    sizes,
    sizes_page,
)
from lab.overlay.burst import Burst
from lab.overlay.memory import Tables
from lab.overlay.model import BOTTLENECKS
from lab.overlay.real_masters import MastersError
from lab.overlay.scale import Shape
from lab.overlay.scale_page import Findings
from lab.overlay.sizes import Sizes

Experiment = Literal["tables", "burst", "scale", "real"]
# Experiments in virtual time: run by default.
EXPERIMENTS: Final[tuple[Experiment, ...]] = ("tables", "burst", "scale")
# At full size, and reduced.
ADVERTISEMENTS: Final = ((100, 200, 300, 400, 500), (100,))
SUBSCRIPTIONS: Final = ((500, 1_000, 2_000, 3_000, 4_000, 5_000), (500,))
QUICK_SIZE: Final = 0.002
QUICK_SHAPES: Final = 3

Case = TypeVar("Case")
Result = TypeVar("Result")


class Options(Struct, frozen=True):
    """The options of the command: `size` is the share of the paper's notifications in a burst,
    `draws` the number of random placements of the clients."""

    results: Path
    experiments: tuple[Experiment, ...]
    size: float
    draws: int
    seed: int
    jobs: int
    quick: bool


def run(options: Options) -> int:
    """Run the experiments one after the other, and write each result when it is done."""
    console = screen.console()
    for experiment in options.experiments:
        origin = provenance.now(words(options, experiment))
        try:
            paths = RUNS[experiment](options, origin, console)
        except MastersError as error:
            return exits.fail(str(error), exits.FAILED)
        for path in paths:
            screen.line(console, f"wrote {path}")
    return exits.DONE


def words(options: Options, experiment: Experiment) -> str:
    """The command line that repeats one of them."""
    said = f"fleet lab overlay --experiment {experiment} --seed {options.seed}"
    if options.quick:
        said += " --quick"
    elif experiment == "burst":
        said += f" --size {options.size:g} --draws {options.draws}"
    return said


def _tables(options: Options, origin: provenance.Provenance, console: Console) -> list[Path]:
    costs = _all(sizes.measure, size_cases(options), options.jobs)
    for table in (
        sizes_page.table(costs, "advertisements"),
        sizes_page.table(costs, "subscriptions"),
        sizes_page.summary(costs),
    ):
        table.show(console)
    return sizes_page.write(costs, origin, options.results)


def size_cases(options: Options) -> list[Sizes]:
    """The largest first, so that no process is left alone with it at the end."""
    counts: tuple[tuple[sizes.Experiment, tuple[int, ...]], ...] = (
        ("subscriptions", SUBSCRIPTIONS[options.quick]),
        ("advertisements", ADVERTISEMENTS[options.quick]),
    )
    return [
        Sizes(experiment, contender, count, options.seed)
        for experiment, each in counts
        for count in reversed(each)
        for contender in (sizes_page.OCTOPIA, sizes_page.BASELINE)
    ]


def _burst(options: Options, origin: provenance.Provenance, console: Console) -> list[Path]:
    results = _all(burst.measure, burst_cases(options), options.jobs)
    for table in (
        *(burst_page.table(results, each) for each in burst_page.bottlenecks(results)),
        burst_page.summary(results),
    ):
        table.show(console)
    return burst_page.write(results, origin, options.results)


def burst_cases(options: Options) -> list[Burst]:
    """All routing schemes, rates and bottlenecks."""
    return [
        Burst(
            contender,
            rate,
            QUICK_SIZE if options.quick else options.size,
            bottleneck,
            options.seed + draw,
        )
        for bottleneck in BOTTLENECKS
        for rate in (burst.RATES_PER_MIN[-1:] if options.quick else burst.RATES_PER_MIN)
        for contender in burst_page.ORDER
        for draw in range(1 if options.quick else options.draws)
    ]


def _scale(options: Options, origin: provenance.Provenance, console: Console) -> list[Path]:
    found = Findings(
        alone.run(scale.measure, scale_cases(options), options.jobs),
        alone.run(memory.measure, memory_cases(options), options.jobs),
    )
    tables = [scale_page.table(found), scale_page.large_table(found), scale_page.paper_table(found)]
    for table in tables:
        if table.rows:
            table.show(console)
    return scale_page.write(found, origin, options.results)


def scale_cases(options: Options) -> list[Shape]:
    """The largest first."""
    if options.quick:
        return scale.few(options.seed)[:QUICK_SHAPES]
    return [*scale.ten_thousand(options.seed), *reversed(scale.few(options.seed))]


def memory_cases(options: Options) -> list[Tables]:
    """The largest first."""
    shapes = scale.ON_PAPER[:QUICK_SHAPES] if options.quick else scale.ON_PAPER
    load = scale.MILLION
    return [
        Tables(vertices, clusters, load.advertisements, load.subscriptions)
        for vertices, clusters in reversed(shapes)
    ]


def _real(options: Options, origin: provenance.Provenance, console: Console) -> list[Path]:
    said = screen.console(stderr=True)
    setup = real.quick() if options.quick else real.paper()
    found = real.measure(setup, options.seed, lambda line: screen.line(said, line, "dim"))
    for table in (
        real_page.entries(found),
        real_page.messages(found),
        real_page.bursts(found),
        real_page.summary(found),
        real_page.delivered(found),
    ):
        table.show(console)
    paths = real_page.write(found, origin, options.results)
    if told := real.failures(found):
        raise MastersError("; ".join(told))
    return paths


RUNS: Final[dict[Experiment, Callable[[Options, provenance.Provenance, Console], list[Path]]]] = {
    "tables": _tables,
    "burst": _burst,
    "scale": _scale,
    "real": _real,
}


def _all(work: Callable[[Case], Result], cases: Sequence[Case], jobs: int) -> list[Result]:
    return [each.result for each in alone.run(work, cases, jobs)]
