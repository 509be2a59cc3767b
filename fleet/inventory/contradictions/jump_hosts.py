"""Validation of jump hosts: each one that is referenced exists."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.inventory.effective import jump_of
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean
from fleet.inventory.parties import hosts


def check(fleet: Inventory) -> Iterator[str]:
    """IADs and hosts whose jump host does not exist."""
    known = [jump.name for jump in fleet.jump]
    named = [(iad.name, iad.jump) for iad in fleet.iad]
    named += [(host.name, host.entry.jump or "") for host in hosts(fleet)]
    for where, name in named:
        if name and name not in known:
            yield f"{where}: there is no jump host {name}; {did_you_mean(name, known)}"


def unused(fleet: Inventory) -> Iterator[str]:
    """Jump hosts that lead to no host."""
    used = {jump.name for host in hosts(fleet) if (jump := jump_of(fleet, host))}
    for jump in fleet.jump:
        if jump.name not in used:
            yield f"no host is behind jump host {jump.name}: name it in `jump` of an IAD or host"
