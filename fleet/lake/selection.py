"""Resolves the lake that a command works on."""

from __future__ import annotations

from pathlib import Path

from fleet.inventory import folder as folders
from fleet.inventory.folder import Folder
from fleet.lake.schema import folder as lakes
from fleet.lake.schema.folder import Lake


def existing_lake(named: Path | None, fleet: Folder | None) -> Lake:
    """The lake: `named`; $SANDERLING_LAKE; that of the fleet, given or found from here upwards; or
    that of the last demo. NoLakeError if there is none."""
    return lakes.existing(named, _root(fleet))


def _root(fleet: Folder | None) -> Path | None:
    if fleet is not None:
        return fleet.root
    try:
        return folders.find().root
    except folders.NoFleetError:
        return None
