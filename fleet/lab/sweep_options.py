"""What `fleet lab testbed` was asked, with its defaults filled in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.wire.emulation import PROFILES
from fleet.lab import sweep
from fleet.lab.plan import building_fleet
from fleet.lab.policies import POLICIES
from fleet.lab.sweep_virtual import Effort, Shape

AROUND_PERCENT: Final = (-10.0, 0.0, 10.0)


class Asked(Struct, frozen=True):
    """The options as they were given; None and () stand for defaults."""

    policies: tuple[str, ...] = ()
    rates_per_s: tuple[float, ...] = ()
    around_percent: tuple[float, ...] = AROUND_PERCENT
    seconds: int | None = None
    seed: int = 1
    virtual_queries: int | None = None
    quick: bool = False
    processes: int | None = None
    directory: Path = Path("var/testbed")
    results: Path | None = None


def run(asked: Asked, *, calibrate: bool) -> int:
    """Run the experiment, or only the calibration; the exit status."""
    options = options_of(asked)
    if calibrate:
        return sweep.calibrate(options, [Shape("lognormal", PROFILES["pi4"].sigma)])
    return sweep.run(options)


def options_of(asked: Asked) -> sweep.Options:
    """Defaults, and what --quick makes of them."""
    seconds = asked.seconds or (20 if asked.quick else 75)
    queries = asked.virtual_queries or (10_000 if asked.quick else 60_000)
    seeds, more_seeds = (1, 1) if asked.quick else (2, 4)
    around = asked.around_percent
    if asked.quick and around == AROUND_PERCENT:
        around = (0.0,)
    # In the order of the results, each once.
    policies = tuple(p for p in POLICIES if not asked.policies or p in asked.policies)
    return sweep.Options(
        plan=building_fleet(),
        directory=asked.directory,
        results=asked.results or asked.directory,
        policies=policies,
        rates_per_s=tuple(sorted(set(asked.rates_per_s))),
        around_percent=tuple(sorted(set(around))),
        seconds=float(seconds),
        seed=asked.seed,
        effort=Effort(queries, seeds, more_seeds, asked.seed),
        processes=asked.processes or os.cpu_count() or 1,
        command=command_line(asked),
    )


def command_line(asked: Asked) -> str:
    """The command that repeats the run."""
    words = ["fleet lab testbed"]
    words += [f"--policy {policy}" for policy in asked.policies]
    words += [f"--rate {rate:g}" for rate in asked.rates_per_s]
    if asked.around_percent != AROUND_PERCENT:
        words += [f"--around {percent:g}" for percent in asked.around_percent]
    words += ["--quick"] * asked.quick
    if asked.seconds is not None:
        words.append(f"--seconds {asked.seconds}")
    if asked.virtual_queries is not None:
        words.append(f"--virtual {asked.virtual_queries}")
    words.append(f"--seed {asked.seed}")
    return " ".join(words)
