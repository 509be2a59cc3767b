"""A master on the operator's own machine: its files are written to the fleet's folder."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import NamedTuple

from fleet.inventory.files import HostFile, files_of
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf
from fleet.keys.private_files import write_file
from fleet.keys.store import Store


class LocalPlan(NamedTuple):
    """The files of a local master that differ from their desired content."""

    host: HostOf
    folder: Path
    files: tuple[HostFile, ...]

    @property
    def restart(self) -> bool:
        """Whether a running master must be restarted to notice the changes."""
        return any(file.restart for file in self.files)

    @property
    def command(self) -> str:
        """The command that starts it."""
        return f"sanderling-master --config {quote(str(self.folder / 'master.toml'))}"


def plan(folder: Folder, fleet: Inventory, host: HostOf, store: Store) -> LocalPlan:
    """The files to write. KeyStoreError."""
    where = folder.master(host.iad.name)
    files = files_of(fleet, host, store)
    return LocalPlan(host, where, tuple(file for file in files if not _is_there(where, file)))


def write(plan: LocalPlan) -> None:
    """Write them, each at once."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    for file in plan.files:
        path = plan.folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, file.content, file.mode)


def _is_there(where: Path, file: HostFile) -> bool:
    path = where / file.path
    try:
        return path.read_bytes() == file.content and path.stat().st_mode & 0o777 == file.mode
    except FileNotFoundError:
        return False
