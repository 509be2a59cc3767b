"""Options of `fleet lab testbed`, with defaults filled in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.emulation import SIGMA, SIGMA_SIZED, SIZED
from fleet.simulation.layout import FleetLayout, building_fleet
from fleet.simulation.policies import POLICIES
from lab.testbed import run as testbed_run
from lab.testbed.trace import Shape
from lab.testbed.virtual import Effort

AROUND_PERCENT: Final = (-8.0, 8.0)
# Besides the fitted shapes: the initial guess, and those of the profiles.
SHAPES: Final = (Shape("lognormal", 0.6), Shape("lognormal", SIGMA))


class Asked(Struct, frozen=True):
    """The options as given; None and () stand for defaults."""

    policies: tuple[str, ...] = ()
    real: tuple[str, ...] = ()
    rates_per_s: tuple[float, ...] = ()
    around_percent: tuple[float, ...] = AROUND_PERCENT
    seconds: int | None = None
    seed: int = 1
    virtual_queries: int | None = None
    quick: bool = False
    sized: bool = False
    processes: int | None = None
    directory: Path = Path("var/testbed")
    results: Path | None = None


def run(asked: Asked, *, calibrate: bool) -> int:
    """Run the experiment, or only the calibration; the exit status."""
    options = options_of(asked)
    if calibrate and asked.sized:
        return testbed_run.calibrate(options, [Shape("lognormal", SIGMA_SIZED)], ["lognormal"])
    if calibrate:
        return testbed_run.calibrate(options, SHAPES, ["lognormal", "gamma"])
    return testbed_run.run(options)


def options_of(asked: Asked) -> testbed_run.Options:
    """Fill in the defaults, and apply --quick."""
    seconds = asked.seconds or (20 if asked.quick else 140)
    queries = asked.virtual_queries or (60_000 if asked.quick else 240_000)
    seeds, more_seeds = (1, 1) if asked.quick else (2, 6)
    around = asked.around_percent
    if asked.quick and around == AROUND_PERCENT:
        around = (0.0,)
    # In the order of the results, each once.
    chosen = {*asked.policies, *asked.real} if asked.policies else set(POLICIES)
    policies = tuple(p for p in POLICIES if p in chosen)
    return testbed_run.Options(
        plan=sized(building_fleet()) if asked.sized else building_fleet(),
        directory=asked.directory,
        results=asked.results or asked.directory,
        policies=policies,
        real=tuple(p for p in policies if not asked.real or p in asked.real),
        rates_per_s=tuple(sorted(set(asked.rates_per_s))),
        around_percent=tuple(sorted(set(around))),
        seconds=float(seconds),
        learning_s=float(min(seconds, 15 if asked.quick else 60)),
        seed=asked.seed,
        effort=Effort(queries, seeds, more_seeds, asked.seed),
        processes=asked.processes or os.cpu_count() or 1,
        command=command_line(asked),
        name="testbed-sized" if asked.sized else "testbed",
    )


def sized(plan: FleetLayout) -> FleetLayout:
    """The same fleet, with nodes whose service times grow with the request."""
    return FleetLayout(
        tuple(
            replace(
                iad,
                nodes=tuple(replace(node, profile=f"{node.profile}{SIZED}") for node in iad.nodes),
            )
            for iad in plan.iads
        )
    )


def command_line(asked: Asked) -> str:
    """The command that repeats the run."""
    words = ["fleet lab testbed"]
    words += [f"--policy {policy}" for policy in asked.policies]
    words += [f"--real {policy}" for policy in asked.real]
    words += [f"--rate {rate:g}" for rate in asked.rates_per_s]
    if asked.around_percent != AROUND_PERCENT:
        words += [f"--around {percent:g}" for percent in asked.around_percent]
    words += ["--sized"] * asked.sized
    words += ["--quick"] * asked.quick
    if asked.seconds is not None:
        words.append(f"--seconds {asked.seconds}")
    if asked.virtual_queries is not None:
        words.append(f"--virtual {asked.virtual_queries}")
    words.append(f"--seed {asked.seed}")
    return " ".join(words)
