"""Filters by key: which match a notification, and which intersect another filter.

A filter is a disjunction; its key is returned once, however many of its conjunctions match.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from _core.matching.engine import Conjunctions
from agent.wire.predicates import Attributes, Filter, plain

Key = TypeVar("Key")


class Matcher(Generic[Key]):
    """A set of filters that changes at run time. Memory: that of the filters."""

    def __init__(self) -> None:
        self._engine = Conjunctions()
        self._filters: dict[Key, tuple[range, Filter]] = {}
        self._keys: dict[int, Key] = {}
        self._next = 0

    def __len__(self) -> int:
        """Number of filters, not conjunctions."""
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def __iter__(self) -> Iterator[Key]:
        """The keys, in the order of insertion."""
        return iter(self._filters)

    def get(self, key: Key) -> Filter | None:
        """The filter with this key; None if there is none. O(1)."""
        found = self._filters.get(key)
        return None if found is None else found[1]

    def put(self, key: Key, disjunction: Filter) -> Filter | None:
        """Insert the filter, in place of the one with this key, if any, which is returned.
        ValueError for an invalid predicate: then nothing has changed. As `Conjunctions.insert` and
        `remove`, for each conjunction."""
        ids = range(self._next, self._next + len(disjunction))
        done = 0
        try:
            for number, conjunction in zip(ids, disjunction, strict=True):
                self._engine.insert(number, plain(conjunction))
                done += 1
        except ValueError:
            for number in ids[:done]:
                self._engine.remove(number)
            raise
        before = self.remove(key) if key in self._filters else None
        self._next = ids.stop
        self._filters[key] = ids, disjunction
        self._keys.update(dict.fromkeys(ids, key))
        return before

    def remove(self, key: Key) -> Filter:
        """Remove the filter. KeyError. As `Conjunctions.remove`, for each conjunction."""
        ids, disjunction = self._filters.pop(key)
        for number in ids:
            self._engine.remove(number)
            del self._keys[number]
        return disjunction

    def match(self, attributes: Attributes) -> list[Key]:
        """The keys of the matching filters, each once, in the order of insertion. As
        `Conjunctions.match`, and O(r log r) for r results."""
        return self._told(self._engine.match(attributes))

    def intersecting(self, disjunction: Filter) -> list[Key]:
        """The keys of the filters that share some notification with this one, in the order of
        insertion."""
        found: set[int] = set()
        for conjunction in disjunction:
            found.update(self._engine.intersecting(plain(conjunction)))
        return self._told(found)

    def intersects(self, disjunction: Filter) -> bool:
        """Whether any filter shares some notification with this one; at most as `intersecting`, and
        mostly far less."""
        return any(self._engine.intersects(plain(conjunction)) for conjunction in disjunction)

    def _told(self, ids: Iterable[int]) -> list[Key]:
        # Ordered, so that a broker's behaviour does not depend on how the engine stores the
        # filters.
        return list(dict.fromkeys(map(self._keys.__getitem__, sorted(ids))))
