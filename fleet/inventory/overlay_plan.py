"""Positions of IADs in the overlay of masters, and each master's overlay configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from msgspec import Struct

from agent.overlay.scot import BrokerId, Scot
from agent.wire.overlay_config import MasterOverlay, OverlayNeighbour


class OverlayPlan(Struct, frozen=True, dict=True):
    """The two factors of a SCOT, and the IADs that are its brokers: every place has one."""

    links: tuple[tuple[str, str], ...]
    clusters: int
    places: dict[str, BrokerId]

    @cached_property
    def scot(self) -> Scot:
        """The overlay; ScotError if the factors form none."""
        vertices = () if self.links else {place.vertex for place in self.places.values()}
        return Scot(self.links, self.clusters, vertices)

    @cached_property
    def iads(self) -> dict[BrokerId, str]:
        """The IADs at a position."""
        return {place: iad for iad, place in self.places.items()}

    def neighbours(self, iad: str) -> tuple[str, ...]:
        """The neighbours in its cluster, then those in its region. KeyError if a place is empty."""
        place, scot = self.places[iad], self.scot
        return tuple(
            [
                self.iads[each]
                for each in (*scot.cluster_neighbours(place), *scot.region_neighbours(place))
            ]
        )

    def way(self, publisher: str, subscriber: str) -> tuple[str, ...]:
        """The IADs on the path of a notification, both ends included, while no link is congested or
        down: first into the subscriber's cluster, then along its tree."""
        first, last = self.places[publisher], self.places[subscriber]
        path = self.scot.tree.path(first.vertex, last.vertex)
        passed = [first, *(BrokerId(vertex, last.cluster) for vertex in path)]
        return tuple([self.iads[each] for each in dict.fromkeys(passed)])

    def section(self, iad: str, reach: Callable[[str], tuple[str, str]]) -> MasterOverlay:
        """The overlay section of the configuration of `iad`'s master. `reach` returns the address
        of an IAD's public socket, and the file with its public keys, if any."""
        place = self.places[iad]
        neighbours = []
        for name in self.neighbours(iad):
            (vertex, cluster), (address, keys) = self.places[name], reach(name)
            neighbours.append(OverlayNeighbour(name, vertex, cluster, address, keys))
        return MasterOverlay(
            vertex=place.vertex,
            cluster=place.cluster,
            links=self.links,
            clusters=self.clusters,
            neighbour=tuple(neighbours),
        )
