"""Validation of clones: devices of the fleet that are peers exist, and can be heard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from agent.processing.definition import Limits
from fleet.inventory.clones import clones_of
from fleet.inventory.contradictions.webhooks import unreadable
from fleet.inventory.effective import clone_of
from fleet.inventory.model import Inventory
from fleet.inventory.nearest import did_you_mean

LIMITS: Final = Limits.__struct_fields__


def check(fleet: Inventory) -> Iterator[str]:
    """Peers that are no nodes, a node that is its own, and peers whose clones do not leave to be
    heard; filters of clones that are none, and unknown limits. A peer may be of an IAD that is not
    in this fleet, and have a clone made by hand."""
    nodes = {iad.name: [node.name for node in iad.node] for iad in fleet.iad}
    yield from _standbys_at_home(fleet)
    clones = {each.device: each for iad in fleet.iad for each in clones_of(fleet, iad)}
    for iad in fleet.iad:
        for node in iad.node:
            own = f"{iad.name}/{node.name}"
            if node.clone is not None and own in node.clone.peers:
                yield f"{own}: clone.peers has the node itself: leave it out"
    for device, clone in clones.items():
        home = device.partition("/")[0]
        if clone.peers_where:
            yield from unreadable(f"{device}: clone.peers_where", clone.peers_where)
        yield from _limits(device, clone.limits)
        for peer in clone.peers:
            iad_name, _, name = peer.partition("/")
            if iad_name not in nodes:
                continue
            if name not in nodes[iad_name]:
                yield (
                    f"{device}: clone.peers has {peer}, which is no node; "
                    f"{did_you_mean(name, nodes[iad_name])}"
                )
            elif peer in clones and not clones[peer].leaves and (clone.leaves or iad_name != home):
                yield (
                    f"{device}: the clone of its peer {peer} does not leave {iad_name}, and could "
                    "not be heard: say `leaves = true` there"
                )


def _limits(device: str, limits: dict[str, float]) -> Iterator[str]:
    for name in limits:
        if name not in LIMITS:
            yield f"{device}: clone.limits has {name}; {did_you_mean(name, LIMITS)}"
            return
    try:
        msgspec.convert(limits, Limits, strict=False)
    except msgspec.ValidationError as error:
        yield f"{device}: clone.limits: {error}"


def _standbys_at_home(fleet: Inventory) -> Iterator[str]:
    for iad in fleet.iad:
        for node in iad.node:
            wanted = clone_of(fleet, node)
            if wanted is not None and wanted.standby and not wanted.leaves:
                own = f"{iad.name}/{node.name}"
                yield f"{own}: clone.standby needs `leaves = true`: the standby is at another IAD"
