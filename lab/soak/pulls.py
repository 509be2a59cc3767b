"""Pulls of what masters and nodes have logged, while everything runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from agent.alerts.notifications import history_of
from agent.wire.records import NodeEventRecord
from fleet.common import exits
from fleet.lake.pull.outcome import HostPulled, Pulled
from fleet.lake.schema.folder import Lake
from fleet.testbed.processes import agent_command
from fleet.testbed.run_records import read_records
from lab.background import Background
from lab.chaos.history import History
from lab.soak.hosted import IAD, Hosted

# Masters keep eight minutes of records, and in a short run all of them.
MAX_PAUSE_S: Final = 300.0
FEWEST: Final = 6


class Pulls(Background):
    """Runs `fleet logs pull` again and again in a run of so many seconds: from the folder of the
    processes here, over SSH from the hosts. A context manager. `failed` has what went wrong; all
    numbers are of the pulls so far."""

    def __init__(self, directory: Path, hosted: Hosted | None, seconds: float) -> None:
        super().__init__("pulls")
        self._lake = Lake(directory / "lake")
        self._sources = [(["--local", str(directory)], dict[str, str]())]
        if hosted:
            at_desk = {"SANDERLING_FLEET": str(hosted.desk.folder.root)}
            self._sources.append((["--iad", IAD], at_desk))
        self._pause_s = min(MAX_PAUSE_S, seconds / (FEWEST + 1))
        self.done = 0
        self.records = 0
        self.readings = 0
        self.failed: list[str] = []

    def _run(self) -> None:
        while not self._over.wait(self._pause_s):
            self.pull()

    def pull(self) -> None:
        """Pull from all of them."""
        for options, more in self._sources:
            environment = {name: v for name, v in os.environ.items() if name != "SANDERLING_FLEET"}
            command = [*agent_command("fleet"), "logs", "pull", "--json", *options]
            ended = subprocess.run(
                [*command, "--lake", str(self._lake.root)],
                env=environment | more,
                capture_output=True,
                text=True,
                check=False,
            )
            self.done += 1
            if ended.returncode:
                self.failed.append(f"a pull ended with {ended.returncode}: {ended.stderr.strip()}")
            if ended.returncode in (exits.DONE, exits.FAILED):
                self._count(msgspec.json.decode(ended.stdout, type=Pulled))

    def _count(self, pulled: Pulled) -> None:
        self.records += pulled.total.records
        self.readings += pulled.total.readings
        self.failed += [f"{each.host}: {why}" for each in pulled.hosts if (why := _wrong(each))]

    def lost(self, history: History) -> Iterator[str]:
        """Alerts that a client had, and that are in no record of the lake."""
        pulled = {
            (history_of(each.node, each.history), each.sequence)
            for folder in self._lake.records.glob("iad=*")
            for each in read_records(folder)
            if isinstance(each, NodeEventRecord)
        }
        for alert in history.alerts:
            if alert.area and (alert.history, alert.number) not in pulled:
                yield f"alert {alert.number} of {alert.area} was not pulled"


def _wrong(host: HostPulled) -> str:
    """Readings that went before a pull are no loss: they are kept for a minute."""
    if not host.is_well:
        return host.error or host.outcome
    return f"{host.expired_files} files of records went before a pull" * bool(host.expired_files)
