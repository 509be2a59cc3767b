"""SCOT: the structured cyclic overlay, a tree times a complete graph (OctopiA, section III)."""

from __future__ import annotations

from typing import NamedTuple


class Broker(NamedTuple):
    """A vertex of the product: of the tree, and the index of a cluster, from 0."""

    vertex: str
    cluster: int
