"""Timer queue of a state machine: (due, item), polled by the shell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Generic, TypeVar

from _core.queue.edf import EdfQueue

T = TypeVar("T")


class Timers(Generic[T]):
    """Items with a due time; set, cancel and pop are O(log n)."""

    __slots__ = ("_queue", "first_s")

    def __init__(self) -> None:
        self._queue: EdfQueue[T] = EdfQueue()
        # When the earliest item is due; infinity: there is none. The event loop asks in each turn,
        # far more often than it changes.
        self.first_s = math.inf

    def __len__(self) -> int:
        return len(self._queue)

    def set(self, due_s: float, item: T) -> int:
        """Add `item`; the handle cancels it."""
        handle = self._queue.push(due_s, item)
        if due_s < self.first_s:
            self.first_s = due_s
        return handle

    def cancel(self, handle: int) -> None:
        """Remove an item that has not been popped; KeyError otherwise."""
        self._queue.remove(handle)
        self._look()

    def due(self, now: float) -> Iterator[T]:
        """Pop what is due by `now`, earliest first."""
        while self.first_s <= now:
            item = self._queue.pop()
            self._look()
            yield item

    def _look(self) -> None:
        queue = self._queue
        self.first_s = queue.peek_key() if len(queue) else math.inf
