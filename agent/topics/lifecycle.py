"""Transition table of topics, keyed (from, to)."""

from __future__ import annotations

from typing import Final

TOPIC_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "opening"): "created, or restored from disk",
    ("opening", "open"): "its inbox is open",
    ("open", "opening"): "its inbox does not know it any more",
    ("opening", "removed"): "an operator removed it, or its source took it back",
    ("open", "removed"): "an operator removed it, or its source took it back",
    ("opening", "draining"): "it is handed over: no message is taken any more",
    ("open", "draining"): "it is handed over: no message is taken any more",
    ("draining", "paused"): "what came of its messages is on disk",
    ("opening", "paused"): "taken from another master, which may take it back",
    ("open", "paused"): "taken from another master, which may take it back",
    ("new", "paused"): "restored from disk while it was handed over",
    ("new", "warm"): "its master hands it over to this one: its processor is built",
    ("warm", "opening"): "taken, on disk",
    ("warm", "paused"): "taken from another master, which may take it back",
    ("paused", "opening"): "it works here, again or from now on",
    ("paused", "removed"): "another master has it",
    ("warm", "removed"): "it is not handed over",
}
