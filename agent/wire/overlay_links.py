"""How two brokers of the overlay keep a link: what they say to each other beside the overlay's own
messages.

Each end sends to the other's public socket. An end that loses the link begins a new session, whose
number nobody can guess; the link is up at an end that knows that the other one has heard of its
session (`agent.overlay.session`).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agent.wire.base import Count, Identifier, Message, Name, Text
from agent.wire.overlay import ClusterIndex, OverlayMessage

Session = Annotated[int, Meta(ge=1, lt=2**53)]


class OverlayHello(Message, frozen=True, tag="overlay_hello"):
    """The master of `iad` is the broker (`vertex`, `cluster`) of the overlay with this fingerprint,
    and begins a `session`. `heard` is the receiver's, 0 without one. `open`: the link is up at the
    sender; if not, it waits for a hello."""

    iad: Name
    vertex: Name
    cluster: ClusterIndex
    overlay: Identifier
    session: Session
    heard: Count
    open: bool


class OverlayFrame(Message, frozen=True, tag="overlay_frame"):
    """Message number `sequence` of the sender's session, from 1."""

    session: Session
    sequence: Session
    message: OverlayMessage


class OverlayBeat(Message, frozen=True, tag="overlay_beat"):
    """The sender is there: in its session it has `sent` so many messages until now, and `received`
    so many."""

    session: Session
    sent: Count
    received: Count


class OverlayRefused(Message, frozen=True, tag="overlay_refused"):
    """To who sent a hello: no link comes of it, and `message` says why."""

    message: Text


OverlayRequest = OverlayHello | OverlayFrame | OverlayBeat
