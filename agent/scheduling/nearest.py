"""The area that somebody may have meant who asked for one that is not there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import islice, takewhile
from typing import Final

from agent.wire.messages import Missing

# Whoever asks for nonsense shall not cost more than this.
MOST_LOOKED_AT: Final = 4_096
MOST_COMPARED: Final = 8
MOST_NAMED: Final = 3
# Less alike than this are only different.
ALIKE: Final = 0.6


def nearest(area: str, known: Iterable[str]) -> str:
    """The known area, or the parent of some, that is most like `area` beside it: they have the same
    parent. Empty if none is like it. O(known), and at most `MOST_LOOKED_AT` of them."""
    paths = [path.split("/") for path in islice(known, MOST_LOOKED_AT)]
    asked = area.split("/")
    depth = max((_alike(path, asked) for path in paths), default=0)
    if depth == len(asked):
        return ""
    parent, wanted = asked[:depth], asked[depth]
    names = {path[depth] for path in paths if len(path) > depth and path[:depth] == parent}
    # Those that begin alike are compared by all their letters.
    likely = sorted(names, key=lambda name: (-_alike(name, wanted), name))
    alike = [
        (SequenceMatcher(None, name[:64], wanted[:64]).ratio(), name)
        for name in likely[:MOST_COMPARED]
    ]
    best, name = max(alike, key=lambda one: (one[0], likely[0] == one[1]), default=(0.0, ""))
    return "/".join([*parent, name]) if best >= ALIKE else ""


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of their first parts are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def without_node(areas: Iterable[str], known: Iterable[str]) -> list[Missing]:
    """Areas that nobody covers as they are missing, the first of them with what is nearest."""
    gaps = []
    known = list(islice(known, MOST_LOOKED_AT))
    for number, area in enumerate(areas):
        meant = nearest(area, known) if number < MOST_NAMED else ""
        gaps.append(Missing(area, "no_node", nearest=(meant,) if meant else ()))
    return gaps
