"""Link messages between two overlay brokers: hello, heartbeat, numbered frames.

Each end sends to the other's public socket. An end that loses the link begins a new session with an
unguessable number; the link is up at an end once it knows that the other has heard of its session
(`agent.overlay.session`).
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
    """Heartbeat: the numbers of messages `sent` and `received` so far in the sender's session."""

    session: Session
    sent: Count
    received: Count


class OverlayRefused(Message, frozen=True, tag="overlay_refused"):
    """Reply to a hello: no link is set up, and `message` gives the reason."""

    message: Text


OverlayRequest = OverlayHello | OverlayFrame | OverlayBeat
