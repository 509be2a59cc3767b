"""Derived values: what a clone computes for its device, from the master to the device's node."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from agent.wire.base import (
    MAX_DERIVED,
    MAX_DERIVED_TOGETHER,
    Channel,
    Count,
    Finite,
    Identifier,
    Message,
    Position,
    WireStruct,
)


class DerivedValues(WireStruct, frozen=True):
    """Values that a clone computed for this node, `age_ms` before the message. Positions of a
    source increase, and may have gaps."""

    position: Position
    age_ms: Count
    values: Annotated[dict[Channel, Finite], Meta(min_length=1, max_length=MAX_DERIVED)]


class Derived(Message, frozen=True, tag="derived"):
    """Derived values for the node's history, in order of their positions; answered with
    `derived_taken` once they are on stable storage, or sent again. `source` identifies the clone:
    one that is made anew has another."""

    incarnation: Identifier
    source: Identifier
    values: Annotated[
        tuple[DerivedValues, ...], Meta(min_length=1, max_length=MAX_DERIVED_TOGETHER)
    ]


class DerivedTaken(Message, frozen=True, tag="derived_taken"):
    """The node has the derived values of `source` up to `position` on stable storage, each once."""

    incarnation: Identifier
    source: Identifier
    position: Position
