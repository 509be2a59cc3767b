"""`fleet demo`: starts a fleet on one machine, queries it, and compares FIFO with EDFQ."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from agent.client import Client, Operator
from agent.wire.base import Form, Policy
from agent.wire.emulation import PROFILES
from agent.wire.messages import Slo
from agent.wire.operator import CreateService
from agent.wire.watches import Style
from fleet.common import exits
from fleet.demo import alerts, topics
from fleet.query import running, service_screen, watch
from fleet.simulation import workload
from fleet.simulation.layout import PRELOAD_ROWS, FleetLayout, building_fleet
from fleet.simulation.measures import ClassSummary, Outcome, summarize
from fleet.simulation.screen import POLICY_NAMES, DemoScreen, verdict
from fleet.simulation.virtual import VirtualFleet
from fleet.simulation.workload import Arrival
from fleet.terminal import screen
from fleet.terminal.units import format_duration
from fleet.testbed.load_generator import LoadGenerator, Tick
from fleet.testbed.processes import holders, in_words
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.run_records import tasks_of
from fleet.testbed.testbed import DRS, Testbed, TestbedError

# As in DSSP's testbed: each service gives one kind of readings, and both pools contain all IADs.
SERVICES: Final = ("temperature", "humidity")
SERVICE_SLO: Final = Slo(99.0, 2_000.0)
SERVICE_RATE_PER_S: Final = 2.5
WATCHED_S: Final = 3.0
TRIGGER: Final = "temperature > 20"
HUMID: Final = "humidity > 50 or rate(humidity) > 1/min"
POLICIES: Final[tuple[Policy, ...]] = ("fifo", "edfq")
LOOK_EVERY_S: Final = 1.0
# Long enough for a hundred response times of every node, at a load that two cores easily carry.
LONGEST_WARM_UP_S: Final = 15.0
WARM_UP_RATE_PER_S: Final = 8.0


class Options(Struct, frozen=True):
    """Options of `fleet demo`: `rate_per_s` is λ, over all query schedulers."""

    directory: Path
    seconds: float
    rate_per_s: float
    seed: int
    virtual_queries: int
    keep: bool


class Question(Struct, frozen=True):
    """A query that the demo shows, and its purpose."""

    title: str
    areas: tuple[str, ...]
    last_s: float
    slo: Slo
    form: Form
    service: str


class Run(Struct, frozen=True):
    """One policy's run: its seconds, and its summary by class."""

    policy: Policy
    seconds: float
    classes: list[ClassSummary]


class Results(Struct, frozen=True):
    """results.json: parameters and measurements: `alerts_ms` from a reading to a subscriber.
    `virtual` is in virtual time."""

    emulated: str
    rate_per_s: float
    seed: int
    seconds: float
    alerts_ms: list[float]
    moved: topics.Move
    real: list[Run]
    virtual: list[Run]


EMULATED: Final = (
    "the service time of every pod, lognormal, on top of the real retrieval: mean "
    + ", ".join(
        f"{name} {profile.mean_s * 1e3:g} ms"
        for name, profile in PROFILES.items()
        if not profile.by_size
    )
    + f", σ = {PROFILES['pi4'].sigma:g}"
)


def run(options: Options) -> int:
    """Run the demo; the exit status."""
    # Signals other than Ctrl-C lead to an orderly shutdown, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        with run_folder(options.directory):
            _run(options, DemoScreen(screen.console()))
    except KeyboardInterrupt:
        return exits.fail(f"interrupted; {left(options.directory)}", exits.INTERRUPTED)
    except (RunFolderError, TestbedError) as error:
        sys.stderr.write(f"fleet: {error}\n")  # a process's last output may be several lines
        return exits.FAILED
    except OSError as error:
        return exits.fail(str(error), exits.FAILED)
    return exits.DONE


