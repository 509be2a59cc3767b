"""Suggestions for unknown areas: the known area that is most like the one asked for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final

from agent.wire.areas import AreaSet
from agent.wire.messages import Missing

# Bounds the cost of a query with unknown areas.
MAX_LOOKED_AT: Final = 256
MAX_COMPARED: Final = 8
MAX_NAMED: Final = 2
# Below this similarity, areas are merely different.
ALIKE: Final = 0.6


def nearest(area: str, known: AreaSet) -> str:
    """The known area, or parent of known areas, that is most like `area` and has the same parent.
    Empty if none is like it. O(depth + `MAX_LOOKED_AT`)."""
    parent = area
    while parent and not known.has_within(parent):
        parent = parent.rpartition("/")[0]
    if parent == area:
        return ""
    wanted = area[len(parent) :].lstrip("/").partition("/")[0]
    names = known.names_below(parent, MAX_LOOKED_AT)
    # Those with the longest common prefix are compared in full.
    likely = sorted(names, key=lambda name: (-_begins_alike(name, wanted), name))
    alike = [(SequenceMatcher(None, name, wanted).ratio(), name) for name in likely[:MAX_COMPARED]]
    best, name = max(alike, key=lambda one: (one[0], likely[0] == one[1]), default=(0.0, ""))
    if best < ALIKE:
        return ""
    return f"{parent}/{name}" if parent else name


def without_node(areas: Iterable[str], known: AreaSet) -> list[Missing]:
    """Uncovered areas as missing entries, the first of them with the nearest known area."""
    gaps = [Missing(area, "no_node") for area in areas]
    for number, gap in enumerate(gaps[:MAX_NAMED]):
        if meant := nearest(gap.area, known):
            gaps[number] = Missing(gap.area, "no_node", nearest=(meant,))
    return gaps


def _begins_alike(one: str, other: str) -> int:
    """Length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
