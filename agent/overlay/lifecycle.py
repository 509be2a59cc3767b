"""Transition table of one end of a link to a neighbour, keyed (from, to)."""

from __future__ import annotations

from typing import Final

LINK_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "down"): "the master starts",
    ("down", "up"): "the other end has heard of this session",
    (
        "up",
        "down",
    ): "a message was lost, the queue is full, silence, or the other end restarted its session",
    (
        "up",
        "paused",
    ): "the other end is connected but takes or settles nothing, or the link was up briefly again",
    ("paused", "down"): "the pause is over",
}
