"""Suggestions for unknown areas: the known area that is most like the one asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import islice, takewhile
from typing import Final

from agent.wire.areas import AreaSet
from agent.wire.messages import Missing

# Bounds the cost of a query with unknown areas.
MAX_LOOKED_AT: Final = 256
MAX_COMPARED: Final = 8
MAX_NAMED: Final = 2
# Of names that differ in more characters, those between the first and the last difference, the
# order is not compared.
MAX_DIFFERENT: Final = 16
# Below this similarity, areas are merely different.
ALIKE: Final = 0.6


def nearest(area: str, known: AreaSet) -> str:
    """The known area, or parent of known areas, that is most like `area`: as deep, or where the
    first name that is like none ends it. Empty if that is the first unknown one.
    O(depth · (depth + log `MAX_LOOKED_AT`)), once the names beside each are sorted."""
    parent = area
    while parent and not known.has_within(parent):
        parent = parent.rpartition("/")[0]
    if parent == area:
        return ""
    wanted, _, rest = area[len(parent) :].lstrip("/").partition("/")
    names = known.names_below(parent, MAX_LOOKED_AT)
    # Most areas are named in small letters, and people type F4.
    small = wanted.lower()
    name = _likest(names, wanted) or (_likest(names, small) if small != wanted else "")
    if not name:
        return ""
    found = f"{parent}/{name}" if parent else name
    if not rest:
        return found
    deeper = f"{found}/{rest}"
    return deeper if known.has_within(deeper) else nearest(deeper, known) or found


def without_node(
    areas: Iterable[str], known: AreaSet, expected: Iterable[AreaSet] = ()
) -> list[Missing]:
    """Uncovered areas as missing entries. One that is neither known nor expected, nor an area
    below it, is unknown, and the first of these have the nearest known area. If nothing is known,
    nothing is unknown."""
    areas = list(areas)
    nowhere = set(known.without(areas)) if known else set()
    for each in expected:
        nowhere.intersection_update(each.without(nowhere))
    gaps = [Missing(area, "no_node", unknown=area in nowhere) for area in areas]
    first = islice((n for n, gap in enumerate(gaps) if gap.unknown), MAX_NAMED)
    for n in first:
        if meant := nearest(areas[n], known):
            gaps[n] = Missing(areas[n], "no_node", nearest=(meant,), unknown=True)
    return gaps


def _likest(names: Sequence[str], wanted: str) -> str:
    """Of sorted names the one that is most like `wanted`; empty if none is like it."""
    likely = _begin_alike(names, wanted)
    alike = [(_likeness(name, wanted), name) for name in likely]
    best, name = max(alike, key=lambda one: (one[0], likely[0] == one[1]), default=(0.0, ""))
    return name if best >= ALIKE else ""


def _begin_alike(names: Sequence[str], wanted: str) -> list[str]:
    """Of sorted names the `MAX_COMPARED` that have the longest prefix in common with `wanted`, the
    first of several in alphabetical order."""
    found: list[str] = []
    low = high = at = bisect_left(names, wanted)
    for length in range(_longest_prefix(names[max(0, at - 1) : at + 1], wanted), -1, -1):
        prefix = wanted[:length]
        before, after = low, high
        low = bisect_left(names, prefix, 0, low)
        while high < len(names) and high - after < MAX_COMPARED and names[high].startswith(prefix):
            high += 1
        found += [*names[low : min(before, low + MAX_COMPARED)], *names[after:high]]
        if len(found) >= MAX_COMPARED or (low == 0 and high == len(names)):
            break
    return found[:MAX_COMPARED]


def _longest_prefix(names: Sequence[str], wanted: str) -> int:
    return max((_begins_alike(name, wanted) for name in names), default=0)


def _likeness(one: str, other: str) -> float:
    """As `SequenceMatcher.ratio`, but what both begin and end with is taken for the same."""
    begin = _begins_alike(one, other)
    rest, others = one[begin:], other[begin:]
    end = _begins_alike(rest[::-1], others[::-1])
    rest, others = rest[: len(rest) - end], others[: len(others) - end]
    same = begin + end
    if max(len(rest), len(others)) <= MAX_DIFFERENT:
        matched = SequenceMatcher(None, rest, others).ratio()
        same += round(matched * (len(rest) + len(others)) / 2)
    return 2.0 * same / (len(one) + len(other))


def _begins_alike(one: str, other: str) -> int:
    """Length of the common prefix."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
