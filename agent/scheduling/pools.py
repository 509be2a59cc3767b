"""Services at the query scheduler: which IADs of a pool get a task for which areas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent.scheduling.admission import AgreedRate
from agent.wire.areas import matching, overlaps, with_parents
from agent.wire.base import MAX_AREAS
from agent.wire.market import Member, Service

# The service whose pool is fixed in the configuration.
DEFAULT = "default"
# Applications repeat their areas; the table forgets all when it has seen this many sets.
REMEMBERED_MATCHES = 1_024
# Sets of more areas are matched each time: they would take too much memory.
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


class Pool:
    """One instance of a service. A change makes another pool: what is open keeps its own."""

    def __init__(self, service: Service, rate: AgreedRate | None) -> None:
        self.service = service
        self.rate = rate
        self._declared = sum(len(member.areas) for member in service.members)
        self._turn = 0
        self._known: dict[tuple[str, ...], Fanout] = {}

    @property
    def announced(self) -> list[str]:
        """The areas of all members. O(areas)."""
        return [area for member in self.service.members for area in member.areas]

    def fanout(self, areas: tuple[str, ...]) -> Fanout:
        """Whom to ask for these areas.

        O(areas · declared) once per set of areas, then a look-up; redundant services are matched
        each time, since the pairs rotate.
        """
        if self.service.redundant:
            self._turn += 1
            return two_for_each(self.service.members, areas, self._turn - 1)
        found = self._known.get(areas)
        if found is None:
            found = all_that_overlap(self.service.members, areas)
            if len(areas) <= LONGEST_REMEMBERED:
                if len(self._known) >= REMEMBERED_MATCHES:
                    self._known.clear()
                self._known[areas] = found
        return found

    def share(self, fanout: Fanout) -> float:
        """The part of all declared areas that the query asks for, at most 1; each area once."""
        asked = {area for match in fanout.matches for area in match.expected}
        return min(1.0, len(asked) / self._declared) if self._declared else 1.0


def all_that_overlap(members: Iterable[Member], areas: Iterable[str]) -> Fanout:
    """Every member with an area above or below an asked one is asked, all must come back."""
    areas = list(dict.fromkeys(areas))
    matches = []
    for member in members:
        asked = [a for a in areas if any(overlaps(a, d) for d in member.areas)]
        if asked:
            matches.append(Match(member.iad, tuple(asked), expected(asked, member.areas)))
    covered = {area for match in matches for area in match.asked}
    return Fanout(matches, [a for a in areas if a not in covered], len(matches))


def two_for_each(members: Sequence[Member], areas: Iterable[str], turn: int) -> Fanout:
    """Every area that several members cover goes to two of them; pairs rotate with `turn`.

    k_q counts the first choices. They alone would be enough, and Eq. 2 makes them all come back in
    time with p_q; the second choices can only make an area's answer earlier, so the bound stays.
    Counting them too would tighten every task's budget for answers that nobody waits for.
    O(areas · declared).
    """
    plain = all_that_overlap(members, areas)
    below = {match.iad: match for match in plain.matches}
    place = {iad: number for number, iad in enumerate(below)}
    offering: dict[str, list[str]] = {}
    for member in members:
        for area in dict.fromkeys(member.areas):
            offering.setdefault(area, []).append(member.iad)
    chosen: dict[str, list[str]] = {match.iad: [] for match in plain.matches}
    first_choices = set()
    for unit in dict.fromkeys(area for match in plain.matches for area in match.expected):
        able = {iad for area in with_parents(unit) for iad in offering.get(area, ())}
        # In the order of the pool, so that areas with the same members go to the same two.
        first, *second = _pair(sorted(able, key=place.__getitem__), turn)
        first_choices.add(first)
        for iad in (first, *second):
            chosen[iad].append(unit)
    matches = [
        Match(iad, _worded(units, below[iad]), units) for iad, units in chosen.items() if units
    ]
    return Fanout(matches, plain.unmatched, len(first_choices))


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


def expected(asked: Sequence[str], declared: Sequence[str]) -> list[str]:
    """What an IAD that stays silent leaves unanswered: its declared areas below the asked ones,
    and asked areas finer than any it declared."""
    below = matching(asked, declared)
    return below + [a for a in asked if a not in below and not matching([a], declared)]
