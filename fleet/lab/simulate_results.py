"""The simulation written down: every point as CSV, two pictures, and a page."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from agent.wire.base import Policy
from fleet.lab.policies import policy_name
from fleet.lab.provenance import Provenance
from fleet.lab.simulate_pictures import draw_gains, draw_latencies
from fleet.lab.simulate_report import PAPER_GAINS, Report
from fleet.lab.simulate_run import WARM_SAMPLES, WARM_UP_SHARE
from fleet.lab.simulate_search import TOLERANCE
from fleet.lab.simulate_statistics import Interval
from fleet.lab.simulate_text import PAGE, differences
from fleet.lab.table_v import CLASSES, Size, draw
from fleet.lab.tables import Table

NAME: Final = "simulation"
# For the realised fanouts, which need no precision.
FANOUT_QUERIES: Final = 20_000
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


def write(report: Report, provenance: Provenance, processes: int, folder: Path) -> list[Path]:
    """Write data, pictures and page into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, latencies, gains, page = (
        folder / name for name in (f"{NAME}.csv", f"{NAME}.svg", f"{NAME}_gains.svg", f"{NAME}.md")
    )
    with data.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_rows(report))
    draw_latencies(report, latencies)
    draw_gains(report, gains)
    page.write_text(page_of(report, provenance, processes), encoding="utf-8")
    return [data, latencies, gains, page]


def _rows(report: Report) -> Iterable[list[str]]:
    for result in report.results:
        setting = result.key.setting
        size = setting.size
        run = "search" if result.key.loads_per_s is None else "curve"
        found = "" if result.load_per_s is None else f"{result.load_per_s:.4f}"
        for point in sorted(result.points, key=lambda point: point.load_per_s):
            yield [
                *map(str, (size.nodes, size.iads, size.nodes_per_iad)),
                setting.reading,
                setting.out_of_range,
                result.key.policy,
                *map(str, (setting.seed, setting.queries)),
                run,
                f"{point.load_per_s:.4f}",
                *(f"{p99_s:.4f}" for p99_s in point.p99_s),
                f"{point.busiest_utilisation:.4f}",
                f"{point.late_share:.5f}",
                str(point.subtasks),
                found,
            ]


# --- the page -------------------------------------------------------------------------------------


def page_of(report: Report, provenance: Provenance, processes: int) -> str:
    """The page as Markdown."""
    seeds = report.seeds
    named = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
    lasted = (
        f"{report.seconds / 60:.0f} min of one processor for {len(report.results)} results, "
        f"{report.subtasks:.3g} subtasks; {processes} processes"
    )
    return PAGE.format(
        name=NAME,
        provenance=provenance.table(
            seeds=f"{len(seeds)}: {named}",
            duration=lasted,
            data=f"[{NAME}.csv]({NAME}.csv): a row per run",
        ),
        table_v=fanouts(report).markdown(),
        table_vi=paper_gains(report).markdown(),
        loads=sustained_loads(report).markdown(),
        gains=all_gains(report).markdown(),
        binding=binding_classes(report).markdown(),
        differences=differences(report),
        queries=f"{report.results[0].key.setting.queries:,}",
        warm_up=f"{100 * WARM_UP_SHARE:g}",
        samples=f"{WARM_SAMPLES:,}",
        tolerance=f"{100 * TOLERANCE:g}",
    )


def _fleet(size: Size) -> str:
    return f"{size.nodes:,} ({size.iads} × {size.nodes_per_iad})"


def fanouts(report: Report) -> Table:
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
            yield _fleet(size), rule, *means, f"{drawn.subtasks / drawn.queries:,.0f}"

    titles = [f"class {k + 1}, {100 * kind.share:g} %" for k, kind in enumerate(CLASSES)]
    headings = ("nodes (IADs × nodes)", "outside", *titles, "subtasks a query")
    return Table("Fanouts as drawn: mean k_q × mean k_t", headings, list(rows()), left=2)


def paper_gains(report: Report) -> Table:
    """Table VI: EDFQ's gains beside the paper's."""

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                cells = [variant.name, _fleet(size)]
                for theirs, paper in PAPER_GAINS.items():
                    gain = report.gain(size, variant, "edfq", theirs)
                    cells += [gain_text(gain), f"+{paper[size.nodes]:.1f} %"]
                yield cells

    headings = ["fanouts", "nodes (IADs × nodes)"]
    for theirs in PAPER_GAINS:
        headings += [f"over {policy_name(theirs)}", "paper"]
    return Table("EDFQ's gain beside the paper's", tuple(headings), list(rows()), left=2)


def sustained_loads(report: Report) -> Table:
    """The highest load of every policy."""

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                loads = [report.load(size, variant, policy) for policy in report.policies]
                yield variant.name, _fleet(size), *(load_text(load) for load in loads)

    names = [policy_name(policy) for policy in report.policies]
    headings = ("fanouts", "nodes (IADs × nodes)", *names)
    return Table("Highest sustained load, queries/s", headings, list(rows()), left=2)


def all_gains(report: Report) -> Table:
    """Every comparison, this project's policies included."""

    pairs: list[tuple[Policy, Policy]] = [("edfq", "fifo"), ("edfq", "spr"), ("edfq", "tedfq")]
    pairs += [(ours, theirs) for ours in report.own for theirs in ("fifo", "edfq", "tedfq")]

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                cells = [gain_text(report.gain(size, variant, *pair)) for pair in pairs]
                for ours in report.own:
                    better = report.better(size, variant)
                    gain = better and report.gain(size, variant, ours, better)
                    cells.append(gain_text(gain or None))
                yield variant.name, _fleet(size), *cells

    headings = [f"{policy_name(ours)} over {policy_name(theirs)}" for ours, theirs in pairs]
    headings += [f"{policy_name(ours)} over the better of the two" for ours in report.own]
    headings = ["fanouts", "nodes (IADs × nodes)", *headings]
    return Table("Gains in sustained load", tuple(headings), list(rows()), left=2)


def binding_classes(report: Report) -> Table:
    """p99 / SLO of every class at the sustained load."""

    def rows() -> Iterable[Sequence[str]]:
        for variant in report.variants:
            for size in report.sizes:
                cells = []
                for policy in report.policies:
                    ratios = report.ratios(size, variant, policy)
                    most = max(ratios)
                    cells.append(
                        " ".join(f"**{r:.2f}**" if r == most else f"{r:.2f}" for r in ratios)
                    )
                busiest = report.utilisation(size, variant, report.policies[-1])
                yield variant.name, _fleet(size), *cells, f"{100 * busiest:.0f} %"

    names = [policy_name(policy) for policy in report.policies]
    last = f"busiest node, {names[-1]}"
    headings = ("fanouts", "nodes (IADs × nodes)", *names, last)
    return Table("p99 / SLO by class", headings, list(rows()), left=2)


def load_text(load: Interval) -> str:
    """``7.19 ± 0.05``."""
    half = "" if load.half_width is None else f" ± {load.half_width:.2f}"
    return f"{load.mean:.2f}{half}"


def gain_text(gain: Interval | None) -> str:
    """``+31.2 ± 1.4 %``; a dash for none."""
    if gain is None:
        return "–"
    half = "" if gain.half_width is None else f" ± {gain.half_width:.1f}"
    return f"{gain.mean:+.1f}{half} %".replace("-", "−")
