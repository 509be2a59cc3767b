"""Validation of homes: other masters exist, and can tell the nodes apart that may come."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.inventory.effective import homes_of, visitors
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean


def check(fleet: Inventory) -> Iterator[str]:
    """Masters that do not exist or are named twice, and nodes of one name at one master."""
    iads = {iad.name: iad for iad in fleet.iad}
    for iad in fleet.iad:
        for node in iad.node:
            homes = homes_of(fleet, node)
            for name in dict.fromkeys(homes.other if homes else ()):
                if name == iad.name:
                    yield f"{iad.name}/{node.name}: homes.other has its own IAD: leave {name} out"
                elif name not in iads:
                    known = [each for each in iads if each != iad.name]
                    yield (
                        f"{iad.name}/{node.name}: homes.other has {name}, which is no IAD; "
                        f"{did_you_mean(name, known)}"
                    )
    for name, visiting in visitors(fleet).items():
        if name not in iads:
            continue
        there = {node.name: f"{name}/{node.name}" for node in iads[name].node}
        for host in visiting:
            assert host.node is not None
            other = there.setdefault(host.node.name, host.name)
            if other != host.name:
                yield (
                    f"{host.name} and {other} may both be at home at the master of {name}, which "
                    "knows nodes by their names: give one of them another"
                )
