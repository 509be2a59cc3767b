"""`fleet lab testbed`: DSSP's testbed experiment, on real processes with virtual time beside it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.base import Policy
from fleet.common import exits
from fleet.simulation.layout import FleetLayout
from fleet.simulation.policies import policy_name
from fleet.simulation.screen import DemoScreen
from fleet.terminal import screen
from fleet.terminal.tables import Table
from fleet.testbed.load_generator import LoadGenerator
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.run_records import read_records
from fleet.testbed.testbed import Testbed, TestbedError
from lab import provenance
from lab.testbed.analysis import Analysis, Experiment, PolicyRuns
from lab.testbed.calibration import CalibrationError, Trial, calibrated, trial
from lab.testbed.loads import Again, Load, Turn, perform_again, turns_of
from lab.testbed.measures import Pair, Run, crossing
from lab.testbed.real import RealFleet
from lab.testbed.results import (
    TABLE_III_POLICY,
    TABLE_III_RATE_PER_S,
    table_gains,
    table_goals,
    table_iii,
    table_iv,
    table_runs,
    write,
)
from lab.testbed.steps import Steps, steps_of
from lab.testbed.trace import Shape
from lab.testbed.virtual import Effort, Sweep, Workers, perform, workers, worst_ratio

MAX_WARM_UP_S: Final = 30.0
# Overheads: start and warm-up; and between two runs, the last answers and the queues.
START_S: Final = 40.0
BETWEEN_S: Final = 2.0


class Options(Struct, frozen=True):
    """The options of the command. Without `rates_per_s` each policy is run at `around_percent` of
    its own highest rate in virtual time. Only those in `real` are run on real processes."""

    plan: FleetLayout
    directory: Path
    results: Path
    policies: tuple[Policy, ...]
    real: tuple[Policy, ...]
    rates_per_s: tuple[float, ...]
    around_percent: tuple[float, ...]
    seconds: float
    learning_s: float
    seed: int
    effort: Effort
    processes: int
    command: str
    name: str = "testbed"


def run(options: Options) -> int:
    """Run the experiment and write its results; the exit status."""
    try:
        with run_folder(options.directory):
            _run(options, DemoScreen(screen.console()))
    except (TestbedError, RunFolderError, OSError) as error:
        return exits.fail(str(error), exits.FAILED)
    return exits.DONE


def _run(options: Options, show: DemoScreen) -> None:
    origin = provenance.now(options.command)
    show.heading("1  Virtual time: the same schedulers, no measurement")
    with workers(options.processes, perform) as perform_all:
        curves = {p: _curve(options, p, perform_all, show) for p in options.policies}
    rates = rates_of(options, {policy: curves[policy] for policy in options.real})
    turns = [
        _with_table_iii(turn)
        for turn in turns_of(rates, options.seed, options.seconds, options.learning_s)
    ]
    show.heading("2  Real processes")
    made, steps = _measure(options, turns, show)
    with workers(options.processes, perform_again) as repeat_all:
        again = list(repeat_all([Again(options.plan, turn) for turn in turns]))
    pairs = {
        turn.policy: [Pair(*pair) for pair in zip(real, virtual, strict=True)]
        for turn, real, virtual in zip(turns, made, again, strict=True)
    }
    experiment = Experiment(
        origin,
        options.name,
        options.seconds,
        options.learning_s,
        options.seed,
        options.effort,
        [PolicyRuns(policy, curve, pairs.get(policy, [])) for policy, curve in curves.items()],
        steps,
    )
    show.heading("3  Results")
    _show(experiment, options, show)


# --- virtual time ---------------------------------------------------------------------------------


def _curve(
    options: Options, policy: Policy, perform_all: Workers, show: DemoScreen
) -> Sequence[Run]:
    started_s = time.monotonic()
    with _status(show, f"{policy_name(policy)}, virtual time") as told:
        sweep = Sweep(options.plan, policy, options.effort, perform_all, told)
        sweep.search()
    runs = sweep.runs()
    queries = sum(len(run.kinds) for run in runs)
    show.say(
        f"{policy_name(policy)}: every SLO kept up to λ = {_highest(runs):.1f}/s "
        f"({queries:,} queries at {len(runs)} rates, {time.monotonic() - started_s:.0f} s)"
    )
    return runs


@contextmanager
def _status(show: DemoScreen, text: str) -> Iterator[Callable[[str], None]]:
    """The current activity, if there is a terminal to show it on."""
    if not show.console.is_terminal:
        yield lambda _more: None
        return
    with show.console.status(text) as status:
        yield lambda more: status.update(f"{text}: {more}")


def _highest(runs: Sequence[Run]) -> float:
    rates = [run.rate_per_s for run in runs]
    return crossing(rates, [math.log(worst_ratio(run)) for run in runs], [1.0] * len(rates))


def rates_of(
    options: Options, curves: dict[Policy, Sequence[Run]]
) -> dict[Policy, tuple[float, ...]]:
    """The rates of the real runs of each policy, to 0.1/s."""
    if options.rates_per_s:
        return dict.fromkeys(curves, options.rates_per_s)
    rates = {}
    for policy, runs in curves.items():
        highest = _highest(runs)
        if not math.isfinite(highest):
            highest = runs[0 if highest < 0 else -1].rate_per_s
        around = (round(highest * (1 + more / 100), 1) for more in options.around_percent)
        rates[policy] = tuple(dict.fromkeys(max(0.1, rate) for rate in around))
    return rates


# --- real processes -------------------------------------------------------------------------------


def _with_table_iii(turn: Turn) -> Turn:
    """With the run of Table III, if it is of this policy and not among the others."""
    seed = turn.learning.seed + 1
    wanted = Load(turn.policy, TABLE_III_RATE_PER_S, seed, turn.loads[0].seconds)
    if turn.policy != TABLE_III_POLICY or wanted.name in {load.name for load in turn.loads}:
        return turn
    return replace(turn, loads=(*turn.loads, wanted))


def _measure(
    options: Options, turns: Sequence[Turn], show: DemoScreen
) -> tuple[list[list[Run]], Steps | None]:
    plan = options.plan
    loads = [load for turn in turns for load in (turn.learning, *turn.loads)]
    left = _Left(sum(load.takes_s + BETWEEN_S for load in loads))
    show.say(
        f"{len(plan.iads)} masters and {len(plan.nodes)} edge nodes; {len(loads)} runs, "
        f"{math.ceil((START_S + left.seconds) / 60)} minutes."
    )
    with (
        Testbed(plan, options.directory / "fleet") as bed,
        LoadGenerator({iad.name: bed.public(iad.name) for iad in plan.iads}) as generator,
    ):
        with show.progress("Start and warm-up", len(plan.nodes)) as advance:
            for progress in bed.start():
                advance(progress.nodes_live, f"{progress.nodes_live}/{progress.nodes} nodes")
            fleet = RealFleet(bed, generator, options.directory / "runs")
            fleet.warm_up(min(MAX_WARM_UP_S, options.seconds), options.seed)
        made = [_take_turn(fleet, turn, left, show) for turn in turns]
        iads = [iad.name for iad in plan.iads]
        folders = {iad: bed.records(iad) for iad in iads}
    # After masters have ended, all of their records are written.
    steps = None
    if TABLE_III_POLICY in options.real:
        records = {iad: read_records(folder) for iad, folder in folders.items()}
        run_name = f"{TABLE_III_POLICY}@{TABLE_III_RATE_PER_S:g}"
        steps = steps_of(records, iads[-1], run_name)
    return made, steps


class _Left:
    """Remaining time of the real runs."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def text(self, load: Load) -> str:
        """The current run and the ones after it."""
        minutes = math.ceil(self.seconds / 60)
        self.seconds -= load.takes_s + BETWEEN_S
        return f"{policy_name(load.policy)} at {load.rate_per_s:g}/s, {minutes} min left"


