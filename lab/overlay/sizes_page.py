"""The page on the costs of advertisements and subscriptions, beside the paper's results."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.overlay.scot import Scot
from fleet.terminal.tables import Table
from lab.overlay import formulas, pictures, topology
from lab.overlay.contenders import CONTENDERS
from lab.overlay.model import BYTES_PER_S, DELAY_S
from lab.overlay.sizes import EXPERIMENTS, PUBLISHERS, Cost, Experiment
from lab.provenance import Provenance

NAME: Final = "overlay-tables"
OCTOPIA: Final = "snr"  # tables and their messages are the same with dynamic routing
BASELINE: Final = "tid"


class Measure(Struct, frozen=True):
    """A column of the comparison: the quantity, and the paper's reduction of it (percent)."""

    title: str
    of: Callable[[Cost], float]
    form: str
    paper: dict[Experiment, float]


MEASURES: Final = (
    Measure(
        "SRT entries a broker",
        lambda cost: cost.srt_mean,
        ".1f",
        {"advertisements": -93.0},
    ),
    Measure(
        "PRT entries a broker",
        lambda cost: cost.prt_mean,
        ".1f",
        {"subscriptions": 33.0},
    ),
    Measure(
        "messages each",
        lambda cost: cost.messages / cost.case.count,
        ".2f",
        {"advertisements": -98.9, "subscriptions": 48.6},
    ),
    Measure(
        "delay, ms",
        lambda cost: cost.delay_mean_ms,
        ".1f",
        {"advertisements": -63.5, "subscriptions": -33.0},
    ),
)


def measures_of(experiment: Experiment) -> list[Measure]:
    """The columns that apply."""
    return [measure for measure in MEASURES if experiment in measure.paper]


def change(ours: float, theirs: float) -> float:
    """Change in percent; NaN against zero."""
    return 100.0 * (ours / theirs - 1.0) if theirs else math.nan


def percent(number: float) -> str:
    """With its sign."""
    # Zero is added to avoid -0.0 %.
    return "–" if math.isnan(number) else f"{round(number, 1) + 0.0:+.1f} %"


class Pair(Struct, frozen=True):
    """The two contenders in one case."""

    count: int
    ours: Cost
    theirs: Cost


def pairs(costs: Sequence[Cost], experiment: Experiment) -> list[Pair]:
    """By count."""
    found = {
        (cost.case.contender, cost.case.count): cost
        for cost in costs
        if cost.case.experiment == experiment
    }
    counts = sorted({count for _, count in found})
    return [Pair(n, found[OCTOPIA, n], found[BASELINE, n]) for n in counts]


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
    return Table("", ("", "", "messages between brokers"), rows, left=3)


def write(costs: Sequence[Cost], origin: Provenance, folder: Path) -> list[Path]:
    """Data, picture and page into `folder`; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    data, picture, page = (folder / f"{NAME}.{end}" for end in ("csv", "svg", "md"))
    with data.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(
            [
                *("experiment", "contender", "count", "seed", "srt_mean", "srt_most"),
                *("prt_mean", "prt_most", "messages", "delay_mean_ms", "delay_most_ms"),
            ]
        )
        for cost in sorted(costs, key=lambda each: (each.case.experiment, each.case.count)):
            case = cost.case
            lines.writerow(
                [
                    *(case.experiment, case.contender, case.count, case.seed),
                    *(f"{cost.srt_mean:.3f}", cost.srt_most, f"{cost.prt_mean:.3f}"),
                    *(cost.prt_most, cost.messages, f"{cost.delay_mean_ms:.3f}"),
                    f"{cost.delay_most_ms:.3f}",
                ]
            )
    pictures.draw_sizes(costs, picture)
    page.write_text(_page(costs, origin, topology.paper()), encoding="utf-8")
    return [data, picture, page]


def _page(costs: Sequence[Cost], origin: Provenance, scot: Scot) -> str:
    vertices, clusters = len(scot.vertices), scot.clusters
    ours, theirs = (CONTENDERS[name] for name in (OCTOPIA, BASELINE))
    return f"""\
# Overlay: what advertisements and subscriptions cost

Written by `fleet lab overlay --experiment tables`; what is simulated, and how, is in
[overlay-lab.md](../papers/overlay-lab.md).

![Tables, messages and delays against advertisements and subscriptions](overlay-tables.svg)

{origin.table(data=f"[{NAME}.csv]({NAME}.csv): a row for each run")}

A simulation in virtual time, around the brokers of production and a baseline: a tree of {vertices}
vertices (4 of them inner ones) times {clusters} clusters, {scot.order} brokers. Clients are
anywhere, at the same brokers for both. A subscription wants two of a hundred real stock symbols:
2 % of the notifications, and 2 % of the advertisements. One comes after the other, so that none
waits. A link takes {1e3 / BYTES_PER_S:.3f} ms a byte and {1e3 * DELAY_S:.0f} ms; a broker
{1e6 * ours.event_s:.0f} µs for an event and {1e6 * ours.copy_s:.0f} µs more for each message that
it sends (TID: {1e6 * theirs.event_s:.0f} and {1e6 * theirs.copy_s:.0f} µs).

{summary(costs).markdown()}

By arithmetic: an advertisement is at {clusters} of {scot.order} brokers, so SRTs are
{100 * (1 - clusters / scot.order):.1f} % smaller, and costs |V_c| − 1 = {clusters - 1} messages
against the 2|E| − |V| + 1 = {formulas.flood_messages(scot)} of a flood:
{100 * (1 - (clusters - 1) / formulas.flood_messages(scot)):.1f} % fewer.

## Advertisements

An advertisement's delay is from its coming to the last broker that gets it. No subscriptions.

{table(costs, "advertisements").markdown()}

## Subscriptions

With {PUBLISHERS} publishers, of which a subscription wants two. A subscription's delay is from its
coming to the last broker that gets it, or is told that it is there. OctopiA's messages are those
along the trees of the clusters, and the CIB_SETs to hosts of advertisements. What the paper pays is
paid here, too, and more of it: every broker of a cluster gets and keeps all its subscriptions,
whereas TID's go to the two publishers alone. How many publishers match a subscription in the paper
is not said; with more, TID's tables and messages grow, and OctopiA's do not. OctopiA's delay is
that of the last broker of the cluster. In the paper matching decides the delay, and TID matches
with longer tables; here matching takes no time against the links.

{table(costs, "subscriptions").markdown()}

## Messages by kind

{kinds(costs).markdown()}
"""
