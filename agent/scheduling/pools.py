"""Service pools at the query scheduler: which IADs get a task for which areas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from agent.scheduling.admission import AgreedRate
from agent.scheduling.remembered import Remembered
from agent.wire.about import EVERYWHERE
from agent.wire.areas import AreaSet, with_parents
from agent.wire.base import MAX_AREAS
from agent.wire.market import Member, Service

# The service whose pool is fixed in the configuration.
DEFAULT = "default"
# By which a service's areas are told in few words.
MAX_ROOTS = 32


class Match(NamedTuple):
    """An IAD that gets a task: the areas to ask it for, and the areas that are unanswered if it
    does not reply. `allowed` are those that it may answer for, if not the asked ones."""

    iad: str
    asked: tuple[str, ...]
    expected: list[str]
    allowed: AreaSet | None = None


class Fanout(NamedTuple):
    """The IADs that a query goes to. `k_q` is the number of IADs that Eq. 2 splits its percentile
    over; `unmatched` are the asked areas that no IAD offers."""

    matches: list[Match]
    unmatched: list[str]
    k_q: int


class Offers:
    """Members of a pool by declared area. O(declared · depth) to build."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self.declared = AreaSet()
        # The owner of each declared area, as an index into `members`.
        self._owners: list[int] = []
        self._own = [AreaSet(member.areas) for member in members]
        for number, member in enumerate(members):
            for area in dict.fromkeys(member.areas):
                self.declared.add(area)
                self._owners.append(number)

    def by_member(self, areas: Iterable[str]) -> dict[int, list[str]]:
        """The members, by index and in order, that declare an area above or below one of these,
        each with these. O(depth · (areas + found))."""
        owners, overlapping = self._owners, self.declared.places_overlapping
        asked: dict[int, list[str]] = {}
        for area in self.declared.near(areas):
            if not (places := overlapping(area)):
                continue
            for number in {owners[place] for place in places}:
                asked.setdefault(number, []).append(area)
        return {number: asked[number] for number in sorted(asked)}

    def all_that_overlap(self, areas: Iterable[str]) -> Fanout:
        """Ask every member with an area above or below an asked one; all must reply."""
        areas = list(dict.fromkeys(areas))
        matches = [
            Match(self._members[number].iad, tuple(asked), self._expected(number, asked))
            for number, asked in self.by_member(areas).items()
        ]
        covered = {area for match in matches for area in match.asked}
        return Fanout(matches, [a for a in areas if a not in covered], len(matches))

    def everywhere(self) -> Fanout:
        """Ask every member for all that it declares."""
        matches = [
            Match(member.iad, (EVERYWHERE,), list(own), own)
            for member, own in zip(self._members, self._own, strict=True)
            if len(own)
        ]
        return Fanout(matches, [], len(matches))

    def two_for_each(self, areas: Iterable[str], turn: int) -> Fanout:
        """Send each area that several members cover to two of them; pairs rotate with `turn`.

        k_q counts the first choices. They alone would suffice, and Eq. 2 makes them all reply in
        time with p_q; the second choices can only make an area's answer earlier, so the bound
        holds. Counting them too would tighten every task's budget for answers that the query does
        not wait for.
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
        """The areas that are unanswered if a member does not reply: its declared areas below the
        asked ones, and asked areas finer than any it declared."""
        own = self._own[number]
        return own.within(asked) + own.without(asked)


class Pool:
    """The pool of one instance of a service. A change makes a new pool; open queries keep
    theirs."""

    def __init__(self, service: Service, rate: AgreedRate | None) -> None:
        self.service = service
        self.rate = rate
        self._offers = Offers(service.members)
        self._declared = sum(len(member.areas) for member in service.members)
        self._turn = 0
        self._known: Remembered[Fanout] = Remembered()

    @property
    def announced(self) -> AreaSet:
        """The areas of all members."""
        return self._offers.declared

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Areas that cover all that is declared: the declared ones, or so many levels above them
        that there are at most `MAX_ROOTS`, or only the first names are left. O(declared · depth),
        once."""
        roots = sorted(set(self.announced))
        depth = max((area.count("/") for area in roots), default=0)
        while depth and len(roots) > MAX_ROOTS:
            roots = sorted({"/".join(area.split("/")[:depth]) for area in roots})
            depth -= 1
        known = AreaSet(roots)
        return tuple([area for area in roots if not known.covers_below(area)][:MAX_AREAS])

    def all_of(self, areas: tuple[str, ...]) -> Fanout:
        """The IADs that know of these areas: all with one above or below, also of a redundant
        service. ``*``: all."""
        if areas == (EVERYWHERE,):
            return self._offers.everywhere()
        return self._offers.all_that_overlap(areas)

    def fanout(self, areas: tuple[str, ...]) -> Fanout:
        """The IADs to ask for these areas.

        Cached by the set of areas; redundant services are matched each time, because the pairs
        rotate.
        """
        if self.service.redundant:
            self._turn += 1
            return self._offers.two_for_each(areas, self._turn - 1)
        found = self._known.get(areas)
        if found is None:
            found = self._known.keep(areas, self._offers.all_that_overlap(areas))
        return found

    def share(self, fanout: Fanout) -> float:
        """The fraction of all declared areas that the query asks for, at most 1; each area counts
        once."""
        asked = {area for match in fanout.matches for area in match.expected}
        return min(1.0, len(asked) / self._declared) if self._declared else 1.0


def _pair(able: Sequence[str], turn: int) -> Sequence[str]:
    """Two of the able members, each ordered pair in turn; one if there is no other."""
    n = len(able)
    if n == 1:
        return able
    step = 1 + (turn // n) % (n - 1)
    return able[turn % n], able[(turn + step) % n]


def _worded(units: Sequence[str], match: Match) -> tuple[str, ...]:
    """The areas to ask an IAD for so that it serves these units: the client's own areas if it
    serves all that it has below them."""
    if len(units) > MAX_AREAS or set(match.expected).issubset(units):
        return match.asked
    return tuple(units)
