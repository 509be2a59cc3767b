"""Layout of a lab fleet: IADs, their nodes, what each node replays and emulates; pure."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from importlib.resources import files
from typing import Final

from msgspec import Struct

# Three hours: the longest window of the workload is covered from the start.
PRELOAD_ROWS: Final = 10_800


class NodeLayout(Struct, frozen=True):
    """An edge node: its name, the one area it covers, the room it replays and the hardware profile
    that its pod emulates (empty: none).

    Names are unique in the whole fleet, not only in their IAD: service times are drawn by name, and
    two nodes of one name would draw the same.
    """

    name: str
    area: str
    room: str
    profile: str = ""


class IadLayout(Struct, frozen=True):
    """An IAD: one master and its nodes."""

    name: str
    nodes: tuple[NodeLayout, ...]

    @property
    def areas(self) -> tuple[str, ...]:
        """The areas that it offers to other IADs."""
        return tuple(node.area for node in self.nodes)


class FleetLayout(Struct, frozen=True):
    """IADs that know each other."""

    iads: tuple[IadLayout, ...]

    @property
    def nodes(self) -> tuple[NodeLayout, ...]:
        """The nodes of all IADs."""
        return tuple(node for iad in self.iads for node in iad.nodes)

    def iad_of(self, node: str) -> IadLayout:
        """The IAD of a node; KeyError for an unknown name."""
        for iad in self.iads:
            if any(member.name == node for member in iad.nodes):
                return iad
        raise KeyError(node)


# DSSP's testbed: the building's fourth IAD is the hot spot and has the slowest
# hardware; which of its nodes are boxed is this project's choice.
PROFILE_OF_IAD: Final = {"iad1": "pi4", "iad2": "pi4-powersave", "iad3": "pi4-powersave"}
PROFILE_OF_HOT_SPOT: Final = {
    **dict.fromkeys(("n1", "n2", "n3", "n4"), "pi3"),
    **dict.fromkeys(("n5", "n6", "n7", "n8"), "pi3-boxed"),
}


def building_fleet(*, emulate: bool = True) -> FleetLayout:
    """The shipped building: 4 IADs × 8 nodes, each replaying one room."""
    table = files("sensors").joinpath("replay/data/building_fleet.csv").read_text("utf-8")
    return layout_from_rows(csv.DictReader(table.splitlines()), emulate=emulate)


def layout_from_rows(rows: Iterable[dict[str, str]], *, emulate: bool) -> FleetLayout:
    """A fleet from rows with the columns iad, node, room and area; order is kept."""
    iads: dict[str, list[NodeLayout]] = {}
    for row in rows:
        iad, node = row["iad"], row["node"]
        profile = PROFILE_OF_IAD.get(iad) or PROFILE_OF_HOT_SPOT.get(node, "pi3")
        iads.setdefault(iad, []).append(
            NodeLayout(f"{iad}-{node}", row["area"], row["room"], profile if emulate else "")
        )
    return FleetLayout(tuple(IadLayout(name, tuple(nodes)) for name, nodes in iads.items()))


def part_of(plan: FleetLayout, iads: int, nodes: int) -> FleetLayout:
    """The first `nodes` nodes of the first `iads` IADs."""
    return FleetLayout(
        tuple(IadLayout(iad.name, iad.nodes[:nodes]) for iad in plan.iads[:iads]),
    )
