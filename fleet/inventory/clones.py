"""Clones that an inventory has: one for each node that says so, or one of its groups."""

from __future__ import annotations

from agent.wire.clones import CloneOf
from agent.wire.messages import Slo
from fleet.inventory.effective import clone_of
from fleet.inventory.model import Iad, Inventory


def clones_of(fleet: Inventory, iad: Iad) -> list[CloneOf]:
    """The clones of an IAD's nodes, in the order in which they are made: those that may leave come
    first, since a master takes a peer without a clone for one of the asker's kind."""
    found = []
    for node in iad.node:
        if (wanted := clone_of(fleet, node)) is None:
            continue
        device = f"{iad.name}/{node.name}"
        found.append(
            CloneOf(
                device,
                wanted.processor,
                parameters=wanted.set,
                every_s=wanted.every_s,
                channels=wanted.channels,
                service=wanted.service,
                peers=tuple([each for each in dict.fromkeys(wanted.peers) if each != device]),
                peers_where=wanted.peers_where,
                leaves=wanted.leaves,
                slo=None if (slo := wanted.slo) is None else Slo(slo.percentile, slo.latency_ms),
                limits=wanted.limits,
                standby=wanted.standby and wanted.leaves,  # else it is a contradiction
            )
        )
    return sorted(found, key=lambda each: not each.leaves)
