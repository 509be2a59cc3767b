"""Tables of `fleet lab simulate` that set results beside goals and the paper, and their cells."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean
from typing import Final, NamedTuple

from msgspec import structs

from fleet.simulation.statistics import Interval
from fleet.terminal.tables import Table
from lab.simulation.contenders import title
from lab.simulation.evaluation import PAPER_GAINS, Evaluation, Variant
from lab.simulation.table_v import CLASSES, Size
from lab.statistics import shown

# Target gain of this project's policy over EDFQ, in percent.
GOAL: Final = 10.0


def load_text(load: Interval | None) -> str:
    """``7.19 ± 0.05``; a dash for none."""
    return "–" if load is None else shown(load, 2)


def gain_text(gain: Interval | None) -> str:
    """``+31.2 ± 1.4 %``; a dash for none."""
    return "–" if gain is None else f"{shown(gain, 1, '+')} %"


def fleet_name(size: Size) -> str:
    """``1,000 (20 × 50)``."""
    return f"{size.nodes:,} ({size.iads} × {size.nodes_per_iad})"


def goals(report: Evaluation) -> Table:
    """The range of the gains of this project's policy over all fleets and variants, and in how
    many of them it is above zero and above the goal."""
    cells = [(size, variant) for variant in report.variants for size in report.sizes]
    rows = []
    for ours in report.own:
        for base in ("edfq", "tedfq"):
            gains = [report.gain(*cell, ours, base) for cell in cells]
            means = [gain.mean for gain in gains if gain]
            if len(means) == len(cells):
                rows.append(
                    (
                        f"{title(ours)} over {title(base)}",
                        f"{min(means):.1f} to {max(means):.1f} %".replace("-", "−"),
                        f"{sum(mean > 0 for mean in means)} of {len(cells)}",
                        f"{sum(mean >= GOAL for mean in means)} of {len(cells)}",
                    )
                )
    return Table("Goals", ("", "gains", "more", f"{GOAL:g} % or more"), rows)


class Gap(NamedTuple):
    """EDFQ's gain over `theirs`, ours minus the paper's, in percentage points."""

    theirs: str
    size: Size
    variant: Variant
    points: float
    inside: bool


def differences(report: Evaluation) -> Table:
    """The distance of EDFQ's gains from the paper's, for each variant of the fanouts."""
    gaps = list(_gaps(report))
    rows = []
    for theirs in PAPER_GAINS:
        for variant in report.variants:
            own = [gap for gap in gaps if (gap.theirs, gap.variant) == (theirs, variant)]
            if own:
                most = max(own, key=lambda gap: abs(gap.points))
                rows.append(
                    (
                        f"over {title(theirs)}",
                        variant.name,
                        f"{sum(gap.inside for gap in own)} of {len(own)}",
                        f"{fmean(abs(gap.points) for gap in own):.0f}",
                        f"{most.points:+.0f}".replace("-", "−"),
                        f"{most.size.nodes:,} nodes",
                    )
                )
    headings = ("EDFQ's gain", "fanouts", "the paper's inside our interval", "points off, mean")
    return Table("Against the paper", (*headings, "furthest", "at"), rows, left=2)


def _gaps(report: Evaluation) -> Iterator[Gap]:
    for theirs, paper in PAPER_GAINS.items():
        for size in report.sizes:
            for variant in report.variants:
                gain = report.gain(size, variant, "edfq", theirs)
                if gain is not None:
                    points = gain.mean - paper[size.nodes]
                    inside = gain.half_width is not None and abs(points) <= gain.half_width
                    yield Gap(theirs, size, variant, points, inside)


def margin(report: Evaluation) -> Table:
    """Sensitivity of FIFO's load to small differences in latency, at the largest fleet."""
    headings = ("nodes", "class that binds", "lowest load, queries/s", "its p99 / SLO there")
    empty = Table("FIFO's margin", (*headings, "load for 1 % of latency"), [], left=0)
    size, variant = report.sizes[-1], report.variants[0]
    curve = report.curve(variant, "fifo")
    load = report.load(size, variant, "fifo")
    if len(curve) < 2 or load is None:
        return empty
    ratios = report.ratios(size, variant, "fifo")
    k = max(range(len(ratios)), key=ratios.__getitem__)
    least = min(curve)
    above = min((at for at in curve if at > load.mean), default=max(curve))
    below = max((at for at in curve if at < above), default=least)
    p99_s = (curve[below][k].mean, curve[above][k].mean)
    if p99_s[1] <= p99_s[0]:
        return empty
    elasticity = math.log(above / below) / math.log(p99_s[1] / p99_s[0])
    at_least = f"{100 * curve[least][k].mean / CLASSES[k].slo_s:.0f} %"
    row = (f"{size.nodes:,}", str(k + 1), f"{least:g}", at_least, f"{elasticity:.1f} %")
    return structs.replace(empty, rows=[row])
