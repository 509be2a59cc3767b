"""What the brokers of the overlay say to each other."""

from __future__ import annotations

from agent.wire.base import Count, Identifier, Name, Part, WallMs
from agent.wire.predicates import Attributes


class Origin(Part, frozen=True, array_like=True):
    """Which notification it is, everywhere and however often it comes: of the IAD `publisher`,
    number `sequence` of a random `history`, which does not tell whose it is."""

    publisher: Name
    history: Identifier
    sequence: Count


class Notification(Part, frozen=True):
    """Something that happened, for whoever wants to know."""

    origin: Origin
    time_ms: WallMs
    attributes: Attributes
