"""Services at the query scheduler: which IADs of a pool get a task for which areas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent.scheduling.admission import AgreedRate
from agent.wire.areas import AreaSet, with_parents
from agent.wire.base import MAX_AREAS
from agent.wire.market import Member, Service

# The service whose pool is fixed in the configuration.
DEFAULT = "default"
# Applications repeat their areas; the table forgets all when it has seen this many sets.
REMEMBERED_MATCHES = 1_024
# Sets of more areas are looked up each time: they would take too much memory.
LONGEST_REMEMBERED = 32


class Match(NamedTuple):
    """An IAD that gets a task: the areas to ask it for, and the areas that it leaves unanswered if
    it stays silent."""

    iad: str
    asked: tuple[str, ...]
    expected: list[str]


class Fanout(NamedTuple):
    """Whom a query goes to. `k_q` is the number of IADs that Eq. 2 splits its percentile over;
    `unmatched` are the asked areas that nobody offers."""

    matches: list[Match]
    unmatched: list[str]
    k_q: int


class Offers:
    """Who of a pool declares which areas. O(declared · depth) to make."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self.declared = AreaSet()
        # Whose each declared area is, a place in `members`.
        self._owners: list[int] = []
        self._own = [AreaSet(member.areas) for member in members]
        for number, member in enumerate(members):
            for area in dict.fromkeys(member.areas):
                self.declared.add(area)
                self._owners.append(number)

    def by_member(self, areas: Iterable[str]) -> dict[int, list[str]]:
        """The members, by their places and in their order, that declare an area above or below one
        of these, each with these. O(depth · (areas + found))."""
        owners, overlapping = self._owners, self.declared.places_overlapping
        asked: dict[int, list[str]] = {}
        for area in areas:
            if not (places := overlapping(area)):
                continue
            for number in {owners[place] for place in places}:
                asked.setdefault(number, []).append(area)
        return {number: asked[number] for number in sorted(asked)}

    def all_that_overlap(self, areas: Iterable[str]) -> Fanout:
        """Every member with an area above or below an asked one is asked, all must come back."""
        areas = list(dict.fromkeys(areas))
        matches = [
            Match(self._members[number].iad, tuple(asked), self._expected(number, asked))
            for number, asked in self.by_member(areas).items()
        ]
        covered = {area for match in matches for area in match.asked}
        return Fanout(matches, [a for a in areas if a not in covered], len(matches))

    def two_for_each(self, areas: Iterable[str], turn: int) -> Fanout:
        """Every area that several members cover goes to two of them; pairs rotate with `turn`.

        k_q counts the first choices. They alone would be enough, and Eq. 2 makes them all come back
        in time with p_q; the second choices can only make an area's answer earlier, so the bound
        stays. Counting them too would tighten every task's budget for answers that nobody waits
        for.
        """
        plain = self.all_that_overlap(areas)
        below = {match.iad: match for match in plain.matches}
        place = {iad: number for number, iad in enumerate(below)}
        chosen: dict[str, list[str]] = {match.iad: [] for match in plain.matches}
        first_choices = set()
        for unit in dict.fromkeys(area for match in plain.matches for area in match.expected):
            able = {self._members[number].iad for number in self._covering(unit)}
            # In the order of the pool, so that areas with the same members go to the same two.
            first, *second = _pair(sorted(able, key=place.__getitem__), turn)
            first_choices.add(first)
            for iad in (first, *second):
                chosen[iad].append(unit)
        matches = [
            Match(iad, _worded(units, below[iad]), units) for iad, units in chosen.items() if units
        ]
        return Fanout(matches, plain.unmatched, len(first_choices))

    def _covering(self, area: str) -> Iterator[int]:
        """The members that declare the area or one above it; some more than once."""
        for parent in with_parents(area):
            for place in self.declared.places(parent):
                yield self._owners[place]

    def _expected(self, number: int, asked: Sequence[str]) -> list[str]:
        """What a member that stays silent leaves unanswered: its declared areas below the asked
        ones, and asked areas finer than any it declared."""
        own = self._own[number]
        return own.within(asked) + own.without(asked)


class Pool:
    """One instance of a service. A change makes another pool: what is open keeps its own."""

    def __init__(self, service: Service, rate: AgreedRate | None) -> None:
        self.service = service
        self.rate = rate
        self._offers = Offers(service.members)
        self._declared = sum(len(member.areas) for member in service.members)
        self._turn = 0
        self._known: dict[tuple[str, ...], Fanout] = {}

    @property
    def announced(self) -> AreaSet:
        """The areas of all members."""
        return self._offers.declared

    def fanout(self, areas: tuple[str, ...]) -> Fanout:
        """Whom to ask for these areas.

        Looked up if the set of areas was asked before; redundant services are matched each time,
        since the pairs rotate.
        """
        if self.service.redundant:
            self._turn += 1
            return self._offers.two_for_each(areas, self._turn - 1)
        found = self._known.get(areas)
        if found is None:
            found = self._offers.all_that_overlap(areas)
            if len(areas) <= LONGEST_REMEMBERED:
                if len(self._known) >= REMEMBERED_MATCHES:
                    self._known.clear()
                self._known[areas] = found
        return found

    def share(self, fanout: Fanout) -> float:
        """The part of all declared areas that the query asks for, at most 1; each area once."""
        asked = {area for match in fanout.matches for area in match.expected}
        return min(1.0, len(asked) / self._declared) if self._declared else 1.0


def _pair(able: Sequence[str], turn: int) -> Sequence[str]:
    """Two of those that are able, each ordered pair in its turn; one if there is no other."""
    n = len(able)
    if n == 1:
        return able
    step = 1 + (turn // n) % (n - 1)
    return able[turn % n], able[(turn + step) % n]


def _worded(units: Sequence[str], match: Match) -> tuple[str, ...]:
    """What to ask an IAD for so that it serves these units: the client's own areas if it serves all
    that it has below them."""
    if len(units) > MAX_AREAS or set(match.expected).issubset(units):
        return match.asked
    return tuple(units)
