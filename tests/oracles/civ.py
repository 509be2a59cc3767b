"""A cluster index vector as a Python set."""

from collections.abc import Iterable


class NaiveCiv:
    """Same meaning as `_core.matching.civ.Civ`; `meaningful` are the clusters whose bit may be
    set."""

    def __init__(self, width: int, meaningful: Iterable[int]) -> None:
        self.width = width
        self.meaningful = set(meaningful)
        self.clusters: set[int] = set()

    def set(self, cluster: int) -> bool:
        if cluster not in self.meaningful:
            raise ValueError
        new = cluster not in self.clusters
        self.clusters.add(cluster)
        return new

    def clear(self, cluster: int) -> bool:
        there = cluster in self.clusters
        self.clusters.discard(cluster)
        return there

    def unite(self, clusters: Iterable[int]) -> None:
        if not self.meaningful.issuperset(clusters):
            raise ValueError
        self.clusters.update(clusters)

    def subtract(self, clusters: Iterable[int]) -> None:
        self.clusters.difference_update(clusters)

    def to_bytes(self) -> bytes:
        number = sum(2**cluster for cluster in self.clusters)
        return number.to_bytes((self.width + 7) // 8, "little")
