"""The words of the page of `fleet lab simulate`; what they say of numbers is made from them."""

from __future__ import annotations

from typing import Final

from agent.wire.base import Policy
from fleet.lab.policies import policy_name
from fleet.lab.simulate_pictures import READINGS
from fleet.lab.simulate_report import PAPER_GAINS, Report

PAGE: Final = """\
# Simulation at scale

Written by `fleet lab simulate`; how to run and read it is in [simulation.md](../simulation.md).
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

## All gains

{gains}

## Which class binds

p99 / SLO of classes 1 to 4 at the sustained load, mean over seeds; the largest is the class that
binds.

{binding}

## Latency against load (Fig. 10)

![p99 of each class against the load under each policy]({name}.svg)

## The workload as drawn (Table V)

Mean k_q × mean k_t of each class.

{table_v}

(μ, σ) of Table V are per mille of the tier's size; a fanout outside the tier is {out_of_range}.
{queries} queries a run, the first {warm_up} % of them not counted; x_u from {samples} unloaded
response times of every node of an IAD; a sustained load is interpolated between two runs at most
{tolerance} % apart.
"""

REASONS: Final = """\
the gain over FIFO follows from how the widest tasks delay the tightest class, and so from the
fanouts. Those are the least certain part: the paper's (μ, σ) exceed its own tiers, so that per
mille is our reading; it does not say whether k_t is drawn once a query (a wide query then is wide
at all its IADs) or for each task, nor what becomes of draws outside the tier. It gives neither the
queries of a run nor the seeds nor intervals, and no rule for the load that a policy sustains; ours
is one load for all classes."""


def differences(report: Report) -> str:
    """Where the gains differ from the paper's, and why, in one paragraph."""
    inside, cases = 0, 0
    parts = []
    for theirs, paper in PAPER_GAINS.items():
        for reading in report.readings:
            gaps = []
            for size in report.sizes:
                gain = report.gain(size, reading, "edfq", theirs)
                if gain is None:
                    continue
                gap = gain.mean - paper[size.nodes]
                gaps.append(gap)
                cases += 1
                inside += gain.half_width is not None and abs(gap) <= gain.half_width
            if gaps:
                parts.append(
                    f"over {policy_name(theirs)} from {_points(min(gaps))} to {_points(max(gaps))} "
                    f"percentage points with {READINGS[reading]}"
                )
    if not parts:
        return ""
    return (
        f"Ours minus the paper's: {'; '.join(parts)}. The paper's figure lies inside our interval "
        f"in {inside} of {cases} cases. {_reasons(report)}"
    )


def _points(gap: float) -> str:
    return f"{gap:+.0f}".replace("-", "−")


def _reasons(report: Report) -> str:
    binding: Policy = "fifo"
    size = report.sizes[-1]
    classes = {
        1 + max(range(len(ratios)), key=ratios.__getitem__)
        for reading in report.readings
        if binding in report.policies and (ratios := report.ratios(size, reading, binding))
    }
    first = (
        f"Under FIFO it is class {' or '.join(map(str, sorted(classes)))} that binds at "
        f"{size.nodes:,} nodes: "
        if classes
        else ""
    )
    return first + REASONS
