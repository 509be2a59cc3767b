"""Layout of a lake's folder. All files in it are immutable and appear by a rename."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fleet.common.exits import CommandError

VARIABLE: Final = "SANDERLING_LAKE"
# In the folder of a run, so that it goes with that run.
LOCAL_RUN: Final = Path("var/demo")
NAME: Final = "lake"


class NoLakeError(CommandError):
    """There is no lake; the text is one line that says what makes one."""


class Lake:
    """Paths below `root`; nothing is made or read here."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def landing(self) -> Path:
        """What was pulled, as it arrived."""
        return self.root / "landing"

    @property
    def records(self) -> Path:
        """Landing: ``iad=…/<file>-<from>-<to>.jsonl``, whole lines of masters' records."""
        return self.landing / "records"

    @property
    def groups(self) -> Path:
        """Landing: ``iad=…/node=…/*.parquet``, row groups of histories, decoded."""
        return self.landing / "groups"

    @property
    def nodes(self) -> Path:
        """Landing: ``*.parquet``, which nodes there were, by pull."""
        return self.landing / "nodes"

    @property
    def pulls(self) -> Path:
        """Landing: ``*.parquet``, what came of each host, by pull."""
        return self.landing / "pulls"

    @property
    def refused(self) -> Path:
        """Landing: ``*.parquet``, what a pull could not decode, with the reason."""
        return self.landing / "refused"

    @property
    def state(self) -> Path:
        """How far each host was pulled, ``<iad>/<host>.json``."""
        return self.root / "state"

    @property
    def tables(self) -> Path:
        """``<table>/iad=…/date=…/*.parquet``."""
        return self.root / "tables"

    def table(self, name: str) -> Path:
        """The folder of one table."""
        return self.tables / name

    @property
    def models(self) -> Path:
        """What the planner reads: ``<table>/*.parquet``."""
        return self.root / "models"

    @property
    def staging(self) -> Path:
        """Files that are being written; nobody reads them."""
        return self.root / "staging"

    @property
    def index(self) -> Path:
        """Where rows are that would be looked for elsewhere, for the ingest alone."""
        return self.root / "index"

    @property
    def journal(self) -> Path:
        """Changes of tables that are under way."""
        return self.root / "journal"

    @property
    def checkpoints(self) -> Path:
        """What the streaming jobs have seen."""
        return self.root / "checkpoints"

    @property
    def client(self) -> Path:
        """What the clients of a local run measured themselves: its results.json, if it has one."""
        return self.root / "client.json"

    @property
    def reports(self) -> Path:
        """Reports, a folder each."""
        return self.root / "reports"


def chosen(named: Path | None, fleet: Path | None = None) -> Lake:
    """The lake: `named`, $SANDERLING_LAKE, ``lake`` in the fleet's folder, or that of the last
    local run. It need not be there."""
    if named is not None:
        return Lake(named)
    if variable := os.environ.get(VARIABLE):
        return Lake(Path(variable))
    return Lake((fleet or LOCAL_RUN) / NAME)


def existing(named: Path | None, fleet: Path | None = None) -> Lake:
    """The same, which must be there. NoLakeError."""
    lake = chosen(named, fleet)
    if not lake.landing.is_dir():
        raise NoLakeError(
            f"{lake.root}: nothing was pulled; `fleet logs pull` does that in a fleet's folder, "
            "`fleet logs pull --local` for the last demo"
        )
    return lake
