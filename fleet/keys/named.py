"""Resolves a name on the command line to the parties that hold its keys."""

from __future__ import annotations

from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean
from fleet.inventory.parties import CLIENT, Party, hosts
from fleet.keys.errors import KeyStoreError


def named(fleet: Inventory, name: str) -> tuple[Party, ...]:
    """The party of a host (``iad4/n3``, ``iad4/master``), or all parties of a person. KeyStoreError
    suggests the nearest valid name."""
    everybody: dict[str, tuple[Party, ...]] = {h.name: (h.party,) for h in hosts(fleet)}
    for person in fleet.person:
        everybody[person.name] = tuple(Party(role, person.name) for role in person.roles)
    if name == CLIENT.name:
        raise KeyStoreError(
            "those are this command's own keys: fleet keys rotate gives it others, and with the "
            "machine they are on goes the whole store"
        )
    if name not in everybody:
        near = did_you_mean(name, list(everybody))
        raise KeyStoreError(f"there is no host or person {name}; {near}")
    return everybody[name]
