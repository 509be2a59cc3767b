"""`fleet lab overlay`: OctopiA's experiments in virtual time and with real masters, and their
results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

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
from lab.overlay.alone import Done
from lab.overlay.burst import Burst
from lab.overlay.memory import Tables
from lab.overlay.model import BOTTLENECKS, Bottleneck
from lab.overlay.real_masters import MastersError
from lab.overlay.scale import Shape
from lab.overlay.scale_page import Findings
from lab.overlay.sizes import Sizes

Experiment = Literal["tables", "burst", "scale", "real"]
# Experiments in virtual time: run by default.
EXPERIMENTS: Final[tuple[Experiment, ...]] = ("tables", "burst", "scale")
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


class Extent(Struct, frozen=True):
    """What the experiments in virtual time cover: counts of advertisements and subscriptions;
    bursts, each with `draws` placements of a crowd; shapes of overlays, small ones and large ones
    that are measured and those whose memory is measured at one broker."""

    advertisements: tuple[int, ...] = (100, 200, 300, 400, 500)
    subscriptions: tuple[int, ...] = (500, 1_000, 2_000, 3_000, 4_000, 5_000)
    publishers: int = sizes.PUBLISHERS
    size: float = 0.01
    draws: int = 2
    rates_per_min: tuple[int, ...] = burst.RATES_PER_MIN
    bottlenecks: tuple[Bottleneck, ...] = BOTTLENECKS
    crowd: burst.Crowd = burst.Crowd()
    few: tuple[scale.Factors, ...] = scale.FEW
    few_subscriptions: int = scale.SUBSCRIPTIONS
    ten_thousand: tuple[scale.Factors, ...] = scale.TEN_THOUSAND
    sample: scale.Sample = scale.WHOLE
    on_paper: tuple[scale.Factors, ...] = scale.ON_PAPER


QUICK: Final = Extent(
    advertisements=(100,),
    subscriptions=(500,),
    size=0.002,
    draws=1,
    rates_per_min=burst.RATES_PER_MIN[-1:],
    few=scale.FEW[:3],
    ten_thousand=(),
    on_paper=scale.ON_PAPER[:3],
)


class RunAll(Protocol):
    """Runs cases, `jobs` at a time; the results are in order."""

    def __call__(
        self, work: Callable[[Case], Result], cases: Sequence[Case], jobs: int, /
    ) -> list[Done[Result]]: ...


class _Job(NamedTuple):
    """What an experiment gets."""

    options: Options
    extent: Extent
    run_all: RunAll
    origin: provenance.Provenance
    console: Console

    def results(self, work: Callable[[Case], Result], cases: Sequence[Case]) -> list[Result]:
        return [each.result for each in self.run_all(work, cases, self.options.jobs)]


def run(options: Options, extent: Extent | None = None, run_all: RunAll = alone.run) -> int:
    """Run the experiments one after the other, and write each result when it is done. The options
    say how much of them, unless there is an `extent`."""
    console = screen.console()
    if extent is None:
        extent = QUICK if options.quick else Extent(size=options.size, draws=options.draws)
    for experiment in options.experiments:
        origin = provenance.now(words(options, experiment))
        try:
            paths = RUNS[experiment](_Job(options, extent, run_all, origin, console))
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


def _tables(job: _Job) -> list[Path]:
    costs = job.results(sizes.measure, size_cases(job.extent, job.options.seed))
    for table in (
        sizes_page.table(costs, "advertisements"),
        sizes_page.table(costs, "subscriptions"),
        sizes_page.summary(costs),
    ):
        table.show(job.console)
    return sizes_page.write(costs, job.origin, job.options.results)


def size_cases(extent: Extent, seed: int) -> list[Sizes]:
    """The largest first, so that no process is left alone with it at the end."""
    counts: tuple[tuple[sizes.Experiment, tuple[int, ...]], ...] = (
        ("subscriptions", extent.subscriptions),
        ("advertisements", extent.advertisements),
    )
    return [
        Sizes(experiment, contender, count, seed, extent.publishers)
        for experiment, each in counts
        for count in reversed(each)
        for contender in (sizes.OCTOPIA, sizes.BASELINE)
    ]


def _burst(job: _Job) -> list[Path]:
    results = job.results(burst.measure, burst_cases(job.extent, job.options.seed))
    for table in (
        *(burst_page.table(results, each) for each in burst.bottlenecks(results)),
        burst_page.summary(results),
    ):
        table.show(job.console)
    return burst_page.write(results, job.origin, job.options.results)


def burst_cases(extent: Extent, seed: int) -> list[Burst]:
    """All routing schemes, rates and bottlenecks."""
    return [
        Burst(contender, rate, extent.size, bottleneck, seed + draw, extent.crowd)
        for bottleneck in extent.bottlenecks
        for rate in extent.rates_per_min
        for contender in burst.ORDER
        for draw in range(extent.draws)
    ]


def _scale(job: _Job) -> list[Path]:
    seed, jobs = job.options.seed, job.options.jobs
    found = Findings(
        job.run_all(scale.measure, scale_cases(job.extent, seed), jobs),
        job.run_all(memory.measure, memory_cases(job.extent), jobs),
    )
    tables = [scale_page.table(found), scale_page.large_table(found), scale_page.paper_table(found)]
    for table in tables:
        if table.rows:
            table.show(job.console)
    return scale_page.write(found, job.origin, job.options.results)


def scale_cases(extent: Extent, seed: int) -> list[Shape]:
    """The largest first."""
    few = scale.few(seed, extent.few, extent.few_subscriptions, extent.sample)
    return [*scale.ten_thousand(seed, extent.ten_thousand, extent.sample), *reversed(few)]


def memory_cases(extent: Extent) -> list[Tables]:
    """The largest first."""
    load = scale.MILLION
    return [
        Tables(vertices, clusters, load.advertisements, load.subscriptions)
        for vertices, clusters in reversed(extent.on_paper)
    ]


def _real(job: _Job) -> list[Path]:
    said = screen.console(stderr=True)
    setup = real.quick() if job.options.quick else real.paper()
    found = real.measure(setup, job.options.seed, lambda line: screen.line(said, line, "dim"))
    for table in (
        real_page.entries(found),
        real_page.messages(found),
        real_page.bursts(found),
        real_page.summary(found),
        real_page.delivered(found),
    ):
        table.show(job.console)
    paths = real_page.write(found, job.origin, job.options.results)
    if told := real.failures(found):
        raise MastersError("; ".join(told))
    return paths


RUNS: Final[dict[Experiment, Callable[[_Job], list[Path]]]] = {
    "tables": _tables,
    "burst": _burst,
    "scale": _scale,
    "real": _real,
}