def left(directory: Path) -> str:
    """What is left of the fleet: agents that were started again by hand go on."""
    if writers := holders(directory):
        return f"started by hand, and still running: {in_words(writers)}"
    return "no process of the fleet is left"


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _run(options: Options, show: DemoScreen) -> None:
    plan = building_fleet()
    _introduce(plan, show)
    with (
        ExitStack() as stack,
        Testbed(
            plan,
            options.directory,
            market=True,
            overlay=alerts.OVERLAY,
            triggers=alerts.TRIGGERS,
        ) as bed,
    ):
        _start(bed, show)
        stack.enter_context(running.announced(_addresses(bed)))
        _trade(bed, show)
        _ask(bed, show)
        _watch(bed, show)
        alerts_ms = alerts.show_alerts(bed, show)
        moved = topics.show_topics(bed, show)
        trace = _record(plan, options)
        addresses = {iad.name: bed.public(iad.name) for iad in plan.iads}
        with LoadGenerator(addresses) as load:
            _warm_up(bed, load, options, show)
            real = _compare(bed, load, trace, options, show)
        virtual = _virtual(plan, options, show)
        results = Results(
            EMULATED,
            options.rate_per_s,
            options.seed,
            options.seconds,
            alerts_ms,
            moved,
            real,
            virtual,
        )
        path = options.directory / "results.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
        show.say("")
        show.say(f"Records, trace, logs and results.json of this run are in {options.directory}/.")
        if options.keep:
            _keep(bed, show)


def _addresses(bed: Testbed) -> tuple[running.Addresses, ...]:
    names = [iad.name for iad in bed.plan.iads]
    return tuple(running.Addresses(name, bed.public(name), bed.operator(name)) for name in names)


def _introduce(plan: FleetLayout, show: DemoScreen) -> None:
    show.say(
        f"Sanderling demo: {len(plan.iads)} IADs (domains of one owner each: a master and its "
        f"nodes) with {len(plan.nodes)} edge nodes of an office building, each a real process on "
        "this machine, talking over loopback TCP. Each node replays the recorded temperature and "
        "humidity of one room, a row a second."
    )
    show.say(f"Emulated: {EMULATED}. iad4 is the hot spot.", style="yellow")


# --- 1: the fleet comes up ------------------------------------------------------------------------


def _start(bed: Testbed, show: DemoScreen) -> None:
    show.heading("1  The fleet comes up")
    masters, nodes = len(bed.plan.iads), len(bed.plan.nodes)
    started_s = time.monotonic()
    text = f"Starting a registration service, {masters} masters and {nodes} edge nodes"
    with show.progress(text, nodes) as advance:
        for progress in bed.start():
            advance(
                progress.nodes_live,
                f"{progress.masters_ready}/{masters} masters, {progress.nodes_live}/{nodes} nodes",
            )
    show.say(
        f"{masters} masters and {nodes} edge nodes are up after "
        f"{time.monotonic() - started_s:.1f} s, each node with the {PRELOAD_ROWS:,} rows before."
    )


# --- 2: the market --------------------------------------------------------------------------------


def _trade(bed: Testbed, show: DemoScreen) -> None:
    show.heading("2  The market: two services are set up")
    show.say(
        "Each IAD has registered what it senses and where, and nothing else, with the registration "
        f"service (DRS). {bed.plan.iads[0].name} now buys: it discovers who offers, proposes terms "
        "to each, each reckons the pods it would need (DSSP Eq. 10) and accepts, and all join the "
        "service's pool. A rate counts queries that ask everything: one that asks a room of 32 "
        "counts 1/32.",
        style="dim",
    )
    iad = bed.plan.iads[0].name
    with Operator(bed.operator(iad)) as operator:
        for number, service in enumerate(SERVICES):
            report = operator.ask_service(
                CreateService(
                    id=service,
                    service=service,
                    capability=service,
                    areas=("b1",),
                    slo=SERVICE_SLO,
                    rate_per_s=SERVICE_RATE_PER_S,
                )
            )
            if not report.ok:
                raise TestbedError(f"service {service} was not set up: {report.message}")
            show.say("")
            if number == 0:
                service_screen.show_report(show.console, report)
            else:
                members = len(report.services[0].members)
                text = f"{service}: likewise, {members} IADs, {report.elapsed_ms:.0f} ms"
                show.say(text)


# --- 3: three queries -----------------------------------------------------------------------------


def _questions(plan: FleetLayout) -> list[Question]:
    firsts = tuple(iad.areas[0] for iad in plan.iads)
    return [
        Question("One room", firsts[2:3], 600.0, Slo(99.0, 500.0), "series", "temperature"),
        Question("One room in each IAD", firsts, 3_600.0, Slo(99.0, 800.0), "series", "humidity"),
        Question("Everything", ("b1",), 10_800.0, Slo(99.0, 1_200.0), "aggregate", "temperature"),
    ]


