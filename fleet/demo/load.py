"""The demo's load: the same arrivals under two policies, by real processes and in virtual time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from agent.wire.base import Policy
from fleet.demo.asking import SERVICES
from fleet.demo.options import Options
from fleet.demo.story import POLICIES
from fleet.simulation import workload
from fleet.simulation.layout import FleetLayout
from fleet.simulation.measures import ClassSummary, Outcome, summarize
from fleet.simulation.screen import POLICY_NAMES, DemoScreen, verdict
from fleet.simulation.virtual import VirtualFleet
from fleet.simulation.workload import Arrival
from fleet.testbed.load_generator import LoadGenerator, Tick
from fleet.testbed.testbed import Testbed

LOOK_EVERY_S: Final = 1.0
# Long enough for a hundred response times of every node, at a load that two cores easily carry.
MAX_WARM_UP_S: Final = 15.0
WARM_UP_RATE_PER_S: Final = 8.0


class Run(Struct, frozen=True):
    """One policy's run: its seconds, and its summary by class."""

    policy: Policy
    seconds: float
    classes: list[ClassSummary]


def record(plan: FleetLayout, options: Options) -> list[Arrival]:
    """Write the trace to its file and read it back, so that the file is exactly what was run."""
    path = options.directory / "trace.jsonl"
    arrivals = workload.arrivals(
        plan, rate_per_s=options.rate_per_s, seed=options.seed, services=SERVICES
    )
    workload.record(workload.within(arrivals, options.seconds), path)
    return workload.replay(path)


@contextmanager
def _bar(
    show: DemoScreen, look: Callable[[], None], text: str, seconds: float, queries: int
) -> Iterator[Tick]:
    """A progress bar for a replay; it also has a `look` at the processes."""
    looked_s = -LOOK_EVERY_S
    with show.progress(text, seconds) as advance:

        def tick(now_s: float, answered: int) -> None:
            nonlocal looked_s
            if now_s - looked_s >= LOOK_EVERY_S:
                looked_s = now_s
                look()
            advance(min(now_s, seconds), f"{answered}/{queries} answers")

        yield tick


def warm_up(
    bed: Testbed,
    load: LoadGenerator,
    options: Options,
    show: DemoScreen,
    look: Callable[[], None],
) -> None:
    """Ask every node by itself, so that deadlines rest on what was measured."""
    show.heading("7  Warm-up")
    seconds = min(MAX_WARM_UP_S, options.seconds / 2)
    trace = workload.warm_up(
        bed.plan,
        seconds=seconds,
        rate_per_s=WARM_UP_RATE_PER_S,
        seed=options.seed,
        services=SERVICES,
    )
    with _bar(show, look, "Measuring the nodes", seconds, len(trace)) as tick:
        load.replay(trace, workload.WARM_UP, tick)
    samples = [node.unloaded_samples for status in bed.statuses().values() for node in status.nodes]
    show.say(f"Every node's unloaded response time is measured: {min(samples, default=0)} times.")


def compare(
    bed: Testbed,
    load: LoadGenerator,
    trace: Sequence[Arrival],
    options: Options,
    show: DemoScreen,
    look: Callable[[], None],
) -> list[Run]:
    """The trace under one policy after the other, by the fleet's processes."""
    show.heading("8  The same load under FIFO and under EDFQ (earliest deadline first)")
    show.say(
        f"{len(trace)} queries in {options.seconds:g} s, λ = {options.rate_per_s:g}/s. "
        "Classes 1.1 and 1.2 ask one room (1.2 always in iad4), class 2 one room in each IAD, "
        "class 3 all rooms. Both runs: the same arrivals, windows and service draws.",
    )
    runs = []
    for policy in POLICIES:
        bed.set_policy(policy)
        text = f"{options.seconds:g} s under {POLICY_NAMES[policy]}"
        started_s = time.monotonic()
        with _bar(show, look, text, options.seconds, len(trace)) as tick:
            outcomes = load.replay(trace, policy, tick)
        runs.append(_finished(policy, time.monotonic() - started_s, outcomes))
    show.say("Measured at the client:")
    show.runs({run.policy: run.classes for run in runs}, with_p99=False)
    show.say("Too few for a 99th percentile; that follows.", style="dim")
    return runs


def _finished(policy: Policy, seconds: float, outcomes: list[Outcome]) -> Run:
    return Run(policy, round(seconds, 3), summarize(outcomes))


# --- virtual time ---------------------------------------------------------------------------------


def virtual(plan: FleetLayout, options: Options, show: DemoScreen) -> list[Run]:
    """The same trace, continued, in virtual time."""
    show.heading("9  In virtual time: the same trace, continued")
    count = options.virtual_queries
    arrivals = workload.arrivals(plan, rate_per_s=options.rate_per_s, seed=options.seed)
    trace = list(itertools.islice(arrivals, count))
    runs = []
    for policy in POLICIES:
        outcomes = _virtual_run(plan, policy, trace, show)
        runs.append(_finished(policy, trace[-1].at_s, outcomes))
    show.say(
        "Virtual time: not measured on the fleet above. The same scheduling code and draws, an "
        "event heap instead of processes, DSSP's means for communication and evaluation."
    )
    show.runs({run.policy: run.classes for run in runs}, with_p99=True)
    show.say(verdict({run.policy: run.classes for run in runs}))
    return runs


def _virtual_run(
    plan: FleetLayout, policy: Policy, trace: Sequence[Arrival], show: DemoScreen
) -> list[Outcome]:
    text = f"Virtual time, {POLICY_NAMES[policy]}"
    with show.progress(text, len(trace)) as advance:
        return VirtualFleet(plan, policy).run(trace, lambda n: advance(n, f"{n:,} answers"))
