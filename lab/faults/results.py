"""Report of a fault run, on the terminal and as a page."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from fleet.common import exits
from fleet.terminal import screen
from fleet.testbed.run_folder import RunFolderError, run_folder
from fleet.testbed.testbed import TestbedError
from lab.faults import run as fault_run
from lab.faults.plan import UNITS, Line

PAGE = "failures.md"
# Width of the two text columns, so that the table fits 80 columns.
TEXT_WIDTH = 31


def run(options: fault_run.Options, results: Path) -> int:
    """Run the experiment, show and write the findings; the exit status says whether all were as
    expected."""
    terminal = screen.console()
    load_average = os.getloadavg()[0]
    try:
        with run_folder(options.directory):
            lines = fault_run.run(options, lambda text: screen.line(terminal, text, "dim"))
            results.mkdir(parents=True, exist_ok=True)
            page = results / PAGE
            page.write_text(_page(options, lines, load_average), encoding="utf-8")
    except KeyboardInterrupt:
        return exits.fail("interrupted; no process of the fleet is left", exits.INTERRUPTED)
    except (RunFolderError, TestbedError) as error:
        sys.stderr.write(f"fleet: {error}\n")  # the last output of a process may have several lines
        return exits.FAILED
    screen.show_table(terminal, table_of(lines))
    wrong = sum(not line.ok for line in lines)
    screen.line(terminal, f"{len(lines) - wrong} of {len(lines)} as expected; {page}")
    return exits.FAILED if wrong else exits.DONE


def table_of(lines: Sequence[Line]) -> Table:
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


def _page(options: fault_run.Options, lines: Sequence[Line], load_average: float) -> str:
    command = (
        f"fleet lab faults --unit {options.unit_s:g} --rate {options.rate_per_s:g} "
        f"--seed {options.seed}"
    )
    rows = [
        f"| {line.fault} | {line.expected} | {line.seen} | {'yes' if line.ok else '**no**'} |"
        for line in lines
    ]
    machine = (
        f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()}, "
        f"Python {platform.python_version()}"
    )
    head = f"""# Failures, line by line

Written by `fleet lab faults`; what is expected and why is in
[failures.md](../understand/failures.md).

A registration service, {fault_run.IADS} masters and {fault_run.IADS * fault_run.NODES} edge nodes
that emulate their hardware, real processes on loopback TCP; {options.rate_per_s:g} queries/s for
{UNITS * options.unit_s:g} s, seven in ten to one room (SLO p99 ≤ 500 ms), the others to one room
in each IAD (p99 ≤ 800 ms). Each process is ended with SIGKILL and started again
{2 * options.unit_s:g} s later. Queries count where they arrived between the two. Latency is
measured at the client. Rounds of the stream are partial while the edge node is down.

| | |
|---|---|
| command | `{command}` |
| machine | {machine} |
| load average just before | {load_average:.2f} |
| date | {time.strftime("%Y-%m-%d")} |

| killed | expected | seen | as expected |
|---|---|---|---|
"""
    return head + "\n".join(rows) + "\n"
