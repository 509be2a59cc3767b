"""LRU cache of unpacked row groups, shared by the pods of a node."""

from __future__ import annotations

import threading
from typing import Final

from agent.edge.history.columns import RecordBatch

# Three hours at 1 Hz of two channels with source times are 253 KiB.
MAX_BYTES: Final = 300 << 10


class GroupCache:
    """Unpacked groups by (sequence, shift), bounded in bytes; valid for ever, as complete groups
    never change. The least recently used are evicted first. Any thread may call; O(1) a group."""

    def __init__(self, most_bytes: int = MAX_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._batches: dict[tuple[int, int], RecordBatch] = {}  # least recently used first
        self._lock = threading.Lock()

    def take(self, keys: list[tuple[int, int]]) -> list[RecordBatch | None]:
        """The cached record batches of `keys`, in their order; None for a miss."""
        with self._lock:
            pop = self._batches.pop
            found = [pop(key, None) for key in keys]
            self._batches.update(
                [pair for pair in zip(keys, found, strict=True) if pair[1] is not None]  # type: ignore[misc]
            )
        return found

    def clear(self) -> None:
        """Remove all groups."""
        with self._lock:
            self._batches.clear()
            self._bytes = 0

    def put(self, groups: dict[tuple[int, int], RecordBatch]) -> None:
        """Cache groups, unless they are too large."""
        sizes = {key: _bytes(batch) for key, batch in groups.items()}
        with self._lock:
            for key, batch in groups.items():
                if key not in self._batches and sizes[key] <= self._most_bytes:
                    self._batches[key] = batch
                    self._bytes += sizes[key]
            while self._bytes > self._most_bytes:
                oldest = next(iter(self._batches))
                self._bytes -= _bytes(self._batches.pop(oldest))


def _bytes(batch: RecordBatch) -> int:
    """Of its columns, from their number: each has an entry for each reading. O(1)."""
    eights = 1 + (batch.source_time_ms is not None)
    fours = len(batch.values) + len(batch.raw) + (batch.age_ms is not None)
    return len(batch) * (8 * eights + 4 * fours + len(batch.quality))
