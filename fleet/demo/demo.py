"""`fleet demo`: starts a fleet on one machine, queries it, and compares FIFO with EDFQ."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

import msgspec
from msgspec import Struct, field
from rich.console import Console

from agent.client import NoReplyError, PublishError, SubscriptionError, WatchError
from agent.wire.emulation import PROFILES
from fleet.common import exits
from fleet.demo import alerts, asking, ending, load, topics
from fleet.demo.options import Options
from fleet.demo.story import QUESTIONS, Story, busy, comparison, not_counted, verdict
from fleet.query import running
from fleet.simulation.layout import PRELOAD_ROWS, FleetLayout, building_fleet
from fleet.simulation.measures import ClassSummary
from fleet.simulation.screen import DemoScreen
from fleet.terminal import browser, output, screen
from fleet.testbed import page
from fleet.testbed.load_generator import LoadGenerator
from fleet.testbed.processes import holders, in_words
from fleet.testbed.run_folder import RunFolderError, explained, run_folder
from fleet.testbed.testbed import Testbed, TestbedError

# A query in virtual time under both policies, on one slow core.
SIMULATED_S: Final = 0.002
DETAILS: Final = "details.txt"
RESULTS: Final = "results.json"


class Results(Struct, frozen=True):
    """results.json: parameters and measurements: `alerts_ms` from a reading to a subscriber.
    `virtual` is in virtual time; `questions` are the classes of queries in words."""

    emulated: str
    rate_per_s: float
    seed: int
    seconds: float
    alerts_ms: list[float]
    moved: topics.Move
    real: list[load.Run]
    virtual: list[load.Run]
    questions: dict[str, str] = field(default_factory=lambda: dict(QUESTIONS))


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
            _run(options)
        if options.keep:
            output.say(f"ended; {left(options.directory)}")
    except KeyboardInterrupt:
        return exits.fail(f"interrupted; {left(options.directory)}", exits.INTERRUPTED)
    except RunFolderError as error:
        # make has an option --directory of its own.
        by_make = ', with make as ARGS="--directory FOLDER"' if "MAKELEVEL" in os.environ else ""
        return exits.fail(f"{error}{by_make}", exits.FAILED)
    except TestbedError as error:
        sys.stderr.write(f"fleet: {explained(error, options.directory)}\n")
        return exits.FAILED
    except NoReplyError as error:
        said = str(error).partition(";")[0]  # its master runs
        load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
        busy = f"is this machine too busy (load {load:.1f} on {cores} cores)?"
        text = f"{said}: {busy} Logs: {options.directory}"
        return exits.fail(explained(text, options.directory), exits.FAILED)
    except (OSError, WatchError, SubscriptionError, PublishError) as error:
        return exits.fail(explained(error, options.directory), exits.FAILED)
    return exits.DONE


def left(directory: Path) -> str:
    """Processes that are left of the fleet: agents that were started again by hand go on."""
    if writers := holders(directory):
        return f"started by hand, and still running: {in_words(writers)}"
    return "no process of the fleet is left"


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _run(options: Options) -> None:
    plan = building_fleet()
    terminal = screen.console()
    story = Story(terminal, silent=options.verbose)
    with (
        ExitStack() as stack,
        Testbed(
            plan,
            options.directory,
            market=True,
            overlay=alerts.OVERLAY,
            triggers=alerts.TRIGGERS,
            usual_port=True,
        ) as bed,
    ):
        details = terminal
        if not options.verbose:
            file = stack.enter_context((options.directory / DETAILS).open("w", encoding="utf-8"))
            details = Console(file=file, width=screen.FILE_WIDTH, highlight=False, markup=False)
        show = DemoScreen(details, terminal)
        _introduce(plan, show, story)
        with running.announced((), directory=options.directory):
            _start(bed, show, story)
        stack.enter_context(running.announced(_addresses(bed), directory=options.directory))
        asking.trade(bed, show)
        _open_page(bed, show, story)
        asking.ask(bed, show, story)
        asking.watch_room(bed, show)
        alerts_ms = alerts.show_alerts(bed, show, story)
        moved = topics.show_topics(bed, show, story)
        real, virtual = _under_load(bed, options, show, story)
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
        path = options.directory / RESULTS
        path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
        ending.end(bed, options, terminal)


def _addresses(bed: Testbed) -> tuple[running.Addresses, ...]:
    names = [iad.name for iad in bed.plan.iads]
    return tuple(running.Addresses(name, bed.public(name), bed.operator(name)) for name in names)


def _introduce(plan: FleetLayout, show: DemoScreen, story: Story) -> None:
    story.begin(
        f"Sanderling: ask a building of {len(plan.nodes)} sensor nodes, and get the answer in time."
    )
    story.begin(
        f"{len(plan.iads)} owners share it, each with a master and "
        f"{len(plan.iads[0].nodes)} nodes. The readings were recorded in a real office building, "
        "and how long a Raspberry Pi computes is emulated; the rest is real: processes on this "
        "machine."
    )
    show.say(
        f"Sanderling demo: {len(plan.iads)} IADs (domains of one owner each: a master and its "
        f"nodes) with {len(plan.nodes)} edge nodes of an office building, each a real process on "
        "this machine, talking over loopback TCP. Each node replays the recorded temperature and "
        "humidity of one room, a row a second."
    )
    show.say(f"Emulated: {EMULATED}. iad4 is the hot spot.", style="yellow")


def _start(bed: Testbed, show: DemoScreen, story: Story) -> None:
    story.step("Start the building")
    show.heading("1  The fleet comes up")
    masters, nodes = len(bed.plan.iads), len(bed.plan.nodes)
    started_s = time.monotonic()
    text = f"Starting {masters} masters, {nodes} nodes"
    with show.progress(text, nodes) as advance:
        for progress in bed.start():
            advance(
                progress.nodes_live,
                f"{progress.masters_ready}/{masters} masters, {progress.nodes_live}/{nodes} nodes",
            )
    took_s = time.monotonic() - started_s
    story.say(f"{masters} masters and {nodes} nodes are up after {took_s:.1f} s.")
    show.say(
        f"{masters} masters and {nodes} edge nodes are up after "
        f"{took_s:.1f} s, each node with the {PRELOAD_ROWS:,} rows before."
    )


def _open_page(bed: Testbed, show: DemoScreen, story: Story) -> None:
    """Serve the live page, and show it to whoever sits here."""
    if trouble := page.start(bed, bed.directory / RESULTS):
        for line in trouble.splitlines():
            story.say(line)
            show.say(line, "yellow")
        return
    link = page.link(bed.directory)
    opened = sys.stdout.isatty() and browser.open_page(link)
    shown = ", open in your browser" if opened else ""
    story.say(f"Its live page{shown}, for one browser within 10 minutes:")
    story.copy(link)
    show.say(f"Its live page: {page.served_at(bed.directory)}")


def _by_policy(runs: list[load.Run]) -> dict[str, list[ClassSummary]]:
    """The summaries of each policy's run."""
    return {run.policy: run.classes for run in runs}


