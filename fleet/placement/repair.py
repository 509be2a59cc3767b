"""Packing that goes on: topics come and go, and loads drift. Few moves, then few masters.

Bins are lists of topics by number, as the planners make them; an empty one is a master without
topics, and is taken before a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final

from fleet.placement.latency import Feasibility
from fleet.placement.packing import Bins

FEW: Final = 2  # topics of a master that is worth emptying


def best_fit(
    bins: Bins, topic: int, load: Sequence[float], most: int, feasible: Feasibility
) -> int:
    """Put a topic that came into the fullest bin that stays feasible, else into an empty or new
    one; returns the bin's place. O(bins) questions."""
    fits = [
        place
        for place, each in enumerate(bins)
        if each and len(each) < most and feasible([*each, topic])
    ]
    if fits:
        place = max(fits, key=lambda at: sum(load[other] for other in bins[at]))
    else:
        place = next((at for at, each in enumerate(bins) if not each), len(bins))
        if place == len(bins):
            bins.append([])
    bins[place].append(topic)
    return place


def leave(
    bins: Bins, topic: int, load: Sequence[float], most: int, feasible: Feasibility
) -> list[int]:
    """Take a topic that went out of its bin; if few stay there, move them elsewhere if they fit.
    Returns the topics that moved."""
    place = next(at for at, each in enumerate(bins) if topic in each)
    bins[place].remove(topic)
    return empty(bins, place, load, most, feasible) if len(bins[place]) <= FEW else []


def empty(
    bins: Bins, place: int, load: Sequence[float], most: int, feasible: Feasibility
) -> list[int]:
    """Move all topics of a bin into others in use, if all fit; returns those that moved."""
    staying = [[] if at == place else list(each) for at, each in enumerate(bins)]
    moved = sorted(bins[place], key=lambda topic: -load[topic])
    if not _absorbed(staying, moved, load, most, feasible):
        return []
    bins[:] = staying
    return moved


def repaired(
    bins: Bins,
    load: Sequence[float],
    most: int,
    feasible: Feasibility,
    keep: Feasibility | None = None,
    fixed: frozenset[int] = frozenset(),
) -> tuple[Bins, list[int]]:
    """Bins that `keep` accepts, or have a single topic or only those of `fixed`, which stay where
    they are; and the topics that moved.

    `keep` is `feasible` by default; one with less headroom saves moves, for who stays is measured
    and who comes is predicted. Topics go where it stays feasible. Of each bin that is not kept the
    fewest topics go: of those sets one that other bins take without a new master, the lightest.
    O(bins · 2^most) questions at worst, and each is about one bin.
    """
    keep = keep or feasible
    found = [list(each) for each in bins]
    moved: list[int] = []
    for place in range(len(found)):
        if len(found[place]) > 1 and not keep(found[place]):
            moved += _relieve(found, place, load, most, feasible, keep, fixed)
    return found, moved


def _relieve(
    bins: Bins,
    place: int,
    load: Sequence[float],
    most: int,
    feasible: Feasibility,
    keep: Feasibility,
    fixed: frozenset[int],
) -> list[int]:
    topics = bins[place]
    free = [topic for topic in topics if topic not in fixed]
    most_gone = min(len(free), len(topics) - 1)
    for count in range(1, most_gone + 1):
        choices = [
            gone
            for gone in combinations(free, count)
            if count == most_gone or keep([t for t in topics if t not in gone])
        ]
        choices.sort(key=lambda gone: sum(load[topic] for topic in gone))
        for gone in choices:
            others = [[] if at == place else list(each) for at, each in enumerate(bins)]
            if _absorbed(others, gone, load, most, feasible):
                others[place] = [t for t in topics if t not in gone]
                bins[:] = others
                return list(gone)
        if choices:
            gone = choices[0]
            bins[place] = [t for t in topics if t not in gone]
            for topic in sorted(gone, key=lambda t: -load[t]):
                best_fit(bins, topic, load, most, feasible)
            return list(gone)
    return []  # Nothing here may go.


def _absorbed(
    bins: Bins, topics: Iterable[int], load: Sequence[float], most: int, feasible: Feasibility
) -> bool:
    """Whether bins in use took all the topics; `bins` is spoilt if not."""
    before = len(bins)
    used = sum(map(bool, bins))
    for topic in topics:
        best_fit(bins, topic, load, most, feasible)
        if len(bins) > before or sum(map(bool, bins)) > used:
            return False
    return True
