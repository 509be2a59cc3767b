"""Loads and validates the inventory."""

from __future__ import annotations

from agent.wire import config
from agent.wire.config import ConfigError
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.problems import problems


def load(folder: Folder) -> Inventory:
    """The fleet's inventory; ConfigError in one line, with the file's name."""
    fleet = config.load(folder.inventory, Inventory)
    if found := problems(fleet):
        more = f" (and {len(found) - 1} more: `fleet inventory check`)" if found[1:] else ""
        raise ConfigError(f"{folder.inventory}: {found[0]}{more}")
    return fleet
