"""Provenance of an experiment's numbers: the command, the machine, its load, the date."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from msgspec import Struct

from fleet.terminal.tables import Table


class Provenance(Struct, frozen=True):
    """`command` repeats the run, seed included; `load_average` is of the minute before it."""

    command: str
    load_average: float
    date: str

    def table(self, **more: str) -> Table:
        """For the top of a page; `more` rows come last."""
        rows = {
            "command": f"`{self.command}`",
            "machine": machine(),
            "load average just before": f"{self.load_average:.2f}",
            "date": self.date,
            **more,
        }
        return Table("Provenance", ("item", "value"), list(rows.items()))


def now(command: str) -> Provenance:
    """The provenance of a run that starts now."""
    return Provenance(command, load_average(), time.strftime("%Y-%m-%d"))


def load_average() -> float:
    """Runnable processes over the last minute, of the whole machine."""
    return float(Path("/proc/loadavg").read_text("ascii").split()[0])


def machine() -> str:
    """A short description of this host."""
    return (
        f"{os.cpu_count()} processors, {platform.machine()}, {platform.system()}, "
        f"Python {platform.python_version()}"
    )
