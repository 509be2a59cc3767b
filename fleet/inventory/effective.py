"""Effective settings of a host: its own, else those of its groups, else those of the fleet."""

from __future__ import annotations

from typing import Any

from msgspec.structs import fields

from agent.overlay.scot import BrokerId, ScotError
from agent.wire.edge_config import EdgeHistory, EdgePods, EdgeSensor, EdgeTrigger
from fleet.inventory.model import DeviceClone, Group, Homes, Iad, Inventory, JumpHost, Node, Units
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.inventory.parties import HostOf


def groups_of(fleet: Inventory, node: Node) -> list[Group]:
    """The groups of a node, in its order; unknown ones are skipped."""
    return [group for name in node.groups for group in fleet.group if group.name == name]


def release_of(fleet: Inventory, host: HostOf) -> str:
    """The desired release; empty: the one built from these sources."""
    of_group = ""
    if host.node is not None:
        of_group = next((g.release for g in groups_of(fleet, host.node) if g.release), "")
    return host.entry.release or of_group or fleet.releases.pin


def is_canary(fleet: Inventory, host: HostOf) -> bool:
    """Whether a rollout starts with this host."""
    return host.node is not None and any(group.canary for group in groups_of(fleet, host.node))


def user_of(fleet: Inventory, host: HostOf) -> str:
    """The login user."""
    return host.entry.user or fleet.ssh.user


def port_of(fleet: Inventory, host: HostOf) -> int:
    """Port of its sshd."""
    return host.entry.port or fleet.ssh.port


def jump_of(fleet: Inventory, host: HostOf) -> JumpHost | None:
    """The host's jump host; None if it is reached directly."""
    own = host.entry.jump
    name = host.iad.jump if own is None else own
    return next((each for each in fleet.jump if each.name == name), None)


def sensors_of(fleet: Inventory, node: Node) -> tuple[EdgeSensor, ...]:
    """The node's own sensors, or else those of one of its groups."""
    return node.sensor or next((g.sensor for g in groups_of(fleet, node) if g.sensor), ())


def triggers_of(fleet: Inventory, node: Node) -> tuple[EdgeTrigger, ...]:
    """The node's own triggers, or else those of one of its groups."""
    return node.trigger or next((g.trigger for g in groups_of(fleet, node) if g.trigger), ())


def history_of(fleet: Inventory, node: Node) -> EdgeHistory:
    """Limits and path of the node's history."""
    of_group = next((g.history for g in groups_of(fleet, node) if g.history), None)
    return node.history or of_group or EdgeHistory()


def pods_of(fleet: Inventory, node: Node) -> EdgePods:
    """Its pods."""
    return node.pods or next((g.pods for g in groups_of(fleet, node) if g.pods), EdgePods())


def homes_of(fleet: Inventory, node: Node) -> Homes | None:
    """Other masters that may be its home; None: it stays with its IAD's."""
    return node.homes or next((g.homes for g in groups_of(fleet, node) if g.homes), None)


def clone_of(fleet: Inventory, node: Node) -> DeviceClone | None:
    """The clone that it is to have; None: none."""
    return node.clone or next((g.clone for g in groups_of(fleet, node) if g.clone), None)


def other_homes(fleet: Inventory, iad: Iad) -> dict[str, tuple[Iad, ...]]:
    """By node of an IAD: the others whose masters may be its home."""
    iads = {each.name: each for each in fleet.iad}
    found = {node.name: homes_of(fleet, node) for node in iad.node}
    return {
        name: tuple([iads[other] for other in homes.other if other in iads])
        for name, homes in found.items()
        if homes is not None
    }


def visitors(fleet: Inventory) -> dict[str, list[HostOf]]:
    """By IAD: the nodes of others whose home its master may be. O(nodes)."""
    found: dict[str, list[HostOf]] = {}
    for iad in fleet.iad:
        for node in iad.node:
            homes = homes_of(fleet, node)
            for name in dict.fromkeys(homes.other if homes else ()):
                if name != iad.name:
                    found.setdefault(name, []).append(HostOf(iad, node))
    return found


def overlay_of(fleet: Inventory) -> OverlayPlan | None:
    """The overlay and the places of the IADs that have one; None without an overlay."""
    if fleet.overlay is None:
        return None
    places = {
        iad.name: BrokerId(iad.overlay.vertex, iad.overlay.cluster)
        for iad in fleet.iad
        if iad.overlay is not None
    }
    return OverlayPlan(fleet.overlay.links, fleet.overlay.clusters, places)


def units_of(fleet: Inventory, iad: Iad) -> dict[str, Any]:
    """Limits of the IAD's master for units: its own settings, else the fleet's. Without those that
    neither has, which are the master's own defaults."""
    own, common = iad.master.placement, fleet.placement
    found = {
        each.name: getattr(common if getattr(own, each.name) is None else own, each.name)
        for each in fields(Units)
    }
    if own.partners is None and common.partners is not None:
        near = neighbours_of(fleet, iad)
        found["partners"] = tuple([name for name in common.partners if name in near])
    return {name: value for name, value in found.items() if value is not None}


def neighbours_of(fleet: Inventory, iad: Iad) -> frozenset[str]:
    """The IADs that are its neighbours in the overlay; none while the overlay has mistakes."""
    plan = overlay_of(fleet)
    if plan is None or iad.name not in plan.places:
        return frozenset()
    try:
        return frozenset(plan.neighbours(iad.name))
    except (ScotError, KeyError):
        return frozenset()
