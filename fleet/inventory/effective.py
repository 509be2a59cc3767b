"""Effective settings of a host: its own, else those of its groups, else those of the fleet."""

from __future__ import annotations

from agent.overlay.scot import Broker
from agent.wire.edge_config import EdgeHistory, EdgePods, EdgeSensor, EdgeTrigger
from fleet.inventory.model import Group, Inventory, JumpHost, Node
from fleet.inventory.overlay_plan import OverlayPlan
from fleet.inventory.parties import HostOf


def groups_of(fleet: Inventory, node: Node) -> list[Group]:
    """The groups of a node, in its order; what is no group is passed over."""
    return [group for name in node.groups for group in fleet.group if group.name == name]


def release_of(fleet: Inventory, host: HostOf) -> str:
    """The desired release; empty: the one built from these sources."""
    of_group = ""
    if host.node is not None:
        of_group = next((g.release for g in groups_of(fleet, host.node) if g.release), "")
    return host.entry.release or of_group or fleet.releases.pin


def is_canary(fleet: Inventory, host: HostOf) -> bool:
    """Whether a rollout starts with it."""
    return host.node is not None and any(group.canary for group in groups_of(fleet, host.node))


def user_of(fleet: Inventory, host: HostOf) -> str:
    """The login user."""
    return host.entry.user or fleet.ssh.user


def port_of(fleet: Inventory, host: HostOf) -> int:
    """Port of its sshd."""
    return host.entry.port or fleet.ssh.port


def jump_of(fleet: Inventory, host: HostOf) -> JumpHost | None:
    """The jump host that it is behind; None for one that is reached directly."""
    own = host.entry.jump
    name = host.iad.jump if own is None else own
    return next((each for each in fleet.jump if each.name == name), None)


def sensors_of(fleet: Inventory, node: Node) -> tuple[EdgeSensor, ...]:
    """Its sensors: its own, or else those of one group."""
    return node.sensor or next((g.sensor for g in groups_of(fleet, node) if g.sensor), ())


def triggers_of(fleet: Inventory, node: Node) -> tuple[EdgeTrigger, ...]:
    """Its triggers: its own, or else those of one group."""
    return node.trigger or next((g.trigger for g in groups_of(fleet, node) if g.trigger), ())


def history_of(fleet: Inventory, node: Node) -> EdgeHistory:
    """How much it keeps, and where."""
    of_group = next((g.history for g in groups_of(fleet, node) if g.history), None)
    return node.history or of_group or EdgeHistory()


def pods_of(fleet: Inventory, node: Node) -> EdgePods:
    """Its pods."""
    return node.pods or next((g.pods for g in groups_of(fleet, node) if g.pods), EdgePods())


def overlay_of(fleet: Inventory) -> OverlayPlan | None:
    """The overlay and the places of the IADs that have one; None without an overlay."""
    if fleet.overlay is None:
        return None
    places = {
        iad.name: Broker(iad.overlay.vertex, iad.overlay.cluster)
        for iad in fleet.iad
        if iad.overlay is not None
    }
    return OverlayPlan(fleet.overlay.links, fleet.overlay.clusters, places)
