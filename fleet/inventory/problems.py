"""Semantic validation of an inventory whose syntax and types are correct."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.inventory.contradictions import (
    areas,
    groups,
    jump_hosts,
    names,
    overlay,
    people,
    places,
    sensors,
    triggers,
    webhooks,
)
from fleet.inventory.files import edge_config, master_config, pool_members
from fleet.inventory.model import Inventory


def problems(fleet: Inventory) -> list[str]:
    """One line each; none if the inventory can be used. Where there are none, the configuration of
    every host can be made."""
    subjects = (
        names,
        groups,
        jump_hosts,
        people,
        places,
        areas,
        sensors,
        triggers,
        overlay,
        webhooks,
    )
    found = [line for subject in subjects for line in subject.check(fleet)]
    return list(dict.fromkeys(found)) or list(_refused(fleet))


def warnings(fleet: Inventory) -> list[str]:
    """What can be used, and is likely not meant; one line each."""
    return [
        *groups.unused(fleet),
        *jump_hosts.unused(fleet),
        *areas.idle(fleet),
        *places.emulated(fleet),
        *overlay.apart(fleet),
    ]


def _refused(fleet: Inventory) -> Iterator[str]:
    """Errors that the agents would report for their configuration files."""
    members = pool_members(fleet)
    for iad in fleet.iad:
        try:
            master_config(fleet, iad, members)
        except ValueError as error:
            yield f"{iad.name}/master: {error}"
        for node in iad.node:
            try:
                edge_config(fleet, iad, node)
            except ValueError as error:
                yield f"{iad.name}/{node.name}: {error}"
