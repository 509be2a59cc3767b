"""Report of a fault run, on the terminal and as a page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table as ScreenTable
from rich.text import Text

from fleet.common import exits
from fleet.terminal import screen
from fleet.terminal.tables import Table
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.testbed import TestbedError
from lab import pages, provenance
from lab.faults import run as fault_run
from lab.faults.fault_schedule import Line

NAME = "failures"
# Width of the two text columns, so that the table fits 80 columns.
TEXT_WIDTH = 31


def run(options: fault_run.Options, results: Path) -> int:
    """Run the experiment, show and write the findings; the exit status says whether all were as
    expected."""
    terminal = screen.console()
    origin = provenance.now(command_line(options))
    try:
        with run_folder(options.directory):
            lines = fault_run.run(options, lambda text: screen.line(terminal, text, "dim"))
            page = pages.write(results, NAME, {"findings": written_table(lines)}, origin)
    except KeyboardInterrupt:
        return exits.fail("interrupted; no process of the fleet is left", exits.INTERRUPTED)
    except (RunFolderError, TestbedError) as error:
        sys.stderr.write(f"fleet: {error}\n")  # the last output of a process may have several lines
        return exits.FAILED
    screen.show_table(terminal, table_of(lines))
    wrong = sum(not line.ok for line in lines)
    screen.line(terminal, f"{len(lines) - wrong} of {len(lines)} as expected; {page}")
    return exits.FAILED if wrong else exits.DONE


def table_of(lines: Sequence[Line]) -> ScreenTable:
    """A row per finding, in 80 columns."""
    table = screen.plain_table("killed", "expected", "seen", "", left=4, folds=("expected", "seen"))
    for column in table.columns[1:3]:
        column.max_width = TEXT_WIDTH
    fault = ""
    for line in lines:
        mark = Text("yes", style="green") if line.ok else Text("NO", style="bold red")
        table.add_row("" if line.fault == fault else line.fault, line.expected, line.seen, mark)
        fault = line.fault
    return table


def written_table(lines: Sequence[Line]) -> Table:
    """The same for the page."""
    rows = [
        (line.fault, line.expected, line.seen, "yes" if line.ok else "**no**") for line in lines
    ]
    return Table("Findings", ("killed", "expected", "seen", "as expected"), rows, left=4)


def command_line(options: fault_run.Options) -> str:
    """The command that repeats the run."""
    return (
        f"fleet lab faults --unit {options.unit_s:g} --rate {options.rate_per_s:g} "
        f"--seed {options.seed}"
    )