def _under_load(
    bed: Testbed, options: Options, show: DemoScreen, story: Story
) -> tuple[list[load.Run], list[load.Run]]:
    """The runs by real processes, and in virtual time."""

    def look() -> None:
        ending.look_after(bed, show.bars, measuring=True)

    story.step("Keep the promise when everybody asks at once")
    story.say(
        f"{options.rate_per_s:g} questions a second, first come, first served (FIFO); then the "
        "same with the most urgent first (EDFQ). Takes "
        f"{2 * options.seconds + min(load.MAX_WARM_UP_S, options.seconds / 2):.0f} s, then some "
        f"{max(1.0, options.virtual_queries * SIMULATED_S):.0f} s to simulate."
    )
    trace = load.record(bed.plan, options)
    addresses = {iad.name: bed.public(iad.name) for iad in bed.plan.iads}
    with LoadGenerator(addresses) as generator:
        load.warm_up(bed, generator, options, show, look)
        real = load.compare(bed, generator, trace, options, show, look)
    load_average = os.getloadavg()[0]  # before the simulation adds to it
    virtual = load.virtual(bed.plan, options, show)
    of_real, of_virtual = (_by_policy(runs) for runs in (real, virtual))
    for row in comparison(of_real, of_virtual, story.width):
        story.copy(row)
    story.say(verdict(of_virtual))
    if said := busy(of_real, load_average, len(os.sched_getaffinity(0))):
        story.say(said)
    for text in not_counted(of_real):
        story.say(text)
    return real, virtual
