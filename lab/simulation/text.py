"""Text of the page of `fleet lab simulate`; statements about numbers are generated from them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from fleet.simulation.statistics import Interval
from lab.simulation.contenders import title
from lab.simulation.report import PAPER_GAINS, Report, Variant
from lab.simulation.table_v import CLASSES, Size

PAGE: Final = """\
# Simulation at scale

Written by `fleet lab simulate`; how to run and read it is in
[simulation.md](../papers/simulation.md).
DSSP's large-scale simulation (Tables V and VI, Fig. 10) with the queue, policies and order
statistics that ship.

{provenance}

## Sustained load

The highest load, in queries/s, at which the p99 latency of every class is within its SLO and the
busiest node is not overloaded. Means over seeds with 95 % t-intervals.

{loads}

## EDFQ's gain beside the paper's (Table VI)

How much more load EDFQ sustains: mean of the gains of each seed, with its 95 % t-interval. Policies
are compared on the same arrivals, fanouts and service times.

{table_vi}

{differences}

![Gains by the size of the fleet, the paper's as dashes]({name}_gains.svg)

## Sanderling

`sanderling` ([policy](../understand/policy.md)) stands twice beside the policies of the literature:

- **Sanderling**: a request's size says nothing, every subtask is expected to take the mean.
- **Sanderling, sizes known**: the window tells the execution time; only the communication time is
  not known in advance. What a deployment gets lies between the two.

{gains}

{goals}

How far each class is advanced was learnt in one run beforehand, with a seed of its own, at the load
that the fleet sustains without advances (`simulate_events`, as the query schedulers learn it): the
mean over the run's second half, in ms for classes 1 to 4. The measured runs leave it as it is, and
every node demotes by itself.

{advances}
{parts}
## Which class binds

p99 / SLO of classes 1 to 4 at the sustained load, mean over seeds; the largest is the class that
binds.

{binding}

## Latency against load (Fig. 10)

![p99 of each class against the load under each policy]({name}.svg)

## The workload as drawn (Table V)

Mean k_q × mean k_t of each class.

{table_v}

{method}
"""

METHOD: Final = """\
(μ, σ) of Table V are per mille of the tier's size; a fanout outside the tier is moved to the nearer
end (clipped) or drawn again. {queries}, the first {warm_up} % of them not counted;
x_u from {samples} unloaded response times of every node of an IAD; a sustained load is interpolated
between two runs at most {tolerance} % apart."""

PARTS_PAGE: Final = """
### Its parts

The load of each, and what it gains over T-EDFQ, which is sanderling's key without advances: means
of the gains of each seed with 95 % t-intervals. *Known* is the share of the execution time that the
size tells. Demotion *by node* is what the main tables have, *by task* what ships, *by query* would
need all IADs to know at once. With sizes unknown nothing but the clock makes a subtask hopeless, so
that all three are the same but for milliseconds. *Learning all the time* is what ships: advances
are never frozen.

{parts}
"""

REASONS: Final = """\
The fanouts are the least certain part: the paper's (μ, σ) exceed its own tiers, so that per mille
is our reading; it does not say whether k_t is drawn once a query (a wide query then is wide at all
its IADs) or for each task, nor what becomes of draws outside the tier. In the smallest fleet, of 4
IADs, k_q of classes 1 and 2 is nearly always 1: rounding decides there. The paper gives neither the
queries of a run nor seeds nor intervals, and no rule for the load that a policy sustains: ours is
one load at which all classes keep their SLO."""


# Target gain of this project's policy over EDFQ, in percent.
GOAL: Final = 10.0


def load_text(load: Interval | None) -> str:
    """``7.19 ± 0.05``; a dash for none."""
    if load is None:
        return "–"
    half = "" if load.half_width is None else f" ± {load.half_width:.2f}"
    return f"{load.mean:.2f}{half}"


def gain_text(gain: Interval | None) -> str:
    """``+31.2 ± 1.4 %``; a dash for none."""
    if gain is None:
        return "–"
    half = "" if gain.half_width is None else f" ± {gain.half_width:.1f}"
    return f"{gain.mean:+.1f}{half} %".replace("-", "−")


def filled(text: str) -> str:
    """A paragraph wrapped to the page's width."""
    return textwrap.fill(" ".join(text.split()), 100, break_long_words=False)


def goals(report: Report) -> str:
    """The goals of this project's policy, and the results."""
    cells = [(size, variant) for variant in report.variants for size in report.sizes]
    sentences = []
    for ours in report.own:
        over_edfq = [report.gain(*cell, ours, "edfq") for cell in cells]
        over_tedfq = [report.gain(*cell, ours, "tedfq") for cell in cells]
        if not all(over_edfq) or not all(over_tedfq):
            return ""
        edfq, tedfq = ([gain.mean for gain in gains if gain] for gains in (over_edfq, over_tedfq))
        sentences.append(
            f"{title(ours)} sustains {_range(edfq)} more than EDFQ ({GOAL:g} % or more in "
            f"{sum(gain >= GOAL for gain in edfq)} of {len(cells)} rows) and {_range(tedfq)} more "
            f"than T-EDFQ (more in {sum(gain > 0 for gain in tedfq)} of {len(cells)}, "
            f"{GOAL:g} % or more in {sum(gain >= GOAL for gain in tedfq)})."
        )
    return filled(" ".join(sentences))


def _range(gains: Sequence[float]) -> str:
    return f"{min(gains):.1f} to {max(gains):.1f} %".replace("-", "−")


class Gap(NamedTuple):
    """EDFQ's gain over `theirs`, ours minus the paper's, in percentage points."""

    theirs: str
    size: Size
    variant: Variant
    points: float
    inside: bool


def differences(report: Report) -> str:
    """Where the gains differ from the paper's, and why, in one paragraph; empty without EDFQ."""
    gaps = list(_gaps(report))
    if not gaps:
        return ""
    inside = sum(gap.inside for gap in gaps)
    sentences = [f"The paper's figure lies inside our interval in {inside} of {len(gaps)} cases."]
    for theirs in PAPER_GAINS:
        own = [gap for gap in gaps if gap.theirs == theirs]
        if own:
            most = max(own, key=lambda gap: abs(gap.points))
            side = "above" if most.points > 0 else "below"
            sentences.append(
                f"Over {title(theirs)} ours is furthest off at {most.size.nodes:,} nodes "
                f"with {most.variant.name}: {abs(most.points):.0f} percentage points {side}."
            )
    sentences += [_nearest(report, gaps), _margin(report), REASONS]
    return filled(" ".join(filter(None, sentences)))


def _gaps(report: Report) -> Iterator[Gap]:
    for theirs, paper in PAPER_GAINS.items():
        for size in report.sizes:
            for variant in report.variants:
                gain = report.gain(size, variant, "edfq", theirs)
                if gain is not None:
                    points = gain.mean - paper[size.nodes]
                    inside = gain.half_width is not None and abs(points) <= gain.half_width
                    yield Gap(theirs, size, variant, points, inside)


def _nearest(report: Report, gaps: Sequence[Gap]) -> str:
    """The variant closest to the paper."""
    if len(report.variants) < 2:
        return ""
    off = {
        variant: fmean(abs(gap.points) for gap in gaps if gap.variant == variant)
        for variant in report.variants
    }
    best = min(off, key=off.__getitem__)
    others = ", ".join(
        f"{points:.0f} with {variant.name}" for variant, points in off.items() if variant != best
    )
    return (
        f"Nearest to the paper comes {best.name}: {off[best]:.0f} points off on average; {others}."
    )


def _margin(report: Report) -> str:
    """Sensitivity of FIFO's load to small differences in latency, at the largest fleet."""
    size, variant = report.sizes[-1], report.variants[0]
    curve = report.curve(variant, "fifo")
    load = report.load(size, variant, "fifo")
    if len(curve) < 2 or load is None:
        return ""
    ratios = report.ratios(size, variant, "fifo")
    k = max(range(len(ratios)), key=ratios.__getitem__)
    slo_s = CLASSES[k].slo_s
    least = min(curve)
    above = min((at for at in curve if at > load.mean), default=max(curve))
    below = max((at for at in curve if at < above), default=least)
    p99_s = (curve[below][k].mean, curve[above][k].mean)
    if p99_s[1] <= p99_s[0]:
        return ""
    elasticity = math.log(above / below) / math.log(p99_s[1] / p99_s[0])
    return (
        f"FIFO's load is a matter of small margins: at {size.nodes:,} nodes class {k + 1} binds, "
        f"its p99 is {100 * curve[least][k].mean / slo_s:.0f} % of its SLO at {least:g}/s already, "
        f"and where it reaches the SLO 1 % of latency is {elasticity:.1f} % of load."
    )