def _ask(bed: Testbed, show: DemoScreen) -> None:
    show.heading("3  Three queries")
    show.say(
        "budget: what each IAD's task may take. unloaded: what its nodes need for that when idle "
        "(for now a guess of 100 ms on average: nothing was measured yet). deadline: how long the "
        "subtasks may wait, budget − unloaded. The last two only an IAD's own operator sees.",
        style="dim",
    )
    iad = bed.plan.iads[0].name
    folders = [bed.records(iad.name) for iad in bed.plan.iads]
    with Client(bed.public(iad)) as client:
        for question in _questions(bed.plan):
            answer = client.query(
                question.areas,
                last_s=question.last_s,
                percentile=question.slo.percentile,
                latency_ms=question.slo.latency_ms,
                form=question.form,
                service=question.service,
                label=question.title,
            )
            show.say("")
            screen.line(
                show.console,
                f"{question.title}: {question.service} of {' '.join(question.areas)}, "
                f"last {format_duration(question.last_s)}",
                style="bold",
            )
            tasks = tasks_of(question.title, folders)
            screen.show_answer(show.console, answer, question.slo, tasks)
    show.say(
        "bad: values that the nodes flagged, in none of the other numbers. They are faults of the "
        "recording, such as single values of 70 °C, and jumps where it has a gap of hours, which "
        "is played in a second.",
        "dim",
    )


# --- 4: standing queries --------------------------------------------------------------------------


def _watch(bed: Testbed, show: DemoScreen) -> None:
    show.heading("4  Standing queries: every round is a query of its own")
    show.say(f"{watch.CHANNELS}.", style="dim")
    room = bed.plan.iads[2].areas[0]
    with Client(bed.public(bed.plan.iads[0].name)) as client:
        styles: tuple[tuple[Style, str], ...]
        styles = (("periodic", ""), ("streaming", ""), ("event", TRIGGER))
        for style, trigger in styles:
            show.say("")
            what = f"{style}, every second" + (f", when {trigger}" if trigger else "")
            screen.line(show.console, f"{room}: {what}", style="bold")
            standing = client.watch(
                [room],
                style=style,
                interval_s=1.0,
                lasting_s=WATCHED_S,
                trigger=trigger,
                service="temperature",
            )
            with standing as rounds:
                screen.line(show.console, watch.header())
                for each in rounds:
                    for text in watch.round_lines(each, time.time()):
                        screen.line(show.console, text)


# --- 7 and 8: the load under two policies ---------------------------------------------------------


def _record(plan: FleetLayout, options: Options) -> list[Arrival]:
    """Write the trace to its file and read it back, so that the file is exactly what was run."""
    path = options.directory / "trace.jsonl"
    arrivals = workload.arrivals(
        plan, rate_per_s=options.rate_per_s, seed=options.seed, services=SERVICES
    )
    workload.record(workload.within(arrivals, options.seconds), path)
    return workload.replay(path)


@contextmanager
def _bar(bed: Testbed, show: DemoScreen, text: str, seconds: float, queries: int) -> Iterator[Tick]:
    """A progress bar for a replay; it also notices a process that died."""
    looked_s = -LOOK_EVERY_S
    with show.progress(text, seconds) as advance:

        def tick(now_s: float, answered: int) -> None:
            nonlocal looked_s
            if now_s - looked_s >= LOOK_EVERY_S:
                looked_s = now_s
                _go_on(bed, show, measuring=True)
            advance(min(now_s, seconds), f"{answered}/{queries} answers")

        yield tick


def _warm_up(bed: Testbed, load: LoadGenerator, options: Options, show: DemoScreen) -> None:
    show.heading("7  Warm-up")
    seconds = min(LONGEST_WARM_UP_S, options.seconds / 2)
    trace = workload.warm_up(
        bed.plan,
        seconds=seconds,
        rate_per_s=WARM_UP_RATE_PER_S,
        seed=options.seed,
        services=SERVICES,
    )
    with _bar(bed, show, "Measuring the nodes", seconds, len(trace)) as tick:
        load.replay(trace, workload.WARM_UP, tick)
    samples = [node.unloaded_samples for status in bed.statuses().values() for node in status.nodes]
    show.say(f"Every node's unloaded response time is measured: {min(samples, default=0)} times.")


