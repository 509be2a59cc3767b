"""The area that somebody may have meant who asked for one that is not there."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Final

from agent.wire.areas import AreaSet
from agent.wire.messages import Missing

# A query for nonsense shall not cost more than this.
MAX_LOOKED_AT: Final = 256
MAX_COMPARED: Final = 8
MAX_NAMED: Final = 2
# Less alike than this are only different.
ALIKE: Final = 0.6


def nearest(area: str, known: AreaSet) -> str:
    """The known area, or the parent of some, that is most like `area` beside it: they have the same
    parent. Empty if none is like it. O(depth + `MAX_LOOKED_AT`)."""
    parent = area
    while parent and not known.has_within(parent):
        parent = parent.rpartition("/")[0]
    if parent == area:
        return ""
    wanted = area[len(parent) :].lstrip("/").partition("/")[0]
    names = known.names_below(parent, MAX_LOOKED_AT)
    # Those that begin alike are compared by all their letters.
    likely = sorted(names, key=lambda name: (-_begins_alike(name, wanted), name))
    alike = [(SequenceMatcher(None, name, wanted).ratio(), name) for name in likely[:MAX_COMPARED]]
    best, name = max(alike, key=lambda one: (one[0], likely[0] == one[1]), default=(0.0, ""))
    if best < ALIKE:
        return ""
    return f"{parent}/{name}" if parent else name


def without_node(areas: Iterable[str], known: AreaSet) -> list[Missing]:
    """Areas that nobody covers as they are missing, the first of them with what is nearest."""
    gaps = []
    for number, area in enumerate(areas):
        meant = nearest(area, known) if number < MAX_NAMED else ""
        gaps.append(Missing(area, "no_node", nearest=(meant,) if meant else ()))
    return gaps


def _begins_alike(one: str, other: str) -> int:
    """How many of their first letters are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
