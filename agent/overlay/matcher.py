"""Filters by key: which hold for a notification, and which share one with another filter.

A filter is a disjunction; whatever the number of its conjunctions that match, its key is told once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from _core.matching.engine import Conjunctions
from agent.wire.predicates import Attributes, Filter, plain

Key = TypeVar("Key")


class Matcher(Generic[Key]):
    """A population of filters that changes at run time. Memory: that of the filters."""

    def __init__(self) -> None:
        self._engine = Conjunctions()
        self._filters: dict[Key, tuple[range, Filter]] = {}
        self._keys: dict[int, Key] = {}
        self._next = 0

    def __len__(self) -> int:
        """Filters, not conjunctions."""
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def __iter__(self) -> Iterator[Key]:
        """The keys, in the order in which they came."""
        return iter(self._filters)

    def put(self, key: Key, disjunction: Filter) -> Filter | None:
        """From now on it matches, in the place of the one with this key, if there was one, which is
        returned. ValueError for a predicate that makes no sense: then nothing has changed. As
        `Conjunctions.insert` and `remove`, for each conjunction."""
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
        """It matches no longer. KeyError. As `Conjunctions.remove`, for each conjunction."""
        ids, disjunction = self._filters.pop(key)
        for number in ids:
            self._engine.remove(number)
            del self._keys[number]
        return disjunction

    def match(self, attributes: Attributes) -> list[Key]:
        """The keys of those that hold, each once, in the order in which they came. As
        `Conjunctions.match`, and O(r log r) for r results."""
        return self._told(self._engine.match(attributes))

    def intersecting(self, disjunction: Filter) -> list[Key]:
        """The keys of those that share some notification with it, in that order."""
        found: set[int] = set()
        for conjunction in disjunction:
            found.update(self._engine.intersecting(plain(conjunction)))
        return self._told(list(found))

    def _told(self, ids: list[int]) -> list[Key]:
        # In order: what a broker does must not hang on how the engine stores its population.
        keys = self._keys
        return list(dict.fromkeys(keys[number] for number in sorted(ids)))
