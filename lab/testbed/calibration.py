"""Calibration of the testbed's one free parameter: the service times' shape, fitted to FIFO's
highest rate.

The results of the other policies under that shape are findings, not choices; see
docs/decisions/0008-service-time-shape.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct

from agent.wire.base import Policy
from fleet.simulation.layout import FleetLayout
from fleet.simulation.policies import policy_name
from lab.testbed.measures import Interval, blocks_of, gain, interval, joined, measured
from lab.testbed.trace import Shape
from lab.testbed.virtual import Effort, Job, Sweep, Workers, worst_ratio

# The paper's estimate over all classes, FIFO; its class 1 alone ends at 12.2.
FIFO_RATE_PER_S: Final = 13.23
# The search range, from light tails to heavy ones; a gamma's tail is lighter for larger k.
RANGES: Final[dict[str, tuple[float, float]]] = {"lognormal": (0.5, 0.8), "gamma": (3.0, 1.0)}
TOLERANCE: Final = 0.002
# Limit of log(p99 / SLO): infinite where an SLO cannot be met even unloaded.
WORST: Final = 1.0


class CalibrationError(ValueError):
    """No shape in the range fits."""


class Trial(Struct, frozen=True):
    """A shape, and the highest rate of every policy under it, in virtual time. `fitted`: it was
    fitted to the paper's rate of FIFO."""

    shape: Shape
    fitted: bool
    highest: dict[Policy, Interval]
    over_fifo: dict[Policy, Interval]


def root(f: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """Where `f`, below 0 at `low` and above it at `high`, passes 0: false position with halving
    (Illinois), until a step or the bracket is within `tolerance`. `low` may be above `high`.

    `CalibrationError` if `f` does not change its sign.
    """
    at_low, at_high = f(low), f(high)
    if not at_low <= 0 < at_high:
        raise CalibrationError(f"no change of sign between {low:g} and {high:g}")
    middle = low
    while abs(high - low) > tolerance:
        before = middle
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = f(middle)
        if value <= 0:
            low, at_low, at_high = middle, value, at_high / 2
        else:
            high, at_high, at_low = middle, value, at_low / 2
        if abs(middle - before) < tolerance:
            break
    return middle


def calibrated(
    plan: FleetLayout,
    family: Literal["lognormal", "gamma"],
    effort: Effort,
    perform_all: Workers,
    told: Callable[[str], None],
) -> Shape:
    """The shape under which FIFO's worst class is at its SLO at `FIFO_RATE_PER_S`."""

    def over(value: float) -> float:
        shape = Shape(family, value)
        jobs = [
            Job(plan, "fifo", FIFO_RATE_PER_S, effort.seed + n, effort.queries, shape)
            for n in range(effort.seeds + effort.more_seeds)
        ]
        ratio = worst_ratio(joined(list(perform_all(jobs))))
        told(f"{family} {value:.3f}: worst p99 is {ratio:.3f} of its SLO at {FIFO_RATE_PER_S:g}/s")
        return min(math.log(ratio), WORST)

    return Shape(family, root(over, *RANGES[family], TOLERANCE))


def trial(
    plan: FleetLayout,
    shape: Shape,
    policies: Sequence[Policy],
    effort: Effort,
    perform_all: Workers,
    told: Callable[[str], None],
    *,
    fitted: bool,
) -> Trial:
    """The result of every policy under a shape."""
    curves = {}
    for policy in policies:

        def say(text: str, policy: Policy = policy) -> None:
            told(f"{shape.family} {shape.value:.3f}, {policy_name(policy)}: {text}")

        sweep = Sweep(plan, policy, effort, perform_all, say, shape=shape)
        sweep.search(every_class=False)
        curves[policy] = sweep.runs()
    blocks = blocks_of([run for runs in curves.values() for run in runs], effort.seed)
    found = {policy: measured(runs, blocks).overall for policy, runs in curves.items()}
    return Trial(
        shape,
        fitted,
        {policy: interval(rates) for policy, rates in found.items()},
        {
            policy: interval(gain(rates, found["fifo"]))
            for policy, rates in found.items()
            if "fifo" in found
        },
    )
