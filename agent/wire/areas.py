"""Areas: paths such as ``b1/f4/r413``; a parent covers its children by whole segments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

# (?!\n): in Python, $ also matches before a trailing newline.
AREA_PATTERN = r"^[A-Za-z0-9_.-]{1,64}(/[A-Za-z0-9_.-]{1,64}){0,15}$(?!\n)"

# Parents of which a set remembers the sorted names below.
MAX_NAMED_BELOW = 16


def covers(parent: str, child: str) -> bool:
    """Whether `child` is `parent` or lies below it: ``b1/f4`` covers ``b1/f4/r413``, but not
    ``b1/f41``."""
    return child == parent or (child.startswith(parent) and child[len(parent)] == "/")


def overlaps(a: str, b: str) -> bool:
    """Whether one of the two areas covers the other."""
    return covers(a, b) or covers(b, a)


def with_parents(area: str) -> Iterator[str]:
    """The area and all its ancestors, finest first: ``b1/f4/r413``, ``b1/f4``, ``b1``."""
    while area:
        yield area
        area = area.rpartition("/")[0]


def above(area: str) -> Iterator[str]:
    """All ancestors of the area, finest first."""
    return with_parents(area.rpartition("/")[0])


class AreaSet:
    """Areas in order of insertion, each at an index ("place") from 0; an area added twice has two
    places.

    Ancestors and descendants are found by look-ups instead of pairwise comparison. With d the depth
    of an area, n areas take O(n · d) memory. Descendants are indexed on first use.
    """

    __slots__ = ("_areas", "_below", "_here", "_indexed", "_named")

    def __init__(self, areas: Iterable[str] = ()) -> None:
        self._areas: list[str] = []
        # The places of each area.
        self._here: dict[str, list[int]] = {}
        # The places of the areas at or below each area, in order; complete up to place `_indexed`.
        self._below: dict[str, list[int]] = {}
        self._indexed = 0
        # The names below some parents, of so many areas.
        self._named: tuple[tuple[int, int], dict[str, list[str]]] = (0, 0), {}
        for area in areas:
            self.add(area)

    def __len__(self) -> int:
        return len(self._areas)

    def __getitem__(self, place: int) -> str:
        return self._areas[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._areas)

    def add(self, area: str) -> None:
        """Add an area at the next place."""
        self._here.setdefault(area, []).append(len(self._areas))
        self._areas.append(area)

    def places(self, area: str) -> Sequence[int]:
        """The places of exactly this area, in order. O(1)."""
        return self._here.get(area, ())

    def covers(self, area: str) -> bool:
        """Whether an area of the set covers `area`. O(d)."""
        return not self._here.keys().isdisjoint(with_parents(area))

    def covers_below(self, area: str) -> bool:
        """Whether the set has an ancestor of `area`. O(d)."""
        return not self._here.keys().isdisjoint(above(area))

    def has_within(self, area: str) -> bool:
        """Whether `area` covers an area of the set. O(1)."""
        return area in self._index()

    def overlaps(self, area: str) -> bool:
        """Whether an area of the set covers `area` or is covered by it. O(d)."""
        return self.has_within(area) or self.covers(area)

    def places_within(self, asked: Iterable[str]) -> list[int]:
        """The places of the areas that any asked area covers, in order.

        O(asked) look-ups, O(d · found) to collect: an area is found once for each asked area that
        covers it.
        """
        index = self._index()
        found = [below for area in dict.fromkeys(asked) if (below := index.get(area))]
        if len(found) <= 1:
            return list(found[0]) if found else []
        return sorted(set().union(*found))

    def near(self, areas: Iterable[str]) -> list[str]:
        """Those of the areas that share the first segment with an area of the set: no other
        overlaps one. O(areas)."""
        index = self._index()
        return [area for area in areas if area.partition("/")[0] in index]

    def places_overlapping(self, area: str) -> list[int]:
        """The places of the areas that cover `area` or are covered by it, unordered. O(d + found);
        O(1) if no area shares its first segment."""
        index, here = self._index(), self._here
        places: list[int] = []
        end = area.find("/")
        while end > 0:
            parent = area[:end]
            if parent not in index:
                return places  # nothing at this area or below
            places += here.get(parent, ())
            end = area.find("/", end + 1)
        places += index.get(area, ())
        return places

    def within(self, asked: Iterable[str]) -> list[str]:
        """The areas that any asked area covers, each once, in order."""
        return list(dict.fromkeys([self._areas[place] for place in self.places_within(asked)]))

    def without(self, asked: Iterable[str]) -> list[str]:
        """The asked areas that cover no area of the set. O(asked)."""
        index = self._index()
        return [area for area in asked if area not in index]

    def names_below(self, parent: str, most: int) -> Sequence[str]:
        """The next segments of the first `most` areas below `parent`, or of all areas if that is
        empty; sorted. O(most · log most), or O(1) if it was one of the last asked for."""
        if self._named[0] != (len(self._areas), most):
            self._named = (len(self._areas), most), {}
        if (names := self._named[1].get(parent)) is None:
            places = self._index().get(parent, ()) if parent else range(len(self._areas))
            start = len(parent) + 1 if parent else 0
            found = {self._areas[place][start:].partition("/")[0] for place in places[:most]}
            if len(self._named[1]) >= MAX_NAMED_BELOW:
                self._named[1].clear()
            names = self._named[1][parent] = sorted(found - {""})
        return names

    def _index(self) -> dict[str, list[int]]:
        below, areas = self._below, self._areas
        if self._indexed == len(areas):
            return below
        for place in range(self._indexed, len(areas)):
            for parent in with_parents(areas[place]):
                below.setdefault(parent, []).append(place)
        self._indexed = len(areas)
        return below
