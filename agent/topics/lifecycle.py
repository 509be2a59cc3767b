"""Transition table of topics, keyed (from, to)."""

from __future__ import annotations

from typing import Final

TOPIC_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "opening"): "created, or restored from disk",
    ("opening", "open"): "its inbox is open",
    ("open", "opening"): "its inbox does not know it any more",
    ("opening", "removed"): "an operator removed it",
    ("open", "removed"): "an operator removed it",
}
