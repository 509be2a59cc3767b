"""Shares of a full table of raised alerts: whose oldest makes room for a new one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# An area has fewer levels; beyond it all counts as one.
MAX_LEVELS: Final = 8


class _Part:
    """The keys below an area, or, without parts, of an area itself: the oldest first."""

    __slots__ = ("count", "keys", "parts")

    def __init__(self) -> None:
        self.count = 0
        self.parts: dict[str | None, _Part] = {}
        self.keys: dict[str, None] = {}


class AreaShares:
    """Equal shares at each level: IADs, then the areas below each other. A node begins as many
    histories, and invents as many names, as it likes, but only in its own areas."""

    def __init__(self) -> None:
        self._all = _Part()

    def add(self, iad: str, area: str, key: str) -> None:
        """The newest key of its area. O(levels)."""
        part = self._all
        part.count += 1
        for name in _path(iad, area):
            part = part.parts.setdefault(name, _Part())
            part.count += 1
        part.keys[key] = None

    def remove(self, iad: str, area: str, key: str) -> None:
        """A key that was added with this IAD and area. O(levels)."""
        part = self._all
        part.count -= 1
        for name in _path(iad, area):
            whole, part = part, part.parts[name]
            part.count -= 1
            if not part.count:
                del whole.parts[name]
        part.keys.pop(key, None)

    def in_area(self, iad: str, area: str) -> tuple[int, str]:
        """Number of keys of exactly this area, and the oldest; 0 and nothing if there is none.
        O(levels)."""
        part = self._all
        for name in _path(iad, area):
            if (found := part.parts.get(name)) is None:
                return 0, ""
            part = found
        return part.count, next(iter(part.keys))

    def oldest_of_largest(self, iad: str, area: str) -> str:
        """The key that makes room for a new one at this IAD and area: the oldest of those that
        have most, the new one included, at each level. There must be one. O(parts of a level)."""
        part, new = self._all, _path(iad, area)
        while part.parts:
            joins = next(new, "")
            name = max(part.parts, key=lambda each: part.parts[each].count + (each == joins))
            if name != joins:
                new = iter(())
            part = part.parts[name]
        return next(iter(part.keys))


def _path(iad: str, area: str) -> Iterator[str | None]:
    """The IAD and each level of the area, then None: the area itself beside those below it."""
    return iter((iad, *area.split("/", MAX_LEVELS), None))
