"""Layout of a lake's folder. All files in it are immutable and appear by a rename."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fleet.common.exits import CommandError

VARIABLE: Final = "SANDERLING_LAKE"
# Within the folder of a run, so that it is deleted with that run.
LOCAL_RUN: Final = Path("var/demo")
NAME: Final = "lake"
# To these files are only added.
MAY_BE_LINKS: Final = frozenset({"landing", "reports"})


class NoLakeError(CommandError):
    """There is no lake; the text is one line that says how to make one."""


class LinkError(CommandError):
    """A folder of the lake is a link; the text is one line."""


class Lake:
    """Paths below `root`; nothing is created or read here."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def landing(self) -> Path:
        """Pulled data, as it arrived."""
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
        """Landing: ``*.parquet``, the nodes in the inventory, by pull."""
        return self.landing / "nodes"

    @property
    def pulls(self) -> Path:
        """Landing: ``*.parquet``, the result of each host, by pull."""
        return self.landing / "pulls"

    @property
    def refused(self) -> Path:
        """Landing: ``*.parquet``, data that a pull could not decode, with the reason."""
        return self.landing / "refused"

    @property
    def state(self) -> Path:
        """Progress of each host's pulls, ``<iad>/<host>.json``."""
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
        """Input of the planner: ``<table>/*.parquet``."""
        return self.root / "models"

    @property
    def kept(self) -> Path:
        """Aggregates of a report by partition of `readings`, for the next one."""
        return self.root / "kept"

    @property
    def staging(self) -> Path:
        """Files being written; readers ignore them."""
        return self.root / "staging"

    @property
    def index(self) -> Path:
        """Locations of rows that are not in the expected partition; used only by the ingest."""
        return self.root / "index"

    @property
    def journal(self) -> Path:
        """Changes of tables in progress."""
        return self.root / "journal"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the streaming jobs."""
        return self.root / "checkpoints"

    @property
    def client(self) -> Path:
        """Measurements of a local run's clients: its results.json, if there is one."""
        return self.root / "client.json"

    @property
    def rooms(self) -> Path:
        """What people call rooms, by area: from the inventory, at the last pull."""
        return self.root / "rooms.json"

    @property
    def pace(self) -> Path:
        """How long the last report took, for the forecast of the next one."""
        return self.root / "pace.json"

    @property
    def reports(self) -> Path:
        """Reports, a folder each."""
        return self.root / "reports"


def chosen(named: Path | None, fleet: Path | None = None) -> Lake:
    """The lake: `named`, $SANDERLING_LAKE, ``lake`` in the fleet's folder, or that of the last
    local run. It may not exist yet. LinkError for one that may not be changed; CommandError for a
    path that pyarrow and Spark cannot take."""
    if named is None and (variable := os.environ.get(VARIABLE)):
        named = Path(variable)
    lake = Lake(named if named is not None else (fleet or LOCAL_RUN) / NAME)
    try:
        str(lake.root.absolute()).encode()
    except UnicodeEncodeError:
        raise CommandError(
            f"{lake.root}: a lake cannot be where the path has bytes that are no UTF-8; name "
            "another folder, with --lake"
        ) from None
    _require_no_links(lake)
    return lake


def _require_no_links(lake: Lake) -> None:
    """Files are removed from folders of a lake: where one that comes from elsewhere has a link in
    the place of such a folder, they would be somebody else's. LinkError. O(folders)."""
    for top, names, _ in os.walk(lake.root):
        if Path(top) == lake.root:
            names[:] = [name for name in names if name not in MAY_BE_LINKS]
        for name in names:
            path = Path(top, name)
            if path.is_symlink():
                raise LinkError(
                    f"{path} is a link, and files of others could be removed there; put the folder "
                    "that it leads to in its place, or ask whoever made the lake"
                )


def existing(named: Path | None, fleet: Path | None = None) -> Lake:
    """The same lake, which must exist. NoLakeError."""
    lake = chosen(named, fleet)
    if not lake.landing.is_dir():
        raise NoLakeError(
            f"{lake.root}: nothing was pulled; `fleet logs pull` does that in a fleet's folder, "
            "`fleet logs pull --local` for the last demo"
        )
    return lake
