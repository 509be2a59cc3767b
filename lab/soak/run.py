"""`fleet lab soak`: the whole product for hours, under load, with restarts, and how it does."""

from __future__ import annotations

import itertools
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from agent.wire.edge_config import EdgeHistory
from agent.wire.master_config import MasterNotifications, MasterRecords
from fleet.common import exits
from fleet.simulation.layout import FleetLayout, building_fleet, part_of
from fleet.terminal import screen
from fleet.terminal.tables import Table
from fleet.testbed.page import GATEWAY
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.testbed import TestbedError
from lab import pages, provenance
from lab.chaos.checker import broken
from lab.chaos.fault_plan import Fault
from lab.chaos.fleet import Fleet, sensor
from lab.chaos.history import History, begun, save
from lab.chaos.run import live
from lab.soak.browsers import Browsers
from lab.soak.deploys import Deploys
from lab.soak.hosted import Hosted, obstacle
from lab.soak.judge import Slope, judge, slope, warm
from lab.soak.pulls import Pulls
from lab.soak.rotations import Rotations
from lab.soak.sampler import KINDS, Sampler, Series, write_samples

NAME: Final = "soak"
SAMPLED: Final = "samples.csv"
HOSTS: Final = "hosts"
# Folders that nobody looks at after a run in which nothing was broken, beside those of IADs.
OTHERS: Final = (HOSTS, "keys", "lake")
SENSOR: Final = sensor(0.25)
BROWSERS: Final = 3
LIMIT_PERCENT: Final = 1.0
SAMPLES: Final = 400
MAX_SAMPLE_S: Final = 30.0
RESTARTS: Final = 6
AWAY_S: Final = 2.0
# Three days of readings and months of records, in minutes.
SHORT_HISTORY: Final = EdgeHistory(retention_s=60.0)
SHORT_LOG: Final = 5_000
SHORT_MEMORY: Final = MasterNotifications(remembered=2_000)
SHORT_RECORDS: Final = MasterRecords(rotate_bytes=262_144, keep_files=64, flush_s=0.2)


class Options(Struct, frozen=True):
    """The options of `fleet lab soak`; `rate_per_s`: queries, over all masters; `hosts`: nodes of
    one more IAD whose hosts are deployed to, which needs root."""

    directory: Path
    seconds: float
    rate_per_s: float
    iads: int
    nodes: int
    seed: int
    hosts: int = 0


class Line(Struct, frozen=True):
    """How one kind of process does in one respect: the worst of them. `level` is its mean."""

    kind: str
    process: str
    level: float
    found: Slope | None
    verdict: str


class Soaked(Struct, frozen=True):
    """What a run has shown."""

    history: History
    lines: list[Line]
    broken: list[str]
    streamed: int = 0
    rotated: int = 0
    closed: int = 0
    deployed: int = 0
    pulls: int = 0
    pulled_records: int = 0
    pulled_readings: int = 0


