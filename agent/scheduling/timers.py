"""Timer queue of a state machine: (due, item), polled by the shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from _core.queue.edf import EdfQueue

T = TypeVar("T")


class Timers(Generic[T]):
    """Items with a due time; set, cancel and pop are O(log n)."""

    def __init__(self) -> None:
        self._queue: EdfQueue[T] = EdfQueue()

    def __len__(self) -> int:
        return len(self._queue)

    def set(self, due_s: float, item: T) -> int:
        """Add `item`; the handle cancels it."""
        return self._queue.push(due_s, item)

    def cancel(self, handle: int) -> None:
        """Remove an item that has not been popped; KeyError otherwise."""
        self._queue.remove(handle)

    def next_due(self) -> float | None:
        """When the earliest item is due; None if there is none."""
        return self._queue.peek_key() if len(self._queue) else None

    def due(self, now: float) -> Iterator[T]:
        """Pop what is due by `now`, earliest first."""
        while len(self._queue) and self._queue.peek_key() <= now:
            yield self._queue.pop()
