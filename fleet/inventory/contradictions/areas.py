"""Validation of areas: the areas that an IAD offers match those that its nodes cover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent.wire.areas import with_parents
from fleet.inventory.effective import visitors
from fleet.inventory.model import Iad, Inventory
from fleet.inventory.nearest import did_you_mean
from fleet.inventory.parties import HostOf


def check(fleet: Inventory) -> Iterator[str]:
    """IADs that offer areas without nodes, areas without a node, nodes that no query reaches."""
    visiting = visitors(fleet)
    for iad in fleet.iad:
        at_home = [HostOf(iad, node) for node in iad.node] + visiting.get(iad.name, [])
        if not at_home:
            if iad.areas or iad.offers:
                yield f"{iad.name} offers areas and has no nodes: add an [[iad.node]]"
            continue
        of_nodes = [area for host in at_home if host.node for area in host.node.areas]
        covered = _index(of_nodes)
        offered = [("areas", area) for area in iad.areas]
        offered += [("offers", area) for offer in iad.offers for area in offer.areas]
        for key, area in offered:
            if not _touches(area, covered):
                known = sorted(set(of_nodes))
                yield (
                    f"{iad.name}: {key} has {area}, which none of its nodes covers; "
                    f"{did_you_mean(area, known)}"
                )
        yield from _outside(iad, at_home, [area for _, area in offered] if iad.areas else [])


def idle(fleet: Inventory) -> Iterator[str]:
    """IADs without nodes, whose masters are in no pool."""
    visiting = visitors(fleet)
    for iad in fleet.iad:
        if not iad.node and iad.name not in visiting:
            yield f"{iad.name} has no nodes yet: its master is in no pool, and answers no query"


def unknown_rooms(fleet: Inventory) -> Iterator[str]:
    """Names of rooms that no node is in."""
    of_nodes = [area for iad in fleet.iad for node in iad.node for area in node.areas]
    covered = _index(of_nodes)
    for area in fleet.rooms:
        if not _touches(area, covered):
            hint = did_you_mean(area, sorted(set(of_nodes)))
            yield f"rooms: {area} has a name, and no node covers it; {hint}"


def _outside(iad: Iad, at_home: Sequence[HostOf], offered: Sequence[str]) -> Iterator[str]:
    """Areas of nodes that are not among the areas that the IAD declares, if it declares any."""
    if not offered:
        return
    index = _index(offered)
    for host in at_home:
        for area in host.node.areas if host.node else ():
            if not _touches(area, index):
                yield (
                    f"{host.name}: its area {area} lies in none of those that "
                    f"{iad.name} offers ({did_you_mean(area, offered)}), so no query would reach it"
                )


def _index(areas: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The areas with all areas above them."""
    return frozenset(areas), frozenset(above for area in areas for above in with_parents(area))


def _touches(area: str, index: tuple[frozenset[str], frozenset[str]]) -> bool:
    """Whether `area` overlaps an area of the index; O(depth)."""
    areas, with_above = index
    return area in with_above or any(above in areas for above in with_parents(area))