def soak(options: Options) -> Soaked:
    """Run the product. TestbedError if it does not start."""
    layout = part_of(building_fleet(), options.iads, options.nodes)
    with ExitStack() as stack:
        hosted = None
        if options.hosts:
            folder = options.directory / HOSTS
            hosted = stack.enter_context(
                Hosted(
                    folder,
                    layout,
                    options.hosts,
                    SENSOR,
                    SHORT_HISTORY,
                    SHORT_RECORDS,
                    SHORT_MEMORY,
                )
            )
        fleet = stack.enter_context(
            Fleet(
                layout,
                options.directory,
                SENSOR,
                history=SHORT_HISTORY,
                records=SHORT_RECORDS,
                notifications=SHORT_MEMORY,
                log_entries=SHORT_LOG,
                clones=True,
                keyed=True,
                elsewhere=hosted,
            )
        )
        names = [iad.name for iad in layout.iads] + [node.name for node in layout.nodes] + [GATEWAY]
        begun_s = time.monotonic()
        sample_s = min(MAX_SAMPLE_S, options.seconds / SAMPLES)
        every_s = _every_s(options.seconds)
        with ExitStack() as beside:
            sampler = beside.enter_context(
                Sampler(fleet.bed, names, sample_s, lambda: time.monotonic() - begun_s)
            )
            browsers = beside.enter_context(Browsers(fleet.reached.gateway, BROWSERS))
            rotations = beside.enter_context(Rotations(fleet.bed, hosted, options.seconds, every_s))
            deploys = hosted and beside.enter_context(Deploys(hosted, options.seconds))
            pulls = beside.enter_context(Pulls(options.directory, hosted, options.seconds))
            history = live(
                fleet,
                options.seed,
                restarts(layout, options.seconds),
                options.seconds,
                lambda _: None,
                len(fleet.reached.publics) / options.rate_per_s,
                rotations.wait,
            )
        pulls.pull()
        if hosted:
            history.faults += hosted.restarts(history.began_s)
    save(history, options.directory / f"{NAME}.jsonl")
    write_samples(sampler.points, options.directory / SAMPLED)
    series = sampler.points | latencies(history)
    return Soaked(
        history,
        [*judged(series, options.seconds)],
        [
            *broken(history),
            *rotations.failed,
            *(deploys.failed if deploys else ()),
            *pulls.failed,
            *pulls.lost(history),
        ],
        browsers.lines,
        rotations.done,
        fleet.kept.closed,
        deploys.done if deploys else 0,
        pulls.done,
        pulls.records,
        pulls.readings,
    )


def restarts(layout: FleetLayout, seconds: float) -> list[Fault]:
    """A node and a master of the last IAD in turn, as a deployment restarts them; all others run
    from the beginning to the end."""
    last = layout.iads[-1]
    every_s = _every_s(seconds)
    targets = itertools.cycle((last.nodes[-1].name, last.name))
    return [
        Fault("restart", (name,), every_s * n, every_s * n + AWAY_S)
        for n, name in zip(range(1, RESTARTS + 1), targets, strict=False)
    ]


def _every_s(seconds: float) -> float:
    """From one restart to the next."""
    return seconds / (RESTARTS + 1)


def latencies(history: History) -> dict[Series, list[tuple[float, float]]]:
    """Milliseconds of complete answers, by whom was asked."""
    found: dict[Series, list[tuple[float, float]]] = {}
    for each in sorted(history.asked, key=lambda asked: asked.at_s):
        if each.status == "complete":
            series = found.setdefault(Series(each.master, 0, "latency"), [])
            series.append((each.at_s, (each.until_s - each.at_s) * 1e3))
    return found


def judged(series: dict[Series, list[tuple[float, float]]], run_s: float) -> Iterator[Line]:
    """In each respect the worst of each kind of process."""
    lines: dict[tuple[str, str], list[Line]] = {}
    for of, points in series.items():
        # What was started later warms up later: all of its series is judged less its first half.
        begun_s = points[0][0]
        left = warm([(at_s - begun_s, value) for at_s, value in points], run_s - begun_s)
        found = slope(left)
        lasted_s = left[-1][0] - left[0][0] if left else 0.0
        level = sum(value for _, value in left) / max(1, len(left))
        verdict = judge(found, lasted_s, LIMIT_PERCENT)
        line = Line(of.kind, of.name, level, found, verdict)
        lines.setdefault((of.kind, _role(of.name)), []).append(line)
    for (kind, role), some in sorted(lines.items(), key=_order):
        worst = max(some, key=_badness)
        yield Line(kind, f"{role} ({worst.process})", worst.level, worst.found, worst.verdict)


def _order(item: tuple[tuple[str, str], list[Line]]) -> tuple[int, str]:
    (kind, role), _ = item
    return ((*KINDS, "latency").index(kind), role)


def _role(name: str) -> str:
    if name == GATEWAY:
        return name
    return "node" if "-" in name else "master"


