"""Output of the experiment: every run as CSV, and the tables of the page."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from _core.colocation.model_file import ModelFile
from fleet.placement.campaign.scores import Score
from fleet.placement.latency import Run, Topic
from fleet.terminal.tables import Table
from lab import pages
from lab.provenance import Provenance

NAME: Final = "placement-real"

# Of the models on the simulated broker.
SHOWN: Final = ("a second run", "the paper's models", "ours")
# Where the loads of sets, in cores, are cut into rows.
LOADS: Final = (0.0, 0.3, 0.6, 0.9, 1.2)


class Campaign(Struct, frozen=True):
    """A campaign with one discipline: its model, its stays, and the scores of all models."""

    kind: str
    model: ModelFile
    stays: list[list[Run]]
    scores: list[Score]


def write(
    campaigns: Sequence[Campaign], origin: Provenance, folder: Path, simulated: Path
) -> list[Path]:
    """Write data, tables and page into `folder`; their paths. `simulated` is the table of accuracy
    on the simulated broker: its rows stand beside ours."""
    data = pages.write_csv(
        folder / f"{NAME}.csv",
        ("discipline", "stay", "run", "topics", "cpu_ms", "rate_per_s", "p90_ms"),
        (
            (
                each.kind, stay, number, len(run.topics), round(topic.service_s * 1e3, 3),
                round(topic.rate, 3), round(latency_s * 1e3, 2),
            )
            for each in campaigns
            for stay, runs in enumerate(each.stays)
            for number, run in enumerate(runs)
            for topic, latency_s in zip(run.topics, run.latency_s, strict=True)
        ),
    )  # fmt: skip
    shown = {f"accuracy-{n}": _accuracy(each, simulated) for n, each in enumerate(campaigns)}
    shown |= {"models": _models(campaigns), "latencies": _latencies(campaigns)}
    more = {"data": f"[{NAME}.csv]({NAME}.csv): a row for each topic of each run"}
    return [data, pages.write(folder, NAME, shown, origin, more)]


def read_runs(data: Path, kind: str) -> list[Run]:
    """The runs with this discipline in the data that `write` made."""
    with data.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["discipline"] == kind]
    found = []
    for _, some in groupby(rows, key=lambda row: (row["stay"], row["run"])):
        one = list(some)
        topics = [Topic(float(row["cpu_ms"]) / 1e3, float(row["rate_per_s"])) for row in one]
        found.append(Run(tuple(topics), tuple([float(row["p90_ms"]) / 1e3 for row in one])))
    return found


def _accuracy(campaign: Campaign, simulated: Path) -> Table:
    sizes = sorted({score.topics for score in campaign.scores})
    rows = []
    for model in dict.fromkeys(score.model for score in campaign.scores):
        mine = {score.topics: score for score in campaign.scores if score.model == model}
        rows.append([model, *(_interval(mine.get(size)) for size in sizes)])
    rows += _simulated(simulated, sizes)
    counts = {score.topics: score.runs for score in campaign.scores}
    headings = ("model", *(f"k = {size} ({counts[size]} runs)" for size in sizes))
    return Table(f"R² of the logarithm of the 90th percentile, {campaign.kind}", headings, rows)


def _simulated(path: Path, sizes: Sequence[int]) -> list[list[str]]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        found = {row["model"]: row for row in csv.DictReader(file)}
    return [
        [f"simulated: {model}", *(found[model].get(f"k = {size}", "–") for size in sizes)]
        for model in SHOWN
        if model in found
    ]


def _interval(score: Score | None) -> str:
    if score is None:
        return "–"
    return f"{score.r2:.2f} [{score.low:.2f}, {score.high:.2f}]"


def _models(campaigns: Sequence[Campaign]) -> Table:
    rows = [
        [
            each.kind,
            str(each.model.runs),
            f"{each.model.cores:.2f}",
            f"{each.model.service_scale:.2f}",
            f"{each.model.overhead_s * 1e3:.1f}",
            f"{each.model.interference:.2f}",
            f"{each.model.speed_variance:.1f}",
            "yes" if each.model.trees else "no",
        ]
        for each in campaigns
    ]
    headings = (
        *("discipline", "runs", "cores", "scale of CPU times", "overhead, ms", "interference"),
        *("variance of speed", "trees"),
    )
    return Table("Fitted models", headings, rows)


def _latencies(campaigns: Sequence[Campaign]) -> Table:
    """Medians over topics of runs by the load of their set, each discipline beside the other."""
    rows = []
    for low, high in zip(LOADS, (*LOADS[1:], 99.0), strict=True):
        cells = []
        for each in campaigns:
            found = [ms for load, ms in _loads(each) if low <= load < high]
            cells.append(f"{median(found):.0f} ({len(found)})" if found else "–")
        rows.append([f"{low:g} … {high:g}" if high < 99.0 else f"> {low:g}", *cells])
    headings = ("load, cores", *(f"{each.kind}, ms (topics)" for each in campaigns))
    return Table("Median over topics of their 90th percentiles", headings, rows)


def _loads(campaign: Campaign) -> Iterator[tuple[float, float]]:
    for stay in campaign.stays:
        for run in stay:
            load = sum(topic.load for topic in run.topics)
            yield from ((load, latency_s * 1e3) for latency_s in run.latency_s)
