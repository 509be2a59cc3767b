"""The EDF queue as a list that is searched for its least entry."""

from typing import Any


class NaiveEdfQueue:
    """Same meaning as `_core.queue.edf.EdfQueue`; handles are the order of arrival."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[float, Any]] = {}
        self.pushed = 0

    def __len__(self) -> int:
        return len(self.entries)

    def first(self) -> int:
        """The handle of the entry to leave next."""
        if not self.entries:
            raise IndexError
        return min(self.entries, key=lambda handle: (self.entries[handle][0], handle))

    def push(self, key: float, item: Any) -> int:
        if key != key:
            raise ValueError
        self.pushed += 1
        self.entries[self.pushed] = (key, item)
        return self.pushed

    def pop(self) -> Any:
        return self.entries.pop(self.first())[1]

    def peek(self) -> Any:
        return self.entries[self.first()][1]

    def peek_key(self) -> float:
        return self.entries[self.first()][0]

    def remove(self, handle: int) -> Any:
        return self.entries.pop(handle)[1]

    def rekey(self, handle: int, key: float) -> None:
        self.entries[handle] = (key, self.entries[handle][1])

    def clear(self) -> None:
        self.entries.clear()