def _compare(
    bed: Testbed, load: LoadGenerator, trace: Sequence[Arrival], options: Options, show: DemoScreen
) -> list[Run]:
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
        with _bar(bed, show, text, options.seconds, len(trace)) as tick:
            outcomes = load.replay(trace, policy, tick)
        runs.append(_finished(policy, time.monotonic() - started_s, outcomes))
    show.say("Measured at the client:")
    show.runs({run.policy: run.classes for run in runs}, with_p99=False)
    show.say("Too few for a 99th percentile; that follows.", style="dim")
    return runs


def _finished(policy: Policy, seconds: float, outcomes: list[Outcome]) -> Run:
    return Run(policy, round(seconds, 3), summarize(outcomes))


# --- 9: virtual time ------------------------------------------------------------------------------


def _virtual(plan: FleetLayout, options: Options, show: DemoScreen) -> list[Run]:
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
    text = f"{len(trace):,} queries under {POLICY_NAMES[policy]}, virtual time"
    with show.progress(text, len(trace)) as advance:
        return VirtualFleet(plan, policy).run(trace, lambda n: advance(n, f"{n:,} answers"))


# --- afterwards -----------------------------------------------------------------------------------


def _keep(bed: Testbed, show: DemoScreen) -> None:
    show.heading("The fleet keeps running; Ctrl-C stops it")
    iad = bed.plan.iads[0].name
    address = bed.public(iad)
    show.say(
        f"{iad}'s socket for queries: {address}. While the demo runs, commands without --master "
        f"use it, those with --iad {bed.plan.iads[1].name} that master. Try in another terminal, "
        "in this folder:"
    )
    query = f"{fleet_command()} query --master {address}"
    for rest in (
        "--area b1/f4/r413 --last 10m --slo p99=500ms",
        "--area b1/f7 --last 1h --slo p99=800ms",
        "--area b1 --last 3h --slo p99=1200ms --aggregate",
    ):
        screen.as_it_is(show.console, f"  {query} --service temperature {rest}")
    show.say("Standing queries, until Ctrl-C:")
    standing = f"{fleet_command()} watch --master {address} --service humidity --area b1/f4"
    for rest in ("--every 5s", "--every 2s --stream", f"--every 2s --when '{HUMID}'"):
        screen.as_it_is(show.console, f"  {standing} {rest}")
    show.say("Alerts, until Ctrl-C:")
    wanted = alerts.WANTED
    screen.as_it_is(show.console, f"  {fleet_command()} subscribe --master {address} '{wanted}'")
    asked = f"{fleet_command()} watch --master {address} --service humidity --area b1/f6"
    screen.as_it_is(show.console, f"  {asked} --every 5s --window 10s --on '{wanted}'")
    show.say("And its operator's view:")
    for command in ("status", "service list", "service show temperature"):
        line = f"  {fleet_command()} {command} --operator {bed.operator(iad)}"
        screen.as_it_is(show.console, line)
    while True:
        _go_on(bed, show, measuring=False)
        time.sleep(LOOK_EVERY_S)


def _go_on(bed: Testbed, show: DemoScreen, *, measuring: bool) -> None:
    """Report processes that have ended, and the commands that start them again. TestbedError if it
    is a master while load is measured, because every query scheduler has a part of the load."""
    areas = {node.name: node.area for node in bed.plan.nodes}
    for child in bed.let_go():
        if area := areas.get(child.name):
            lost = f"{area} is node_down"
        elif measuring:
            raise TestbedError(child.how_it_ended())
        else:
            lost = "no service changes" if child.name == DRS else "its areas are unreachable"
        screen.line(show.console, f"{child.end}: {lost}. Start it again:", "yellow")
        program, *rest = bed.command(child.name)
        screen.as_it_is(show.console, f"  {shlex.join([_typed(Path(program)), *rest])}")


def fleet_command() -> str:
    """This command as the user would type it here."""
    return _typed(Path(sys.argv[0]))


def _typed(path: Path) -> str:
    """A command as the user would type it here: by its name if the shell finds this one."""
    path = path.absolute()
    found = shutil.which(path.name)
    if found is not None and Path(found).absolute() == path:
        return path.name
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
