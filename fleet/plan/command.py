"""`fleet plan`: finds the rate that a fleet sustains and the pods that a target needs, by
simulation.

docs/run/planning.md says how to use it and what it rests on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from agent.wire.base import Policy
from agent.wire.config import ConfigError
from agent.wire.emulation import PROFILES, HardwareProfile
from fleet.common import exits
from fleet.plan.case import Case, Model, make_cases
from fleet.plan.classes import read_classes
from fleet.plan.fleet import places, pods_of, read_fleet, with_named_nodes
from fleet.plan.models import Models, read_models
from fleet.plan.pods import plan_pods
from fleet.plan.records import ASSUMED_OVERHEADS, NOTHING, Measured, read_measured
from fleet.plan.result import (
    CapacityReport,
    Namer,
    PolicyReport,
    cautions,
    class_reports,
)
from fleet.plan.screen import show
from fleet.plan.search import curve, highest_rate
from fleet.plan.times import LEAST_SAMPLES, NodeTimes, node_times
from fleet.simulation.layout import FleetLayout
from fleet.simulation.policies import policy_name
from fleet.simulation.screen import DemoScreen
from fleet.terminal import output, screen

ASSUMED: Final = "assumed"
# Minimum of queries in a run, apart from what the classes' percentiles need; and maximum of
# subtasks.
QUERIES: Final = 60_000
MAX_SUBTASKS: Final = 1_500_000
LEAST_QUERIES: Final = 2_000
LEAST_OF_CLASS: Final = 20
# Queries of each class beyond its percentile that a run should have.
BEYOND: Final = 40
# Range of the curves, as shares of the highest rate or the target.
CURVES_TO: Final = 1.25


class Options(Struct, frozen=True):
    """Command-line options. `mean_ms` (else `profile`) and `sigma` describe the pods of nodes
    that were not measured; `profile` None: as `read_fleet` has it."""

    config: Path | None
    classes: Path | None
    records: tuple[Path, ...]
    models: Path | None
    pods: tuple[str, ...]
    profile: str | None
    mean_ms: float | None
    sigma: float
    policies: tuple[Policy, ...]
    target_per_s: float | None
    queries: int | None
    seeds: int
    seed: int
    picture: Path | None
    as_json: bool


class _Inputs(Struct, frozen=True, eq=False):
    model: Model
    pods: tuple[int, ...]
    most: int
    fleet: str
    assumptions: tuple[str, ...]


def run(options: Options) -> int:
    """Compute and show the plan. Exit status 1 if no policy sustains the target."""
    try:
        inputs = _read(options)
        cases = _cases(options, inputs)
    except ConfigError as error:
        return exits.fail(str(error), exits.USAGE)
    report = _report(options, inputs, cases)
    if options.picture is not None:
        from fleet.plan.pictures import draw_capacity  # needs matplotlib

        try:
            draw_capacity(report, options.picture)
        except OSError as error:
            return exits.fail(f"{options.picture}: {error.strerror}", exits.FAILED)
    console = screen.console()
    if options.as_json:
        screen.as_it_is(console, output.json_text(msgspec.json.encode(report)))
    else:
        show(report, console)
        if options.picture is not None:
            screen.line(console, f"Picture: {options.picture}")
    sustained = not report.plans or any(plan.kept for plan in report.plans)
    return exits.DONE if sustained else exits.FAILED


# --- inputs ---------------------------------------------------------------------------------------


def _read(options: Options) -> _Inputs:
    profile = ASSUMED if options.mean_ms is not None else options.profile
    plan, most = read_fleet(options.config, profile)
    if options.records and options.models is not None:
        raise ConfigError("give --records or --models: models are made of records")
    measured, models = NOTHING, None
    if options.records:
        measured = read_measured(options.records)
    elif options.models is not None:
        models = read_models(options.models)
        measured = models.measured
    source = "records" if models is None else "models"
    plan = with_named_nodes(plan, measured.names())
    known = {at: s for at, s in measured.unloaded_s.items() if at in set(places(plan))}
    if measured is not NOTHING and not measured.unloaded_s:
        unreadable = _count(measured.unreadable, "unreadable line")
        raise ConfigError(f"no subtask in the {source} was answered ({unreadable})")
    if measured is not NOTHING and not known:
        iads = ", ".join(measured.names())
        raise ConfigError(f"the {source} are of {iads}, no IAD of the fleet is among them")
    profiles = dict(PROFILES)
    if options.mean_ms is not None:
        profiles[ASSUMED] = HardwareProfile(options.mean_ms / 1e3, options.sigma)
    times = node_times(plan, measured, profiles)
    if options.classes is None and models is not None:
        classes = models.load_classes(plan)
    else:
        classes = read_classes(options.classes, plan)
    pods = pods_of(plan, options.pods, most)
    fleet = "the shipped building" if options.config is None else str(options.config)
    return _Inputs(
        Model(plan, classes, times, measured.overheads or ASSUMED_OVERHEADS),
        pods,
        most,
        f"{fleet}: {_count(len(plan.iads), 'IAD')}, {_count(len(plan.nodes), 'node')}, "
        f"{_count(sum(pods), 'pod')}",
        _assumptions(options, times, measured, models, plan, profiles),
    )


def _assumptions(
    options: Options,
    times: NodeTimes,
    measured: Measured,
    models: Models | None,
    plan: FleetLayout,
    profiles: Mapping[str, HardwareProfile],
) -> tuple[str, ...]:
    """The sources of the numbers, in sentences."""
    found = []
    nodes = len(plan.nodes)
    if times.measured:
        samples = sum(map(len, measured.unloaded_s.values()))
        whence = f"{samples:,} subtasks in the records"
        if models is not None:
            whence = f"{models.subtasks:,} subtasks in the models, to 9 %"
        found.append(
            f"Unloaded response times: measured at {times.measured} of {_count(nodes, 'node')} "
            f"({whence})."
        )
    if times.pooled:
        found.append(
            f"With less than {LEAST_SAMPLES} samples, and so taken as typical of the IAD: "
            f"{_count(times.pooled, 'node')}."
        )
    for name, count in times.assumed.items():
        profile = profiles[name]
        what = "" if name == ASSUMED else f" (profile {name})"
        found.append(
            f"Not measured, pods assumed lognormal with mean {profile.mean_s * 1e3:g} ms, "
            f"σ {profile.sigma:g}{what}: {_count(count, 'node')}."
        )
    if options.config is not None and (guessed := sum(bool(node.area) for node in plan.nodes)):
        found.append(f"Assumed, one for each area: {_count(guessed, 'node')}.")
    overheads = measured.overheads or ASSUMED_OVERHEADS
    outside_ms = (overheads.before_s + overheads.after_s) * 1e3
    whence = "measured" if measured.overheads else "the means of DSSP's testbed"
    found.append(f"Outside queues and pods a query spends {outside_ms:.2g} ms ({whence}).")
    if measured.unreadable:
        found.append(f"Left out of the records: {_count(measured.unreadable, 'unreadable line')}.")
    if options.classes is None and models is not None:
        found.extend(models.sentences())
    elif options.classes is None:
        found.append("Classes: those of DSSP's testbed (Table II); --classes takes your own.")
    return tuple(found)


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _cases(options: Options, inputs: _Inputs) -> list[Case]:
    model = inputs.model
    wanted = max(BEYOND / (k.share * (1.0 - k.percentile / 100.0)) for k in model.classes)
    most = max(LEAST_QUERIES, round(MAX_SUBTASKS / model.subtasks))
    queries = min(options.queries or max(QUERIES, round(wanted)), most)
    for kind in model.classes:
        if queries * kind.share < LEAST_OF_CLASS:
            raise ConfigError(
                f"class {kind.name} is too rare to be simulated: {kind.share:g} of {queries:,} "
                f"queries; its share must be {LEAST_OF_CLASS / queries:.2g} at least"
            )
    return make_cases(model, inputs.pods, queries=queries, seed=options.seed, seeds=options.seeds)


def _shortened(asked: int | None, queries: int) -> tuple[str, ...]:
    if asked is None or asked == queries:
        return ()
    most = f"no more than {MAX_SUBTASKS:,} subtasks are simulated in one"
    return (f"a run has {queries:,} queries, not {asked:,}: {most}",)


# --- the plan -------------------------------------------------------------------------------------


def _report(options: Options, inputs: _Inputs, cases: Sequence[Case]) -> CapacityReport:
    model, pods, target_per_s = inputs.model, inputs.pods, options.target_per_s
    policies = options.policies
    with_curves = options.picture is not None or options.as_json
    rounds = 1 + with_curves + (target_per_s is not None)
    progress = DemoScreen(screen.console(stderr=True)).progress
    with progress("Planning", rounds * len(policies)) as advance:
        done = itertools.count()

        def each(what: str) -> Iterator[Policy]:
            for policy in policies:
                advance(next(done), f"{policy_name(policy)}, {what}")
                yield policy

        highest = [highest_rate(cases, policy) for policy in each("highest rate")]
        plans = []
        if target_per_s is not None:
            plans = [plan_pods(cases, policy, target_per_s, inputs.most) for policy in each("pods")]
        most_per_s = max([target_per_s or 0.0, *(found.rate_per_s.mean for found in highest)])
        most_per_s = CURVES_TO * most_per_s or model.limit_per_s(pods)
        curves = []
        if with_curves:
            curves = [curve(cases, policy, most_per_s) for policy in each("curve")]
    named = Namer(model, pods)
    classes = class_reports(cases)
    queries = len(cases[0].draw.query_class)
    means_ms = [model.times.kinds[kind].mean_s * 1e3 for kind in model.times.kind]
    return CapacityReport(
        fleet=inputs.fleet,
        pods=named.pods(pods),
        unloaded_mean_ms=named.by_node(means_ms),
        overheads_ms=(model.overheads.before_s + model.overheads.after_s) * 1e3,
        classes=classes,
        queries=queries,
        seeds=tuple(case.seed for case in cases),
        target_per_s=target_per_s,
        assumptions=inputs.assumptions,
        cautions=(*cautions(classes, queries), *_shortened(options.queries, queries)),
        policies=tuple(PolicyReport(found.policy, named.highest(found)) for found in highest),
        plans=tuple(map(named.plan, plans)),
        curves=tuple(curves),
    )
