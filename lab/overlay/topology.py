"""Topologies of the overlay experiments."""

from __future__ import annotations

import itertools
from typing import Final

from agent.overlay.scot import Scot

CLUSTERS: Final = 5
# OctopiA Fig. 10: 4 inner vertices and 10 at the edge. The text does not say how they are
# connected: here the inner ones form a path, with the others spread over it.
INNER: Final = "FGHI"
EDGES: Final = {"F": "ABC", "G": "DE", "H": "JK", "I": "LMN"}


def paper() -> Scot:
    """14 vertices times 5 clusters: 70 brokers."""
    links = [*itertools.pairwise(INNER)]
    links += [(inner, edge) for inner, edges in EDGES.items() for edge in edges]
    return Scot(links, CLUSTERS)


def spread(vertices: int, clusters: int, fanout: int = 4) -> Scot:
    """A tree in which each vertex has up to `fanout` below it, times that many clusters."""
    links = [(f"v{(number - 1) // fanout}", f"v{number}") for number in range(1, vertices)]
    return Scot(links, clusters, [f"v{number}" for number in range(vertices)])
