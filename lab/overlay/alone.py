"""Runs every case in a process of its own, and measures its time and memory."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from msgspec import Struct

from fleet.terminal import screen
from lab import spawned

Case = TypeVar("Case")
Result = TypeVar("Result")


class Done(Struct, Generic[Result], frozen=True):
    """The result, the processor seconds, and the peak memory of the process in MiB."""

    result: Result
    cpu_s: float
    most_mib: float


def run(work: Callable[[Case], Result], cases: Sequence[Case], jobs: int) -> list[Done[Result]]:
    """Run all cases, `jobs` at a time, each in a new process; results are in order. Prints each
    when it and those before it are done."""
    said = screen.console(stderr=True)
    results: list[Done[Result]] = []
    measure = partial(measured, work)
    with spawned.performing(measure, cases, jobs, each_anew=True) as performed:
        for case, done in zip(cases, performed, strict=True):
            results.append(done)
            took = f"{done.cpu_s:.1f} s of a processor, {done.most_mib:,.0f} MiB"
            screen.line(said, f"{len(results)} of {len(cases)}: {case}: {took}", "dim")
    return results


def measured(work: Callable[[Case], Result], case: Case) -> Done[Result]:
    """The measurement in this process, which does nothing else before or after."""
    # Garbage is in no cycle, and searching for cycles among the millions of objects of a large
    # world takes longer than the world.
    gc.disable()
    result = work(case)
    most_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Done(result, time.process_time(), most_mib)
