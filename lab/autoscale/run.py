"""`fleet lab autoscale`: load steps against real processes with the auto-scaler on, and the same
steps in virtual time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.console import Console

from agent.wire.master_config import MasterAutoscale
from agent.wire.records import SubtaskRecord
from fleet.common import exits
from fleet.simulation import workload
from fleet.simulation.layout import FleetLayout
from fleet.simulation.workload import Arrival
from fleet.terminal import screen
from fleet.testbed.load_generator import LoadGenerator
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.run_records import read_records
from fleet.testbed.testbed import Testbed, TestbedError
from lab import provenance
from lab.autoscale.experiment import Experiment
from lab.autoscale.results import write
from lab.autoscale.virtual import VirtualSteps
from lab.autoscale.workload import (
    RULES,
    PodsChange,
    Step,
    StepsRun,
    SubtaskEnd,
    TaskEnd,
    fleet_of,
    steps_of,
    trace_of,
)

RUN: Final = "steps"
WARM_UP_S: Final = 12.0
# Per node: less than one pod of the slow profile serves, so that no pod is added yet.
WARM_UP_RATE_PER_S: Final = 5.0
LOOK_EVERY_S: Final = 0.25


class Options(Struct, frozen=True):
    """The options of the command."""

    directory: Path
    results: Path
    seconds: float
    rates_per_s: tuple[float, ...]
    nodes: int
    seed: int


def run(options: Options) -> int:
    """Run the experiment and write its results; the exit status."""
    try:
        with run_folder(options.directory):
            _run(options)
    except (TestbedError, RunFolderError) as error:
        return exits.fail(str(error), exits.FAILED)
    return exits.DONE


def _run(options: Options) -> None:
    console = Console(highlight=False)
    plan, rules = fleet_of(options.nodes), RULES
    steps = steps_of(options.rates_per_s, options.seconds)
    trace = trace_of(plan, steps, seed=options.seed)
    origin = provenance.now(command_line(options))
    screen.line(console, f"{len(trace)} queries in {sum(s.seconds for s in steps):g} s …")
    real = _real(plan, rules, trace, options)
    virtual = virtual_run(plan, rules, trace, steps)
    experiment = Experiment(
        rates_per_s=options.rates_per_s,
        seconds=options.seconds,
        nodes=options.nodes,
        seed=options.seed,
        origin=origin,
        rules=rules,
        steps=steps,
        real=real,
        virtual=virtual,
    )
    for path in write(experiment, options.results):
        screen.line(console, f"wrote {path}")


def command_line(options: Options) -> str:
    """The command that repeats the run."""
    rates = " ".join(f"--rate {rate:g}" for rate in options.rates_per_s)
    rest = f"--seconds {options.seconds:g} --nodes {options.nodes} --seed {options.seed}"
    return f"fleet lab autoscale {rates} {rest}"


def virtual_run(
    plan: FleetLayout, rules: MasterAutoscale, trace: list[Arrival], steps: tuple[Step, ...]
) -> StepsRun:
    """The same trace in virtual time."""
    return VirtualSteps(plan, rules).run(trace, sum(step.seconds for step in steps))


def _real(
    plan: FleetLayout, rules: MasterAutoscale, trace: list[Arrival], options: Options
) -> StepsRun:
    [iad] = plan.iads
    done = StepsRun([], [], [])
    with (
        Testbed(plan, options.directory / "fleet", autoscale=rules) as bed,
        LoadGenerator({iad.name: bed.public(iad.name)}) as load,
    ):
        for _ in bed.start():
            pass
        known = workload.warm_up(
            plan, seconds=WARM_UP_S, rate_per_s=WARM_UP_RATE_PER_S, seed=options.seed
        )
        load.replay(known, workload.WARM_UP, lambda _now, _answered: None)
        pods: dict[str, int] = {}
        looked_s = -LOOK_EVERY_S

        def look(now_s: float, _answered: int) -> None:
            nonlocal looked_s
            if now_s - looked_s < LOOK_EVERY_S:
                return
            looked_s = now_s
            bed.check()
            for status in bed.statuses().values():
                for node in status.nodes:
                    if pods.get(node.node) != node.pods:
                        pods[node.node] = node.pods
                        done.changes.append(PodsChange(now_s, node.node, node.pods))

        look(0.0, 0)
        start_s = time.monotonic()
        outcomes = load.replay(trace, RUN, look)
    done.answers.extend(
        TaskEnd(arrival.at_s, outcome.within_slo)
        for arrival, outcome in zip(trace, outcomes, strict=True)
    )
    done.subtasks.extend(_subtasks(options.directory / "fleet" / iad.name / "records", start_s))
    return done


def _subtasks(records: Path, start_s: float) -> list[SubtaskEnd]:
    """The subtasks of the steps by the time of their end, after the start of the load."""
    ends = []
    for record in read_records(records):
        if isinstance(record, SubtaskRecord) and record.label.startswith(RUN):
            # The master's monotonic clock is this host's.
            ended_ms = record.result_ms if record.result_ms is not None else record.deadline_ms
            at_s = record.start_s + ended_ms / 1e3 - start_s
            ends.append(SubtaskEnd(at_s, record.node, record.missed_deadline))
    return sorted(ends, key=lambda end: end.at_s)
