"""Area index: which IADs offer a capability in an area or in one that overlaps it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from msgspec import Struct, field

from agent.wire.areas import above
from agent.wire.directory import Offerings

# Sorted areas of an IAD.
Areas = tuple[str, ...]
# A set: the garbage collector does not track such a dict, of which there may be a million.
Names = dict[str, None]


class _Capability(Struct):
    """All offers of IADs for one capability.

    An IAD is noted once at an area and at each area above it, not once for every area below these:
    which of its areas lie below, `collect` finds in its sorted `areas`.
    """

    areas: dict[str, Areas] = field(default_factory=dict)
    # The IADs that registered exactly this area, and those that registered areas below it.
    here: dict[str, Names] = field(default_factory=dict)
    below: dict[str, Names] = field(default_factory=dict)

    def replace(self, name: str, after: Areas) -> int:
        """Replace the areas of an IAD, sorted and each once; returns how many places more."""
        before = self.areas.pop(name, ())
        if after:
            self.areas[name] = after
        if after == before:
            return 0
        stays = set(before).intersection(after)
        lost = self._remove(name, [area for area in before if area not in stays], after)
        return self._add(name, [area for area in after if area not in stays]) - lost

    def _add(self, name: str, areas: Iterable[str]) -> int:
        below, count = self.below, 0
        for area in areas:
            self.here.setdefault(area, {})[name] = None
            count += 1
            for parent in above(area):
                names = below.get(parent)
                if names is None:
                    below[parent] = {name: None}
                elif name in names:
                    break  # so it is at all areas above
                else:
                    names[name] = None
                count += 1
        return count

    def _remove(self, name: str, areas: Iterable[str], left: Areas) -> int:
        """Remove `areas`, of which none is among those that are left."""
        count = 0
        for area in areas:
            _discard(self.here, area, name)
            count += 1
            for parent in above(area):
                # What is left keeps the IAD at all areas above it.
                if name not in self.below.get(parent, ()) or _any_below(left, parent):
                    break
                _discard(self.below, parent, name)
                count += 1
        return count

    def collect(self, roots: Iterable[str], exact: Iterable[str]) -> dict[str, Areas]:
        """The IADs at these places with their areas: those below the roots, and the exact ones."""
        found: dict[str, Areas] = {}
        several: defaultdict[str, list[str]] = defaultdict(list)
        for root in roots:
            # "0" is the character after "/".
            first, end = root + "/", root + "0"
            for name in self.below[root]:
                areas = self.areas[name]
                if areas[0] < first or areas[-1] >= end:
                    areas = areas[bisect_left(areas, first) : bisect_left(areas, end)]
                if found.setdefault(name, areas) is not areas:
                    several[name] += areas
        for area in exact:
            one = (area,)
            for name in self.here[area]:
                if found.setdefault(name, one) is not one:
                    several[name].append(area)
        for name, more in several.items():
            found[name] = tuple(sorted([*found[name], *more]))
        return found


class AreaIndex:
    """capability → each registered area and every area above it → IADs.

    An IAD has a place at each of its areas, and one at each different area above these. A change of
    its offerings takes O(r) to compare them, and O(log r) for each place that it gains or loses, or
    keeps just above a lost area; memory for each place.
    """

    def __init__(self) -> None:
        self._capabilities: dict[str, _Capability] = {}
        self.places = 0  # of all IADs

    def replace(self, name: str, before: Offerings, after: Offerings) -> None:
        """Replace the offerings of an IAD; `before` is what it had, () if nothing."""
        areas = _offered(after)
        for capability in areas.keys() | {offering.capability for offering in before}:
            offered = self._capabilities.setdefault(capability, _Capability())
            self.places += offered.replace(name, tuple(sorted(areas.get(capability, ()))))
            if not offered.areas:
                del self._capabilities[capability]

    def areas(self, name: str, offerings: Offerings) -> Areas:
        """All areas of an IAD with these offerings, sorted. O(r) for one capability."""
        capabilities = {offering.capability for offering in offerings}
        each = [self._capabilities[capability].areas[name] for capability in capabilities]
        if all(areas == each[0] for areas in each):
            return each[0] if each else ()
        return tuple(dict.fromkeys(sorted(chain.from_iterable(each))))

    def find(
        self, capability: str, asked: Iterable[str]
    ) -> tuple[dict[str, Areas], tuple[str, ...]]:
        """The IADs with their matching areas, sorted; and the asked areas that no IAD overlaps.

        A registered area matches an asked one that it covers or that covers it. k asked areas of
        depth d and n IADs at these with m areas in all: at most O(k · d) look-ups, fewer where
        nothing is registered below; O(k · n · log r + m · log m) to collect.
        """
        asked = dict.fromkeys(asked)
        offered = self._capabilities.get(capability)
        if offered is None:
            return {}, tuple(asked)
        here, below = offered.here, offered.below
        # Each pair of IAD and area is at exactly one of these: below the first, or at the second.
        roots: list[str] = []
        exact: Names = {}
        uncovered: list[str] = []
        for area in asked:
            covered = subsumed = False
            end = area.find("/")
            while end > 0:
                parent = area[:end]
                subsumed = subsumed or parent in asked
                if parent in here:
                    covered = True
                    if not subsumed:
                        exact[parent] = None
                if parent not in below:
                    break  # nothing is registered at `area` or below
                end = area.find("/", end + 1)
            else:
                covered = covered or area in here or area in below
                if not subsumed:
                    roots.append(area)
            if not covered:
                uncovered.append(area)
        exact |= dict.fromkeys(root for root in roots if root in here)
        return offered.collect([root for root in roots if root in below], exact), tuple(uncovered)


def places_of(offerings: Offerings, most: int) -> int:
    """How many places an IAD with these offerings has in an index; counts no further than one
    beyond `most`."""
    count = 0
    for areas in _offered(offerings).values():
        seen: set[str] = set()
        for area in areas:
            count += 1
            parent = area.rpartition("/")[0]
            while parent and parent not in seen:
                seen.add(parent)
                count += 1
                parent = parent.rpartition("/")[0]
            if count > most:
                return most + 1
    return count


def _offered(offerings: Offerings) -> dict[str, Names]:
    """The areas of each capability, each once, in their order: usually they are sorted."""
    areas: dict[str, Names] = {}
    for offering in offerings:
        areas.setdefault(offering.capability, {}).update(dict.fromkeys(offering.areas))
    return areas


def _any_below(areas: Areas, parent: str) -> bool:
    """Whether any of the sorted areas lies below `parent`."""
    first = bisect_left(areas, parent + "/")
    return first < len(areas) and areas[first] < parent + "0"


def _discard(places: dict[str, Names], area: str, name: str) -> None:
    names = places[area]
    del names[name]
    if not names:
        del places[area]
