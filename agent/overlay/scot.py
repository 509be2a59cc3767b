"""SCOT: the structured cyclic overlay, a tree times a complete graph (OctopiA, section III).

The Cartesian product of an acyclic factor, the tree, and a complete factor. Its vertices are the
brokers (vertex, cluster). One **cluster** is one copy of the tree, joined by **aLinks**; one
**region** is all brokers of one vertex of the tree, each joined with each by **iLinks**. Neighbours
in the cluster are a broker's *primary* neighbours, those in the region its *secondary* ones.

Nothing is stored for each broker: memory is that of the tree, whatever the number of clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal, NamedTuple

from agent.overlay.tree import Tree, TreeError

MAX_CLUSTERS = 1_024  # the width of a cluster index vector
MAX_BROKERS = 1 << 20


class BrokerId(NamedTuple):
    """A vertex of the product: a vertex of the tree, and the index of a cluster, from 0."""

    vertex: str
    cluster: int


class ScotError(ValueError):
    """The factors form no SCOT, or it has no such broker: one line says why."""


LinkKind = Literal["aLink", "iLink"]


class Scot:
    """An immutable overlay; every broker knows both factors."""

    def __init__(
        self, links: Iterable[tuple[str, str]], clusters: int, vertices: Iterable[str] = ()
    ) -> None:
        """The links of the tree, and the number of its copies: 1 to 1,024. Vertices may be left out
        if the links name all of them. ScotError. O(links)."""
        if isinstance(clusters, bool) or not isinstance(clusters, int):
            raise ScotError(f"the number of clusters is a whole number, not {clusters!r}")
        if not 1 <= clusters <= MAX_CLUSTERS:
            raise ScotError(f"an overlay has 1 to {MAX_CLUSTERS:,} clusters, not {clusters:,}")
        try:
            self.tree = Tree(links, vertices)
        except TreeError as error:
            raise ScotError(str(error)) from None
        self.clusters = clusters
        if self.order > MAX_BROKERS:
            raise ScotError(
                f"{len(self.tree):,} vertices times {clusters:,} clusters are more than the"
                f" {MAX_BROKERS:,} brokers that an overlay may have"
            )

    # --- brokers ---------------------------------------------------------------------------------

    @property
    def vertices(self) -> tuple[str, ...]:
        """The vertices of the tree, which also index the regions."""
        return self.tree.vertices

    def brokers(self) -> Iterator[BrokerId]:
        """All brokers, cluster by cluster."""
        for cluster in range(self.clusters):
            yield from self.cluster(cluster)

    def cluster(self, index: int) -> tuple[BrokerId, ...]:
        """The brokers of a cluster, in the order of `vertices`. O(their number)."""
        return tuple(BrokerId(vertex, index) for vertex in self.vertices)

    def region(self, vertex: str) -> tuple[BrokerId, ...]:
        """The brokers of a region, by cluster. O(their number)."""
        return tuple(BrokerId(vertex, cluster) for cluster in range(self.clusters))

    def __contains__(self, broker: object) -> bool:
        match broker:
            case (str() as vertex, int() as cluster):
                return vertex in self.tree and 0 <= cluster < self.clusters
        return False

    def check(self, broker: tuple[object, object]) -> None:
        """ScotError if there is no such broker: the index of a cluster is a number from 0, and the
        vertex of the tree stands first (index and label order properties)."""
        vertex, cluster = broker
        if isinstance(vertex, int) and cluster in self.tree:
            raise ScotError(f"a broker is (vertex, cluster): {vertex, cluster} is turned round")
        if vertex not in self.tree:
            raise ScotError(f"the overlay has no vertex {vertex!r}")
        if broker not in self:
            raise ScotError(
                f"the clusters are numbered 0 to {self.clusters - 1}: there is no {cluster!r}"
            )

    def is_edge(self, broker: BrokerId) -> bool:
        """Whether it has at most one primary neighbour; else it is an inner broker. O(1)."""
        return self.tree.degree(broker.vertex) <= 1

    # --- links -----------------------------------------------------------------------------------

    def cluster_neighbours(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The primary ones, over aLinks. O(their number)."""
        return tuple(BrokerId(each, broker.cluster) for each in self.tree.neighbours(broker.vertex))

    def region_neighbours(self, broker: BrokerId) -> tuple[BrokerId, ...]:
        """The secondary ones, over iLinks, by cluster. O(their number)."""
        return tuple(
            BrokerId(broker.vertex, cluster)
            for cluster in range(self.clusters)
            if cluster != broker.cluster
        )

    def link_kind(self, a: BrokerId, b: BrokerId) -> LinkKind | None:
        """The kind of link between two brokers; None if they are not neighbours. O(degree)."""
        if a.vertex == b.vertex:
            return "iLink" if a.cluster != b.cluster else None
        joined = a.cluster == b.cluster and b.vertex in self.tree.neighbours(a.vertex)
        return "aLink" if joined else None

    def a_links(self) -> Iterator[tuple[BrokerId, BrokerId]]:
        """Each aLink once, cluster by cluster."""
        for cluster in range(self.clusters):
            for a, b in self.tree.links:
                yield BrokerId(a, cluster), BrokerId(b, cluster)

    def i_links(self) -> Iterator[tuple[BrokerId, BrokerId]]:
        """Each iLink once, region by region."""
        for vertex in self.vertices:
            for a in range(self.clusters):
                for b in range(a + 1, self.clusters):
                    yield BrokerId(vertex, a), BrokerId(vertex, b)

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits, equal for the same overlay in whatever order it is written: two
        brokers compare them to check that they have the same overlay. O(|V_a| log |V_a|)."""
        links = sorted(" ".join(sorted(link)) for link in self.tree.links)
        text = "\n".join([str(self.clusters), *sorted(self.vertices), *links])
        return sha256(text.encode()).hexdigest()[:16]

    # --- paths -----------------------------------------------------------------------------------

    def next_vertex(self, at: str, to: str) -> str:
        """The next vertex from `at` on the path to another one. ValueError if they are the same,
        KeyError for an unknown one. O(log degree)."""
        return self.tree.next_vertex(at, to)

    def path(self, start: str, end: str) -> tuple[str, ...]:
        """The vertices of the tree from one to the other, both among them. KeyError. O(length)."""
        return self.tree.path(start, end)

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        """Links on a shortest path: in the tree, and one more into another cluster. O(distance)."""
        return self.tree.distance(a.vertex, b.vertex) + (a.cluster != b.cluster)

    # --- measures --------------------------------------------------------------------------------

    @property
    def order(self) -> int:
        """|V| = |V_a| |V_c|: brokers (OctopiA Eq. 1)."""
        return len(self.tree) * self.clusters

    @property
    def a_link_count(self) -> int:
        """|V_c| |E_a| (OctopiA Eq. 2)."""
        return self.clusters * (len(self.tree) - 1)

    @property
    def i_link_count(self) -> int:
        """|V_a| |V_c| (|V_c| − 1) / 2 (OctopiA Eq. 2)."""
        return len(self.tree) * (self.clusters * (self.clusters - 1) // 2)

    @property
    def size(self) -> int:
        """|E|: links of both kinds."""
        return self.a_link_count + self.i_link_count

    @property
    def diameter(self) -> int:
        """Links between the two brokers that are farthest apart: the tree's diameter, and 1 more if
        there is more than one cluster. O(|V_a|)."""
        return self.tree.diameter + (self.clusters > 1)

    @property
    def minimum_degree(self) -> int:
        """δ(G_a) + δ(G_c): fewest neighbours of a broker."""
        return (len(self.tree) > 1) + self.clusters - 1

    @property
    def vertex_connectivity(self) -> int:
        """κ: the fewest brokers whose loss cuts the overlay in two, or leaves one broker alone.

        min(κ_a |V_c|, κ_c |V_a|, δ_a + δ_c) (Špacapan; OctopiA Eq. 3), with κ_a = δ_a = 1 of a tree
        and κ_c = δ_c = |V_c| − 1 of a complete graph; a factor of one vertex leaves the other's.
        """
        return self._connectivity()

    @property
    def edge_connectivity(self) -> int:
        """λ: the fewest links whose loss does so.

        min(λ_a |V_c|, λ_c |V_a|, δ_a + δ_c) (Xu and Yang; OctopiA Eq. 4), with the same values.
        """
        return self._connectivity()

    def _connectivity(self) -> int:
        if len(self.tree) == 1 or self.clusters == 1:
            return self.minimum_degree
        complete = self.clusters - 1
        return min(self.clusters, complete * len(self.tree), self.minimum_degree)
