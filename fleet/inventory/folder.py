"""Layout of a fleet's folder: inventory, keys, releases, images, runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from fleet.common.exits import CommandError

INVENTORY: Final = "fleet.toml"
VARIABLE: Final = "SANDERLING_FLEET"
CACHE: Final = "SANDERLING_CACHE"


class NoFleetError(CommandError, FileNotFoundError):
    """There is no fleet's folder; the text is one line that says what to do."""


class Folder:
    """Paths below `root`; nothing is created or read here."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def inventory(self) -> Path:
        """The inventory."""
        return self.root / INVENTORY

    @property
    def keys(self) -> Path:
        """The key store: all secrets, mode 0700."""
        return self.root / "keys"

    @property
    def known_hosts(self) -> Path:
        """The pinned host keys, in OpenSSH's format."""
        return self.root / "known_hosts"

    @property
    def releases(self) -> Path:
        """Bundles by release and target, and the wheelhouse."""
        return self.root / "releases"

    @property
    def images(self) -> Path:
        """Images of cards."""
        return self.root / "images"

    @property
    def runs(self) -> Path:
        """Journals of deployments, one file each, from which a run can be continued or retried."""
        return self.root / "runs"

    def master(self, iad: str) -> Path:
        """Files of a master that runs on the operator's machine."""
        return self.root / "masters" / iad


def cache(otherwise: Path) -> Path:
    """Folder for downloads and compiled files, shared by fleets: $SANDERLING_CACHE, or
    `otherwise`."""
    return Path(os.environ.get(CACHE, otherwise)).resolve()


def find(start: Path | None = None) -> Folder:
    """The fleet's folder: $SANDERLING_FLEET, or the nearest folder with a fleet.toml, from `start`
    (default: here) upwards. NoFleetError."""
    if named := os.environ.get(VARIABLE):
        return at(Path(named), f"${VARIABLE}")
    here = (start or Path.cwd()).resolve()
    for each in (here, *here.parents):
        if (each / INVENTORY).is_file():
            return Folder(each)
    raise NoFleetError(
        f"no {INVENTORY} here or above; `fleet init` writes one, --fleet FOLDER names another"
    )


def at(root: Path, source: str) -> Folder:
    """The fleet's folder `root`, as given by `source` (an option, a variable). NoFleetError."""
    folder = Folder(root)
    try:
        if folder.inventory.is_file():
            return folder
    except (OSError, ValueError) as error:  # too long a name, or one that is no UTF-8
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NoFleetError(f"{source}: {why}") from None
    raise NoFleetError(f"{folder.inventory}, from {source}, is not there")
