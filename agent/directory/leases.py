"""Leases of registrations, ordered by expiry."""

from __future__ import annotations

from collections.abc import Iterator

from _core.queue.edf import EdfQueue


class Leases:
    """Names with the time at which their lease ends, in seconds of the caller's clock.

    Every change is O(log n).
    """

    def __init__(self) -> None:
        self._queue: EdfQueue[str] = EdfQueue()
        self._handles: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._handles

    def __len__(self) -> int:
        return len(self._handles)

    def give(self, name: str, until_s: float) -> None:
        """Set the end of a lease, in place of an earlier one."""
        self.end(name)
        self._handles[name] = self._queue.push(until_s, name)

    def end(self, name: str) -> None:
        """Remove a lease; nothing happens if there is none."""
        handle = self._handles.pop(name, None)
        if handle is not None:
            self._queue.remove(handle)

    @property
    def next_due(self) -> float | None:
        """When the next lease ends; None if there is none."""
        return self._queue.peek_key() if self._handles else None

    def ended(self, now: float) -> Iterator[str]:
        """Remove and return the leases that have ended by `now`, the earliest first."""
        while self._handles and self._queue.peek_key() <= now:
            name = self._queue.pop()
            del self._handles[name]
            yield name
