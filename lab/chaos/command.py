"""`fleet lab chaos`: many histories, one after the other, and the page with what was broken."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import get_args

from msgspec import Struct

from fleet.common import exits
from fleet.terminal import screen
from fleet.terminal.tables import Table
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.testbed import TestbedError
from lab import pages, provenance
from lab.chaos.fault_plan import Kind
from lab.chaos.run import run as run_history

NAME = "chaos"


class Options(Struct, frozen=True):
    """The options of `fleet lab chaos`: seeds from `seed` on, faults for `seconds` in each."""

    directory: Path
    histories: int
    seconds: float
    seed: int


def run(options: Options, results: Path) -> int:
    """Run the histories, show and write what was broken; the exit status says whether something
    was. The fleet's folder is kept of histories in which it was."""
    terminal = screen.console()
    origin = provenance.now(
        f"fleet lab chaos --histories {options.histories} --seconds {options.seconds:g} "
        f"--seed {options.seed}"
    )
    faults: list[str] = []
    rows: list[tuple[str, str]] = []
    try:
        with run_folder(options.directory):
            for seed in range(options.seed, options.seed + options.histories):
                folder = options.directory / str(seed)
                folder.mkdir()
                found = run_history(seed, folder, options.seconds, faults.append)
                for line in found:
                    rows.append((str(seed), line))
                    screen.line(terminal, f"{seed}: {line}", "bold red")
                if not found:
                    shutil.rmtree(folder)
                    screen.line(terminal, f"{seed}: nothing broken", "dim")
            page = pages.write(results, NAME, _tables(options, faults, rows), origin)
    except KeyboardInterrupt:
        return exits.fail("interrupted; no process of the fleet is left", exits.INTERRUPTED)
    except (RunFolderError, TestbedError) as error:
        sys.stderr.write(f"fleet: {error}\n")  # the last output of a process may have several lines
        return exits.FAILED
    wrong = len({seed for seed, _ in rows})
    screen.line(terminal, f"{options.histories - wrong} of {options.histories} as promised; {page}")
    return exits.FAILED if wrong else exits.DONE


def _tables(options: Options, faults: list[str], rows: list[tuple[str, str]]) -> dict[str, Table]:
    wrong = len({seed for seed, _ in rows})
    counted = [
        ("histories", f"{options.histories:,}"),
        ("faults", f"{len(faults):,}"),
        *((kind, f"{sum(kind in each for each in faults):,}") for kind in get_args(Kind)),
        ("histories in which a promise was broken", f"{wrong:,}"),
    ]
    return {
        "counts": Table("Counts", ("what", "count"), counted),
        "broken": Table("Broken promises", ("seed", "what"), rows or [("–", "none")], left=2),
    }