def _take_turn(fleet: RealFleet, turn: Turn, left: _Left, show: DemoScreen) -> list[Run]:
    with show.progress(f"learning: {left.text(turn.learning)}", turn.learning.takes_s) as advance:
        fleet.learn(turn.learning, lambda now, n: advance(now, f"{n} answers"))
    runs = []
    for load in turn.loads:
        with show.progress(left.text(load), load.takes_s) as advance:
            runs.append(fleet.measure(load, lambda now, n: advance(now, f"{n} answers")))
    return runs


# --- results --------------------------------------------------------------------------------------


def _show(experiment: Experiment, options: Options, show: DemoScreen) -> None:
    analysis = Analysis(experiment)
    tables = [
        table_runs(experiment),
        table_iv(analysis),
        table_gains(analysis),
        table_goals(analysis),
    ]
    if experiment.steps is not None:
        tables.insert(0, table_iii(experiment.steps))
    for table in tables:
        table.show(show.console)
        show.say("")
    for path in write(experiment, analysis, options.results):
        screen.line(show.console, f"wrote {path}")


# --- calibration ----------------------------------------------------------------------------------


def calibrate(
    options: Options, shapes: Sequence[Shape], families: Sequence[Literal["lognormal", "gamma"]]
) -> int:
    """Fit a shape of each of `families` to FIFO's rate, and print what all policies reach under it
    and under `shapes`; the exit status."""
    console = screen.console()

    def told(text: str) -> None:
        screen.line(console, text)

    arguments = (options.plan, options.policies, options.effort)
    try:
        with workers(options.processes, perform) as perform_all:
            trials = [_trial(arguments, shape, perform_all, told) for shape in shapes]
            for family in families:
                shape = calibrated(options.plan, family, options.effort, perform_all, told)
                trials.append(_trial(arguments, shape, perform_all, told, fitted=True))
    except CalibrationError as error:
        return exits.fail(str(error), exits.FAILED)
    table_of_trials(options.policies, trials).show(console)
    return exits.DONE


def _trial(
    arguments: tuple[FleetLayout, Sequence[Policy], Effort],
    shape: Shape,
    perform_all: Workers,
    told: Callable[[str], None],
    *,
    fitted: bool = False,
) -> Trial:
    plan, policies, effort = arguments
    return trial(plan, shape, policies, effort, perform_all, told, fitted=fitted)


def table_of_trials(policies: Sequence[Policy], trials: Sequence[Trial]) -> Table:
    """A row per shape: the highest rates, and how much more than FIFO's they are."""
    rows = []
    for each in trials:
        name = f"{each.shape.family} {each.shape.value:.3f}" + ("*" if each.fitted else "")
        rates = [
            f"{r.value:.1f} ({r.low:.1f}–{r.high:.1f})" for r in (each.highest[p] for p in policies)
        ]
        gains = [
            f"{g.value:+.0f} % ({g.low:+.0f} … {g.high:+.0f})"
            for p, g in each.over_fifo.items()
            if p != "fifo"
        ]
        rows.append((name, *rates, *gains))
    headings = (
        "shape",
        *(policy_name(policy) for policy in policies),
        *(f"{policy_name(policy)} over FIFO" for policy in policies if policy != "fifo"),
    )
    title = "Virtual time: highest λ by the service times' shape; * put to the paper's FIFO"
    return Table(title, headings, rows)
