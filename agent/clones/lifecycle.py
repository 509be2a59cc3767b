"""Transition table of clones' anchors, keyed (from, to)."""

from __future__ import annotations

from typing import Final

ANCHOR_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "resolving"): "an operator wants the clone: its peers' masters are asked",
    ("resolving", "making"): "all peers are known; it is on its way to the disk, with its topic",
    ("resolving", "removed"): "a peer is not known, or may not be heard",
    ("new", "making"): "restored from disk, where its topic may be missing",
    ("making", "opening"): "its topic is kept",
    ("making", "removed"): "its topic is refused",
    ("new", "opening"): "restored from disk",
    ("opening", "open"): "it hears what the clone puts out: readings go there",
    ("open", "opening"): "its subscription is not known any more",
    ("opening", "ending"): "an operator removed the clone",
    ("open", "ending"): "an operator removed the clone",
    ("new", "ending"): "restored from disk",
    ("ending", "removed"): "the clone is no more",
}
