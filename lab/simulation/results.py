"""Output of the simulation: every point as CSV, two pictures, and the page's tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from fleet.simulation.run_policy import WARM_UP_SHARE
from fleet.terminal.tables import Table
from lab import pages
from lab.provenance import Provenance
from lab.simulation.comparisons import differences, fleet_name, gain_text, goals, load_text, margin
from lab.simulation.contenders import title
from lab.simulation.evaluation import PAPER_GAINS, Evaluation
from lab.simulation.parts import advances, parts
from lab.simulation.pictures import draw_gains, draw_latencies
from lab.simulation.table_v import CLASSES, draw
from lab.simulation.training import is_training

NAME: Final = "simulation"
# For the realised fanouts, which need no precision.
FANOUT_QUERIES: Final = 20_000
# The policies that sanderling is compared with.
BASES: Final = ("edfq", "tedfq")
COLUMNS: Final = (
    "nodes",
    "iads",
    "nodes_per_iad",
    "reading",
    "out_of_range",
    "policy",
    "seed",
    "queries",
    "run",
    "load_per_s",
    *(f"p99_class_{k + 1}_s" for k in range(len(CLASSES))),
    "busiest_utilisation",
    "late_share",
    "subtasks",
    "sustained_per_s",
)


def write(report: Evaluation, provenance: Provenance, processes: int, folder: Path) -> list[Path]:
    """Write data, pictures, tables and page into `folder`; the paths of data, pictures and page."""
    data = pages.write_csv(folder / f"{NAME}.csv", COLUMNS, _rows(report))
    latencies, gains = folder / f"{NAME}.svg", folder / f"{NAME}_gains.svg"
    draw_latencies(report, latencies)
    draw_gains(report, gains)
    seeds = report.seeds
    named = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    more = {
        "seeds": f"{len(seeds)}: {named}",
        "duration": f"{report.seconds / 60:.0f} min of one processor for {len(report.results)} "
        f"results, {report.subtasks:.3g} subtasks; "
        f"{processes} process{'' if processes == 1 else 'es'}",
        "data": f"[{NAME}.csv]({NAME}.csv): a row per run",
    }
    tables = {key: table for key, table in tables_of(report).items() if table.rows}
    return [data, latencies, gains, pages.write(folder, NAME, tables, provenance, more)]


def tables_of(report: Evaluation) -> dict[str, Table]:
    """The tables of the page."""
    return {
        "loads": sustained_loads(report),
        "paper-gains": paper_gains(report),
        "differences": differences(report),
        "margin": margin(report),
        "gains": own_gains(report),
        "goals": goals(report),
        "advances": advances(report),
        **{f"parts-{size.nodes}": parts(report, size) for size in report.part_sizes},
        "binding": binding_classes(report),
        "fanouts": fanouts(report),
        "effort": effort(report),
    }


def _rows(report: Evaluation) -> Iterable[list[str]]:
    for result in report.results:
        setting = result.key.setting
        size = setting.size
        run = "search" if result.key.loads_per_s is None else "curve"
        run = "training" if is_training(setting) else run
        found = "" if result.load_per_s is None else f"{result.load_per_s:.4f}"
        for point in sorted(result.points, key=lambda point: point.load_per_s):
            yield [
                *map(str, (size.nodes, size.iads, size.nodes_per_iad)),
                setting.reading,
                setting.out_of_range,
                result.key.contender,
                *map(str, (setting.seed, setting.queries)),
                run,
                f"{point.load_per_s:.4f}",
                *(f"{p99_s:.4f}" for p99_s in point.p99_s),
                f"{point.busiest_utilisation:.4f}",
                f"{point.late_share:.5f}",
                str(point.subtasks),
                found,
            ]


# --- the tables -----------------------------------------------------------------------------------


def effort(report: Evaluation) -> Table:
    """Queries of a run, and the share of them that is not counted."""
    rows = [
        (fleet_name(size), f"{report.queries(size):,}", f"{100 * WARM_UP_SHARE:g} %")
        for size in report.sizes
    ]
    return Table("Queries of a run", ("nodes (IADs × nodes)", "queries", "not counted"), rows)


def fanouts(report: Evaluation) -> Table:
    """Table V as drawn: mean k_q × mean k_t of each class."""

    def rows() -> Iterable[Sequence[str]]:
        rules = sorted({variant.out_of_range for variant in report.variants})
        for size, rule in itertools.product(report.sizes, rules):
            drawn = draw(
                size,
                reading="query",
                out_of_range=rule,
                queries=FANOUT_QUERIES,
                seed=report.seeds[0],
            )
            of_query = drawn.query_class
            of_task = of_query[drawn.task_query]
            means = [
                f"{np.mean(drawn.iad_fanout[of_query == k]):.1f} × "
                f"{np.mean(drawn.node_fanout[of_task == k]):.1f}"
                for k in range(len(CLASSES))
            ]
            yield fleet_name(size), rule, *means, f"{drawn.subtasks / drawn.queries:,.0f}"

    titles = [f"class {k + 1}, {100 * kind.share:g} %" for k, kind in enumerate(CLASSES)]
    headings = ("nodes (IADs × nodes)", "outside", *titles, "subtasks a query")
    return Table("Fanouts as drawn: mean k_q × mean k_t", headings, list(rows()), left=2)


def paper_gains(report: Evaluation) -> Table:
    """Table VI: EDFQ's gains beside the paper's."""

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                cells = [variant.name, fleet_name(size)]
                for theirs, paper in PAPER_GAINS.items():
                    gain = report.gain(size, variant, "edfq", theirs)
                    cells += [gain_text(gain), f"+{paper[size.nodes]:.1f} %"]
                yield cells

    headings = ["fanouts", "nodes (IADs × nodes)"]
    for theirs in PAPER_GAINS:
        headings += [f"over {title(theirs)}", "paper"]
    return Table("EDFQ's gain beside the paper's", tuple(headings), list(rows()), left=2)


def sustained_loads(report: Evaluation) -> Table:
    """The highest load of every policy."""

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                loads = [report.load(size, variant, name) for name in report.names]
                seeds = str(report.seeds_of(size, variant))
                yield variant.name, fleet_name(size), seeds, *(load_text(load) for load in loads)

    headings = ("fanouts", "nodes (IADs × nodes)", "seeds", *map(title, report.names))
    return Table("Highest sustained load, queries/s", headings, list(rows()), left=2)


def own_gains(report: Evaluation) -> Table:
    """The gain of this project's policy over EDFQ, T-EDFQ and the better of the two."""

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                cells = [gain_text(report.gain(size, variant, "tedfq", "edfq"))]
                better = report.better(size, variant)
                for ours in report.own:
                    cells += [gain_text(report.gain(size, variant, ours, base)) for base in BASES]
                yield variant.name, fleet_name(size), *cells, title(better) if better else "–"

    headings = ["T-EDFQ over EDFQ"]
    for ours in report.own:
        headings += [f"{title(ours)}: over {title(base)}" for base in BASES]
    headings = ["fanouts", "nodes (IADs × nodes)", *headings, "better of the two"]
    return Table("Sanderling's gains in sustained load", tuple(headings), list(rows()), left=2)


def binding_classes(report: Evaluation) -> Table:
    """p99 / SLO of every class at the sustained load."""

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                cells = []
                for name in report.names:
                    ratios = report.ratios(size, variant, name)
                    most = max(ratios, default=0.0)
                    cells.append(
                        " ".join(f"**{r:.2f}**" if r == most else f"{r:.2f}" for r in ratios)
                    )
                busiest = report.utilisation(size, variant, report.names[-1])
                use = "–" if busiest is None else f"{100 * busiest:.0f} %"
                yield variant.name, fleet_name(size), *cells, use

    names = [title(name) for name in report.names]
    last = f"busiest node, {names[-1]}"
    headings = ("fanouts", "nodes (IADs × nodes)", *names, last)
    return Table("p99 / SLO by class", headings, list(rows()), left=2)
