"""The fleet that `fleet plan` simulates: IADs, their nodes, and their pods."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from agent.wire.config import ConfigError, load
from agent.wire.master_config import MasterConfig
from agent.wire.pods_config import MasterPods
from fleet.simulation.layout import FleetLayout, IadLayout, NodeLayout, building_fleet

MAX_PODS: Final = MasterPods().most
# Of nodes that nobody described.
PROFILE: Final = "pi3"


def read_fleet(config: Path | None, profile: str | None) -> tuple[FleetLayout, int]:
    """The fleet of a master's fixed pool, or without a file the shipped building; and how many pods
    a node may have.

    A pool names areas, not nodes: one node an area is assumed, named after it. All nodes have the
    hardware `profile`; without one those of the building have their own, others `PROFILE`.
    """
    if config is None:
        building = building_fleet()
        return building if profile is None else _on(profile, building), MAX_PODS
    master = load(config, MasterConfig)
    if not master.pool:
        raise ConfigError(
            f"{config}: no [[pool]]: the plan is made for the IADs and areas of a fixed pool; add "
            "one for each IAD, or give no file to plan the shipped building"
        )
    offered = {member.iad: tuple(dict.fromkeys(member.areas)) for member in master.pool}
    count = Counter(area for areas in offered.values() for area in areas)
    iads = tuple(
        IadLayout(
            iad,
            tuple(
                NodeLayout(
                    area if count[area] == 1 else f"{iad}:{area}",
                    area,
                    "",
                    PROFILE if profile is None else profile,
                )
                for area in areas
            ),
        )
        for iad, areas in offered.items()
    )
    return FleetLayout(iads), master.pods.most


def _on(profile: str, plan: FleetLayout) -> FleetLayout:
    """The plan on other hardware."""
    return FleetLayout(
        tuple(
            IadLayout(iad.name, tuple(replace(node, profile=profile) for node in iad.nodes))
            for iad in plan.iads
        )
    )


def with_named_nodes(plan: FleetLayout, names: Mapping[str, Sequence[str]]) -> FleetLayout:
    """The fleet with the nodes named in records, by IAD, in place of the assumed ones; IADs without
    records stay unchanged."""
    return FleetLayout(tuple(_named(iad, names.get(iad.name, ())) for iad in plan.iads))


def _named(iad: IadLayout, names: Sequence[str]) -> IadLayout:
    if set(names) <= {node.name for node in iad.nodes}:
        return iad
    profile = iad.nodes[0].profile
    return IadLayout(iad.name, tuple(NodeLayout(name, "", "", profile) for name in names))


def pods_of(plan: FleetLayout, asked: Sequence[str], most: int) -> tuple[int, ...]:
    """Pods of every node, from ``2`` (all nodes), ``iad4=2`` and ``iad4-n1=2``; later ones prevail.

    ConfigError for what is none of these, and for a number beyond `most`.
    """
    pods = [1] * len(plan.nodes)
    for text in asked:
        match = re.fullmatch(r"(?:(.+)=)?([0-9]{1,3})", text)
        if match is None or not 1 <= int(match[2]) <= most:
            raise ConfigError(
                f"--pods {text}: write a number from 1 to {most} for all nodes, or IAD=number, or "
                "node=number"
            )
        chosen = [
            number
            for number, (iad, node) in enumerate(places(plan))
            if match[1] in {None, iad, node}
        ]
        if not chosen:
            iads = ", ".join(iad.name for iad in plan.iads)
            raise ConfigError(f"--pods {text}: no IAD and no node is named so; IADs: {iads}")
        for number in chosen:
            pods[number] = int(match[2])
    return tuple(pods)


def places(plan: FleetLayout) -> list[tuple[str, str]]:
    """(IAD, node) of every node in the order of the plan."""
    return [(iad.name, node.name) for iad in plan.iads for node in iad.nodes]
