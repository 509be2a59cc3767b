"""Validation of what masters take of units: delegate and partners exist, and can be reached."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.inventory.effective import neighbours_of
from fleet.inventory.files import pool_members
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean


def check(fleet: Inventory) -> Iterator[str]:
    """A delegate and partners that are no IADs, and partners of one master that are neither in its
    pool nor its neighbours."""
    names = [iad.name for iad in fleet.iad]
    if (delegate := fleet.placement.delegate) is not None and delegate not in names:
        yield f"placement.delegate is {delegate}, which is no IAD; {did_you_mean(delegate, names)}"
    for name in fleet.placement.partners or ():
        if name not in names:
            yield f"placement.partners has {name}, which is no IAD; {did_you_mean(name, names)}"
    naming = [iad for iad in fleet.iad if iad.master.placement.partners]
    pool = frozenset(pool_members(fleet)) if naming else frozenset()
    for iad in naming:
        known = neighbours_of(fleet, iad) | (pool if iad.name in pool else frozenset())
        for name in iad.master.placement.partners or ():
            if name == iad.name or name not in known:
                others = [each for each in names if each in known - {iad.name}]
                yield (
                    f"{iad.name}/master: placement.partners has {name}, which is neither in its "
                    f"pool nor its neighbour in the overlay; {did_you_mean(name, others)}"
                )
