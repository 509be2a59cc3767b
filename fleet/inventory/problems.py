"""Semantic validation of an inventory whose syntax and types are correct."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.inventory.contradictions import (
    areas,
    clones,
    groups,
    homes,
    jump_hosts,
    names,
    overlay,
    people,
    places,
    sensors,
    triggers,
    units,
    webhooks,
)
from fleet.inventory.files import edge_config, master_config, pool_members
from fleet.inventory.model import Inventory


def problems(fleet: Inventory) -> list[str]:
    """The errors, one line each. If there are none, the configuration of every host can be
    generated."""
    subjects = (
        names,
        groups,
        jump_hosts,
        people,
        places,
        areas,
        homes,
        clones,
        sensors,
        triggers,
        overlay,
        units,
        webhooks,
    )
    found = [line for subject in subjects for line in subject.check(fleet)]
    return list(dict.fromkeys(found)) or list(_refused(fleet))


def warnings(fleet: Inventory) -> list[str]:
    """Settings that are valid but probably unintended; one line each."""
    return [
        *names.one_host_name(fleet),
        *groups.unused(fleet),
        *jump_hosts.unused(fleet),
        *areas.idle(fleet),
        *areas.unknown_rooms(fleet),
        *places.emulated(fleet),
        *overlay.apart(fleet),
        *webhooks.unmatched(fleet),
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
