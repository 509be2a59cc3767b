"""`fleet lab chaos`: many histories, some at a time, and the page with what was broken; or one that
was saved, judged again."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import get_args

from msgspec import Struct

from fleet.common import exits
from fleet.terminal import screen
from fleet.terminal.tables import Table
from fleet.testbed.run_folder import RunFolderError, run_folder
from lab import pages, provenance, spawned
from lab.chaos.checker import broken
from lab.chaos.fault_plan import Fault, Kind
from lab.chaos.history import History, begun, load, save
from lab.chaos.run import run as run_history

NAME = "chaos"
INTERRUPTED = "interrupted; no process of the fleet is left"
SUFFIX = ".jsonl"


class Options(Struct, frozen=True):
    """The options of `fleet lab chaos`: seeds from `seed` on, faults for `seconds` in each, `jobs`
    at a time."""

    directory: Path
    histories: int
    seconds: float
    seed: int
    jobs: int


def run(options: Options, results: Path) -> int:
    """Run the histories, show and write what was broken; the exit status says whether something
    was. Each history is saved; the fleet's folder is kept of those in which it was. After Ctrl-C
    the page has those that have ended."""
    terminal = screen.console()
    origin = provenance.now(
        f"fleet lab chaos --histories {options.histories} --seconds {options.seconds:g} "
        f"--seed {options.seed} --jobs {options.jobs}"
    )
    histories: list[History] = []
    rows: list[tuple[str, str]] = []
    interrupted = False
    try:
        with run_folder(options.directory):
            try:
                for history, found in _run_all(options):
                    seed = str(history.seed)
                    for line in found:
                        rows.append((seed, line))
                        screen.line(terminal, f"{seed}: {line}", "bold red")
                    if not found:
                        screen.line(terminal, f"{seed}: nothing broken", "dim")
                    histories.append(history)
            except KeyboardInterrupt:
                interrupted = True
            if interrupted and not histories:
                return exits.fail(INTERRUPTED, exits.INTERRUPTED)
            page = pages.write(results, NAME, _tables(histories, rows), origin)
    except RunFolderError as error:
        return exits.fail(str(error), exits.FAILED)
    wrong = len({seed for seed, _ in rows})
    screen.line(terminal, f"{len(histories) - wrong} of {len(histories)} as promised; {page}")
    if interrupted:
        return exits.fail(INTERRUPTED, exits.INTERRUPTED)
    return exits.FAILED if wrong else exits.DONE


def _run_all(options: Options) -> Iterator[tuple[History, list[str]]]:
    """Each history as it ends, and what it broke. None waits in the pool: after Ctrl-C only those
    that run have to end."""
    seeds = iter(range(options.seed, options.seed + options.histories))
    with ProcessPoolExecutor(options.jobs, mp_context=spawned.context()) as pool:

        def begin(number: int) -> set[Future[tuple[History, list[str]]]]:
            with spawned.held():
                return {pool.submit(_run_one, options, seed) for seed in islice(seeds, number)}

        running = begin(options.jobs)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= begin(len(done))
            yield from (each.result() for each in done)


def _run_one(options: Options, seed: int) -> tuple[History, list[str]]:
    folder = options.directory / str(seed)
    folder.mkdir()
    try:
        with spawned.taken():  # its fleet ends before it does
            history = run_history(seed, folder, options.seconds, lambda _: None)
    except Exception as error:  # noqa: BLE001  # one of a thousand does not end the others
        (folder / "traceback").write_text(traceback.format_exc())
        why = " ".join(str(error).split())
        return History(seed), [f"could not be judged: {type(error).__name__}: {why}"]
    save(history, folder.with_suffix(SUFFIX))
    found = broken(history)
    if not found:
        shutil.rmtree(folder)
    return history, found


def check(path: Path) -> int:
    """Judge a history that was saved; the exit status says whether a promise was broken."""
    terminal = screen.console()
    try:
        history = load(path)
    except (OSError, ValueError, KeyError) as error:
        return exits.fail(f"{path} is no history: {error}", exits.FAILED)
    for fault in history.faults:
        screen.line(terminal, str(fault), "dim")
    found = broken(history)
    for line in found:
        screen.line(terminal, line, "bold red")
    screen.line(terminal, f"{history.seed}: {len(found) or 'no'} promises broken")
    return exits.FAILED if found else exits.DONE


def _tables(histories: list[History], rows: list[tuple[str, str]]) -> dict[str, Table]:
    wrong = len({seed for seed, _ in rows})
    faults = [fault for each in histories for fault in each.faults]
    counted = [
        ("histories", len(histories)),
        ("faults", len(faults)),
        *((kind, sum(each.kind == kind for each in faults)) for kind in get_args(Kind)),
        ("begun while another one lasted", sum(_overlapping(each.faults) for each in histories)),
        ("queries", sum(len(each.asked) for each in histories)),
        ("rounds of watches", sum(len(each.rounds) for each in histories)),
        ("alerts", sum(len(each.alerts) for each in histories)),
        ("messages put out", sum(len(each.outputs) for each in histories)),
        ("outputs of clones", sum(len(each.clone_outputs) for each in histories)),
        ("moves begun, of topic and clones", sum(begun(each) for each in histories)),
        ("histories in which a promise was broken", wrong),
    ]
    shown = [(what, f"{count:,}") for what, count in counted]
    return {
        "counts": Table("Counts", ("what", "count"), shown),
        "broken": Table("Broken promises", ("seed", "what"), rows or [("–", "none")], left=2),
    }


def _overlapping(faults: list[Fault]) -> int:
    latest_s, count = 0.0, 0
    for each in sorted(faults, key=lambda fault: fault.from_s):
        count += each.from_s < latest_s
        latest_s = max(latest_s, each.until_s)
    return count
