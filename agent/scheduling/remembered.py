"""Cache of the nodes found for sets of areas: applications repeat theirs."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

T = TypeVar("T")

# Bounds the memory: 1,024 sets of 32 areas, or 32 of the largest ones.
MAX_AREAS: Final = 32_768
MAX_SETS: Final = 1_024


class Remembered(Generic[T]):
    """Cache of the result for each tuple of areas. It is cleared when it has `MAX_SETS` of them, or
    `MAX_AREAS` in all: what is asked again is soon there again."""

    __slots__ = ("_found", "_room")

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], T] = {}
        self._room = MAX_AREAS

    def __len__(self) -> int:
        return len(self._found)

    def get(self, areas: tuple[str, ...]) -> T | None:
        """The result for these areas. O(areas), of which each costs a few nanoseconds."""
        return self._found.get(areas)

    def keep(self, areas: tuple[str, ...], found: T) -> T:
        """Remember and return what was found."""
        if len(areas) > self._room or len(self._found) >= MAX_SETS:
            self.clear()
        self._room -= len(areas)
        self._found[areas] = found
        return found

    def clear(self) -> None:
        """Forget all: what the sets are compared with has changed."""
        self._found.clear()
        self._room = MAX_AREAS
