"""Configuration of a master's place in the overlay: its neighbours, and what it may publish."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from agent.wire.base import Name, Text
from agent.wire.config import Count, File, Section

Cluster = Annotated[int, Meta(ge=0, le=1_023)]


class OverlayNeighbour(Section, frozen=True):
    """A neighbour in the overlay: whose master it is, and where."""

    iad: Annotated[Name, Meta(description="Name of the IAD.")]
    vertex: Annotated[Name, Meta(description="Its vertex of the acyclic factor.")]
    cluster: Annotated[Cluster, Meta(description="Its cluster, from 0.")]
    address: Annotated[str, Meta(description="Its master's public socket.")]
    keys: Annotated[
        File,
        Meta(
            description="File with its public keys, one a line, at most two; read again at every "
            "reconnection. The allow-list has them too."
        ),
    ] = ""


class OverlayAdvertisement(Section, frozen=True):
    """An advertisement: notifications that this IAD may publish."""

    filter: Annotated[
        Text,
        Meta(min_length=1, description="A filter for which all of it holds (subscriptions.md)."),
    ]


class MasterOverlay(Section, frozen=True):
    """The overlay of masters on which alerts travel, and this master's place in it. Without any of
    it, alerts stay in this IAD."""

    vertex: Annotated[
        Name,
        Meta(description="This master's vertex of the acyclic factor; empty: the IAD's name."),
    ] = ""
    cluster: Annotated[Cluster, Meta(description="This master's cluster, from 0.")] = 0
    links: Annotated[
        tuple[tuple[Name, Name], ...],
        Meta(max_length=65_536, description="The acyclic factor: pairs of vertices, a tree."),
    ] = ()
    clusters: Annotated[
        Count, Meta(le=1_024, description="Vertices of the complete factor: how many clusters.")
    ] = 1
    routing: Annotated[
        Literal["idr", "snr"],
        Meta(description="idr goes round congested links, snr does not."),
    ] = "idr"
    neighbour: Annotated[
        tuple[OverlayNeighbour, ...],
        Meta(max_length=2_048, description="All neighbours of this master."),
    ] = ()
    advertise: Annotated[
        tuple[OverlayAdvertisement, ...],
        Meta(max_length=64, description='What is published; none: iad = "<this IAD>".'),
    ] = ()