def _badness(line: Line) -> tuple[int, float]:
    slow = line.found.high if line.found else 0.0
    return ("passed", "not shown", "failed").index(line.verdict), slow


def run(options: Options, results: Path) -> int:
    """Run the product, show and write how it did; the exit status says whether it failed."""
    terminal = screen.console()
    if options.hosts and (why := obstacle()):
        screen.line(terminal, f"no release is deployed in this run: {why}", "yellow")
        options = replace(options, hosts=0)
    origin = provenance.now(
        f"fleet lab soak --minutes {options.seconds / 60:g} --rate {options.rate_per_s:g} "
        f"--iads {options.iads} --nodes {options.nodes} --hosts {options.hosts} "
        f"--seed {options.seed}"
    )
    # Hosts outlive this process, unless it ends in order.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with run_folder(options.directory):
            soaked = soak(options)
            page = pages.write(results, NAME, tables(soaked, options), origin)
            if not soaked.broken:
                kept = (*options.directory.glob("iad*"), *map(options.directory.joinpath, OTHERS))
                for each in kept:
                    shutil.rmtree(each, ignore_errors=True)
    except KeyboardInterrupt:
        return exits.fail("interrupted; no process of the fleet is left", exits.INTERRUPTED)
    except (RunFolderError, TestbedError) as error:
        sys.stderr.write(f"fleet: {error}\n")  # the last output of a process may have several lines
        return exits.FAILED
    wrong = [f"{e.kind} of {e.process} grows" for e in soaked.lines if e.verdict == "failed"]
    for line in (*soaked.broken, *wrong):
        screen.line(terminal, line, "bold red")
    screen.line(terminal, str(page))
    return exits.FAILED if soaked.broken or wrong else exits.DONE


def tables(soaked: Soaked, options: Options) -> dict[str, Table]:
    """Those of the page."""
    history = soaked.history
    counted = [
        ("masters", f"{options.iads}"),
        ("nodes", f"{options.iads * options.nodes}"),
        ("hosts that are deployed to", f"{options.hosts + 1 if options.hosts else 0}"),
        ("deployments of another release to all of them", f"{soaked.deployed}"),
        ("queries", f"{len(history.asked):,}"),
        ("answered completely", f"{sum(a.status == 'complete' for a in history.asked):,}"),
        ("rounds of watches", f"{len(history.rounds):,}"),
        ("alerts", f"{len(history.alerts):,}"),
        ("messages put out", f"{len(history.outputs):,}"),
        ("clones", f"{len(history.clones):,}"),
        ("outputs of clones", f"{len(history.clone_outputs):,}"),
        ("moves begun, of topic and clones", f"{begun(history):,}"),
        ("restarts", f"{len(history.faults):,}"),
        ("files of records closed", f"{soaked.closed:,}"),
        ("keys rotated", f"{soaked.rotated:,}"),
        ("pulls of logs", f"{soaked.pulls:,}"),
        ("records pulled", f"{soaked.pulled_records:,}"),
        ("readings pulled", f"{soaked.pulled_readings:,}"),
        ("lines streamed to browsers", f"{soaked.streamed:,}"),
        ("promises broken", f"{len(soaked.broken):,}"),
    ]
    growth = [
        (each.kind, each.process, f"{each.level:,.0f}", *_shown(each.found), each.verdict)
        for each in soaked.lines
    ]
    broken_rows: Iterable[tuple[str]] = [(each,) for each in soaked.broken] or [("none",)]
    headings = ("of", "the worst", "mean", "% a day", "from", "to", "verdict")
    return {
        "counts": Table("Counts", ("what", "count"), counted),
        "growth": Table("Growth", headings, growth, left=2),
        "broken": Table("Broken promises", ("what",), [*broken_rows], left=1),
    }


def _shown(found: Slope | None) -> tuple[str, str, str]:
    if found is None:
        return ("–", "–", "–")
    low, middle, high = (
        f"{each:+,.1f}".replace("-", "−") for each in (found.low, found.percent_a_day, found.high)
    )
    return middle, low, high
