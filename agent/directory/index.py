"""Area index: which IADs offer a capability in an area or in one that overlaps it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from agent.wire.areas import above, with_parents
from agent.wire.directory import Candidate, DirectoryEntry

Bucket = dict[str, Candidate]


class _Place(Struct, gc=False):
    """IADs by name at one area: those that registered areas at or below it, with these areas, and
    those that registered exactly this area."""

    below: Bucket = field(default_factory=dict)
    here: Bucket = field(default_factory=dict)


class AreaIndex:
    """capability → each registered area and every area above it → candidates, ready to be sent.

    An entry of r areas of depth d takes O(r · d) to add or remove, and as much memory.
    """

    def __init__(self) -> None:
        self._capabilities: dict[str, dict[str, _Place]] = {}

    def add(self, entry: DirectoryEntry) -> None:
        """Index the offerings of an IAD that is not in the index."""
        account, address = entry.account, entry.address
        for capability, areas in _offered(entry).items():
            places = self._capabilities.setdefault(capability, {})
            for parent, registered in _by_place(areas).items():
                place = places.setdefault(parent, _Place())
                candidate = Candidate(account.name, address, account.keys, tuple(registered))
                place.below[account.name] = candidate
                if parent in areas:
                    here = Candidate(account.name, address, account.keys, (parent,))
                    place.here[account.name] = here

    def remove(self, entry: DirectoryEntry) -> None:
        """Remove an entry that was added."""
        name = entry.account.name
        for capability, areas in _offered(entry).items():
            places = self._capabilities[capability]
            for parent in _by_place(areas):
                place = places[parent]
                del place.below[name]
                place.here.pop(name, None)
                if not place.below:
                    del places[parent]
            if not places:
                del self._capabilities[capability]

    def find(
        self, capability: str, asked: Iterable[str]
    ) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
        """The candidates by name, and the asked areas that no candidate overlaps.

        A registered area matches an asked one that it covers or that covers it. k asked areas of
        depth d and n candidates with m areas in all: O(k · d) look-ups, O(m + n log n) to collect.
        """
        places = self._capabilities.get(capability, {})
        asked = dict.fromkeys(asked)
        uncovered = tuple(area for area in asked if not any(_buckets(places, area)))
        # Each pair of IAD and area is in exactly one of these: disjoint subtrees, and the areas
        # above them.
        buckets = [
            places[area].below
            for area in asked
            if area in places and not any(parent in asked for parent in above(area))
        ]
        over = {parent for area in asked for parent in above(area) if parent not in asked}
        over = {area for area in over if not any(parent in asked for parent in above(area))}
        buckets += [places[area].here for area in over if area in places]
        return _merged(buckets), uncovered


def _offered(entry: DirectoryEntry) -> dict[str, list[str]]:
    """The areas of each capability, sorted, each once."""
    areas: dict[str, set[str]] = {}
    for offering in entry.offerings:
        areas.setdefault(offering.capability, set()).update(offering.areas)
    return {capability: sorted(found) for capability, found in areas.items()}


def _by_place(areas: Iterable[str]) -> dict[str, list[str]]:
    """Every area and all above it, each with the areas at or below it, in their order."""
    places: dict[str, list[str]] = {}
    for area in areas:
        for parent in with_parents(area):
            places.setdefault(parent, []).append(area)
    return places


def _buckets(places: dict[str, _Place], area: str) -> Iterator[Bucket]:
    """All entries that overlap `area`."""
    if (place := places.get(area)) is not None:
        yield place.below
    for parent in above(area):
        if (place := places.get(parent)) is not None:
            yield place.here


def _merged(buckets: list[Bucket]) -> tuple[Candidate, ...]:
    """One candidate per IAD, with its areas from all buckets."""
    if len(buckets) == 1:
        found = buckets[0]
    else:
        found = {}
        several: dict[str, list[str]] = {}
        for bucket in buckets:
            for name, candidate in bucket.items():
                if name not in found:
                    found[name] = candidate
                else:
                    several.setdefault(name, list(found[name].areas)).extend(candidate.areas)
        for name, areas in several.items():
            one = found[name]
            found[name] = Candidate(name, one.address, one.keys, tuple(sorted(areas)))
    return tuple([found[name] for name in sorted(found)])
