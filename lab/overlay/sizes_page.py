"""Tables on the costs of advertisements and subscriptions, beside the paper's results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fleet.terminal.tables import Table
from lab import pages
from lab.overlay import pictures
from lab.overlay.contenders import CONTENDERS
from lab.overlay.sizes import EXPERIMENTS, Cost, Experiment, measures_of, pairs
from lab.provenance import Provenance

NAME: Final = "overlay-tables"


def change(ours: float, theirs: float) -> float:
    """Change in percent; NaN against zero."""
    return 100.0 * (ours / theirs - 1.0) if theirs else math.nan


def percent(number: float) -> str:
    """With its sign."""
    # Zero is added to avoid -0.0 %.
    return "–" if math.isnan(number) else f"{round(number, 1) + 0.0:+.1f} %"


def table(costs: Sequence[Cost], experiment: Experiment) -> Table:
    """OctopiA and the baseline, and the difference."""
    columns = measures_of(experiment)
    rows = []
    for pair in pairs(costs, experiment):
        row = [f"{pair.count:,}"]
        for measure in columns:
            ours, theirs = measure.of(pair.ours), measure.of(pair.theirs)
            row += [f"{ours:,{measure.form}}", f"{theirs:,{measure.form}}"]
            row += [percent(change(ours, theirs))]
        rows.append(row)
    headings: list[str] = [experiment]
    for measure in columns:
        headings += [f"{measure.title}: OctopiA", "TID", "change"]
    return Table(experiment.capitalize(), tuple(headings), rows, left=0)


def summary(costs: Sequence[Cost]) -> Table:
    """Means over all counts, beside the paper's."""
    rows = []
    for experiment in EXPERIMENTS:
        found = pairs(costs, experiment)
        for measure in measures_of(experiment):
            changes = [change(measure.of(each.ours), measure.of(each.theirs)) for each in found]
            mean = sum(changes) / len(changes)
            rows.append(
                (experiment, measure.title, percent(mean), percent(measure.paper[experiment]))
            )
    headings = ("of", "", "OctopiA against TID, here", "in the paper")
    return Table("OctopiA against TID routing", headings, rows, left=2)


def kinds(costs: Sequence[Cost]) -> Table:
    """Messages by the name of their class, in the largest cases."""
    rows = []
    for experiment in EXPERIMENTS:
        pair = pairs(costs, experiment)[-1]
        for cost in (pair.ours, pair.theirs):
            what = ", ".join(f"{n:,} {kind}" for kind, n in cost.by_kind.items())
            title = "OctopiA" if cost is pair.ours else CONTENDERS[cost.case.contender].title
            rows.append((f"{pair.count:,} {experiment}", title, what or "none"))
    return Table("Messages by kind", ("", "", "messages between brokers"), rows, left=3)


def write(costs: Sequence[Cost], origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture, tables and page into `folder`; the paths of data, picture and page."""
    data = pages.write_csv(
        folder / f"{NAME}.csv",
        [
            *("experiment", "contender", "count", "seed", "srt_mean", "srt_most"),
            *("prt_mean", "prt_most", "messages", "delay_mean_ms", "delay_most_ms"),
        ],
        (
            [
                *(cost.case.experiment, cost.case.contender, cost.case.count, cost.case.seed),
                *(f"{cost.srt_mean:.3f}", cost.srt_most, f"{cost.prt_mean:.3f}"),
                *(cost.prt_most, cost.messages, f"{cost.delay_mean_ms:.3f}"),
                f"{cost.delay_most_ms:.3f}",
            ]
            for cost in sorted(costs, key=lambda each: (each.case.experiment, each.case.count))
        ),
    )
    picture = folder / f"{NAME}.svg"
    pictures.draw_sizes(costs, picture)
    tables = {"summary": summary(costs), "kinds": kinds(costs)}
    tables |= {experiment: table(costs, experiment) for experiment in EXPERIMENTS}
    more = {"data": f"[{NAME}.csv]({NAME}.csv): a row for each run"}
    return [data, picture, pages.write(folder, NAME, tables, origin, more)]
