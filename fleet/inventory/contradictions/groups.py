"""Validation of groups: they exist, and the groups of one node do not conflict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fleet.inventory.effective import groups_of
from fleet.inventory.model import Inventory, Node
from fleet.inventory.nearest import did_you_mean

# What a group may say for its nodes.
SETTINGS: Final = ("release", "sensor", "trigger", "history", "pods", "homes", "clone")


def check(fleet: Inventory) -> Iterator[str]:
    """Groups that do not exist, and nodes whose groups differ in a setting that the node leaves
    open."""
    known = {group.name: None for group in fleet.group}
    for iad in fleet.iad:
        for node in iad.node:
            for name in dict.fromkeys(node.groups):
                if name not in known:
                    yield (
                        f"{iad.name}/{node.name}: there is no group {name}; "
                        f"{did_you_mean(name, list(known))}"
                    )
            yield from _disagreements(fleet, f"{iad.name}/{node.name}", node)


def unused(fleet: Inventory) -> Iterator[str]:
    """Groups without a node, which have no effect."""
    used = {name for iad in fleet.iad for node in iad.node for name in node.groups}
    for group in fleet.group:
        if group.name not in used:
            yield f"group {group.name} has no node: name it in `groups` of a node"


def _disagreements(fleet: Inventory, host: str, node: Node) -> Iterator[str]:
    groups = groups_of(fleet, node)
    for setting in SETTINGS:
        if getattr(node, setting):
            continue
        saying = [group for group in groups if getattr(group, setting)]
        other = next(
            (g for g in saying if getattr(g, setting) != getattr(saying[0], setting)), None
        )
        if other is not None:
            yield (
                f"{host}: its groups {saying[0].name} and {other.name} differ in {setting}; say "
                "it at the node, or take it out of one of them"
            )
