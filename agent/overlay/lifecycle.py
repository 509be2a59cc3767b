"""What one end of a link to a neighbour goes through, as a table keyed (from, to)."""

from __future__ import annotations

from typing import Final

LINK_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "down"): "the master starts",
    ("down", "up"): "the other end has heard of this session",
    ("up", "down"): "a message was lost, too many wait, silence, or the other end began anew",
    ("up", "paused"): "the other end is there, and takes or settles nothing",
    ("paused", "down"): "the pause is over",
}
