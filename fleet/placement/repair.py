"""Packing that goes on: topics come and go, and loads drift. Few moves, then few masters.

Bins are lists of topics by number, as the planners make them; an empty one is a master without
topics, and is taken before a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final

from fleet.placement.packing import Bins

# Whether the master of the bin at this place may have these topics, and keeps their objectives.
Fits = Callable[[int, Sequence[int]], bool]

# Sets of topics that are tried at most; beyond, the heaviest go.
MAX_TRIED: Final = 20_000
FEW: Final = 2  # topics of a master that is worth emptying


def best_fit(bins: Bins, topic: int, load: Sequence[float], fits: Fits) -> int:
    """Put a topic that came into the fullest bin that takes it, else into an empty one, if
    possible one that takes it, else into a new one; returns the bin's place. O(bins) questions."""
    able = [place for place, each in enumerate(bins) if each and fits(place, [*each, topic])]
    if able:
        place = max(able, key=lambda at: sum(load[other] for other in bins[at]))
    else:
        empties = [place for place, each in enumerate(bins) if not each]
        first = empties[0] if empties else len(bins)
        place = next((at for at in empties if fits(at, [topic])), first)
        if place == len(bins):
            bins.append([])
    bins[place].append(topic)
    return place


def leave(bins: Bins, topic: int, load: Sequence[float], fits: Fits) -> list[int]:
    """Take a topic that went out of its bin; if few stay there, move them elsewhere if they fit.
    Returns the topics that moved."""
    place = next(at for at, each in enumerate(bins) if topic in each)
    bins[place].remove(topic)
    return empty(bins, place, load, fits) if len(bins[place]) <= FEW else []


def empty(bins: Bins, place: int, load: Sequence[float], fits: Fits) -> list[int]:
    """Move all topics of a bin into others in use, if all fit; returns those that moved."""
    staying = [[] if at == place else list(each) for at, each in enumerate(bins)]
    moved = sorted(bins[place], key=lambda topic: -load[topic])
    if not _absorbed(staying, moved, load, fits):
        return []
    bins[:] = staying
    return moved


def repaired(
    bins: Bins,
    load: Sequence[float],
    fits: Fits,
    keep: Fits | None = None,
    fixed: frozenset[int] = frozenset(),
) -> tuple[Bins, list[int]]:
    """Bins that `keep` accepts, or have a single topic or only those of `fixed`, which stay where
    they are; and the topics that moved.

    `keep` is `fits` by default; one with less headroom saves moves, for who stays is measured
    and who comes is predicted. Topics go where they fit. Of each bin that is not kept the
    fewest topics go: of those sets one that other bins take without a new master, the lightest.
    O(bins · most · `MAX_TRIED`) questions at worst, and each is about one bin.
    """
    keep = keep or fits
    found = [list(each) for each in bins]
    moved: list[int] = []
    for place in range(len(found)):
        if len(found[place]) > 1 and not keep(place, found[place]):
            moved += _relieve(found, place, load, fits, keep, fixed)
    return found, moved


def _relieve(
    bins: Bins,
    place: int,
    load: Sequence[float],
    fits: Fits,
    keep: Fits,
    fixed: frozenset[int],
) -> list[int]:
    topics = bins[place]
    free = [topic for topic in topics if topic not in fixed]
    most_gone = min(len(free), len(topics) - 1)
    for count in range(1, most_gone + 1):
        choices = [
            gone
            for gone in _sets(free, count, load)
            if count == most_gone or keep(place, [t for t in topics if t not in gone])
        ]
        choices.sort(key=lambda gone: sum(load[topic] for topic in gone))
        for gone in choices:
            others = [[] if at == place else list(each) for at, each in enumerate(bins)]
            if _absorbed(others, gone, load, fits):
                others[place] = [t for t in topics if t not in gone]
                bins[:] = others
                return list(gone)
        if choices:
            gone = choices[0]
            bins[place] = [t for t in topics if t not in gone]
            for topic in sorted(gone, key=lambda t: -load[t]):
                best_fit(bins, topic, load, fits)
            return list(gone)
    return []  # Nothing here may go.


def _sets(topics: Sequence[int], count: int, load: Sequence[float]) -> Iterable[Sequence[int]]:
    """All sets of so many topics, or the heaviest alone if those are too many to try."""
    if comb(len(topics), count) <= MAX_TRIED:
        return combinations(topics, count)
    return [sorted(topics, key=lambda topic: (-load[topic], topic))[:count]]


def _absorbed(bins: Bins, topics: Iterable[int], load: Sequence[float], fits: Fits) -> bool:
    """Whether bins in use took all the topics; `bins` is spoilt if not."""
    before = len(bins)
    used = sum(map(bool, bins))
    for topic in topics:
        best_fit(bins, topic, load, fits)
        if len(bins) > before or sum(map(bool, bins)) > used:
            return False
    return True
