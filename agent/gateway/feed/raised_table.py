"""Table of the triggers that are raised, as far as alerts tell; bounded. Pure, for one thread that
changes it; what it shows is for any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from agent.gateway.feed.area_shares import AreaShares

MAX_RAISED: Final = 1_000
# A node may name any triggers, and begin any number of histories, but only in its own areas.
MAX_RAISED_OF_AREA: Final = 64


class Raised(Struct, frozen=True):
    """A trigger that holds at an area, as far as alerts tell. `value` is that which raised it;
    `received_ms` is by this gateway's clock."""

    iad: str
    trigger: str
    area: str
    metric: str
    since_ms: int
    position: int
    value: float | None = None
    received_ms: int = 0


class Cleared(Struct, frozen=True):
    """The last end of a trigger at an area: by its node's clock, and when this gateway heard it."""

    time_ms: int
    received_ms: int


class Change(Struct, frozen=True):
    """An alert's effect: the trigger of one node at an area, by `key`, is `raised`, or cleared."""

    key: str
    trigger: str
    area: str
    raised: Raised | None
    cleared: Cleared | None = None


class RaisedTable:
    """What is raised, by key, and the last ends."""

    def __init__(self) -> None:
        # Grows with each alert that a trigger was raised or cleared.
        self.version = 0
        self._raised: dict[str, Raised] = {}
        self._shares = AreaShares()
        self._cleared: dict[tuple[str, str], Cleared] = {}
        # Replaced as a whole, so that who reads it needs no lock.
        self._rows: tuple[Raised, ...] = ()
        self._shown: tuple[tuple[Raised, ...], tuple[Raised, ...]] = (), ()

    def load(self, rows: Iterable[tuple[str, Raised]]) -> list[str]:
        """Take what is kept, the oldest first; the keys that go, as an earlier version kept more of
        them."""
        gone = []
        for key, raised in rows:
            changes = self._places_for(key, raised, set())
            gone += [each for each, kept in changes.items() if kept is None]
            self._note(changes)
        self._rows = tuple(self._raised.values())
        return gone

    def changes(self, change: Change | None, oldest_ms: int) -> dict[str, Raised | None]:
        """New values of raised alerts, by key, None for one that goes: also for those that are too
        old. O(what goes), and O(areas) if there are too many."""
        too_old = set[str]()
        for key, each in self._raised.items():
            if each.received_ms >= oldest_ms:
                break
            too_old.add(key)
        changes: dict[str, Raised | None] = dict.fromkeys(too_old)
        if change is not None:
            if change.raised is not None:
                changes |= self._places_for(change.key, change.raised, too_old)
            elif change.key in self._raised:
                changes[change.key] = None
        return changes

    def take(self, change: Change | None, changes: Mapping[str, Raised | None]) -> None:
        """Take a change and what `changes` made of it, once they are kept."""
        if changes:
            self._note(changes)
            self._rows = tuple(self._raised.values())
        if change is not None and change.cleared is not None:
            at = change.trigger, change.area
            self._cleared.pop(at, None)
            if len(self._cleared) >= MAX_RAISED:
                del self._cleared[next(iter(self._cleared))]
            self._cleared[at] = change.cleared
        if changes or change is not None:
            self.version += 1

    def _note(self, changes: Mapping[str, Raised | None]) -> None:
        for key, raised in changes.items():
            if (former := self._raised.pop(key, None)) is not None:
                self._shares.remove(former.iad, former.area, key)
            if raised is not None:
                self._raised[key] = raised  # the newest comes last, as in the file
                self._shares.add(raised.iad, raised.area, key)

    def _places_for(self, key: str, raised: Raised, gone: set[str]) -> dict[str, Raised | None]:
        """It takes the place of the oldest of an area that has too many; if all are too many, of
        the oldest of those that have most. `gone` go anyway."""
        if key in self._raised:
            return {key: raised}
        count, oldest = self._shares.in_area(raised.iad, raised.area)
        if count >= MAX_RAISED_OF_AREA:
            return {oldest: None, key: raised}
        if len(self._raised) - len(gone) >= MAX_RAISED:
            return {self._shares.oldest_of_largest(raised.iad, raised.area): None, key: raised}
        return {key: raised}

    @property
    def raised(self) -> tuple[Raised, ...]:
        """What is raised now, the longest first; one for each area, whatever number of nodes. The
        same object until that changes; for any thread."""
        rows, (of, shown) = self._rows, self._shown
        if of is not rows:
            shown = _shown(rows)
            self._shown = rows, shown
        return shown

    def cleared(self, trigger: str, area: str) -> Cleared | None:
        """The last end of that trigger since this gateway runs, of the 1,000 newest; for any
        thread."""
        return self._cleared.get((trigger, area))


def _shown(raised: Iterable[Raised]) -> tuple[Raised, ...]:
    found: dict[tuple[str, str, str], Raised] = {}
    for each in raised:
        found.setdefault((each.iad, each.trigger, each.area), each)
    return tuple(sorted(found.values(), key=lambda each: (each.since_ms, each.position)))
