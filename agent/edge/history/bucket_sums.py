"""Buckets of a window, summed up from record batches of the history."""

from __future__ import annotations

from collections.abc import Iterable

from _core.columns.buckets import BucketSums
from agent.edge.history.columns import RecordBatch, Statistics
from agent.wire.buckets import Buckets, Grid, of_sums
from agent.wire.packed import Float32Column
from sensors.quality.flags import BAD


class Sums:
    """Of the channels that come, each in the buckets of `grid`; of `channels` alone unless that is
    empty."""

    def __init__(self, grid: Grid, channels: tuple[str, ...]) -> None:
        self._grid = grid
        self._channels = channels
        self._sums: dict[str, BucketSums] = {}

    def add(self, batch: RecordBatch, names: Iterable[str]) -> None:
        """Add these channels of a record batch. O(readings), in compiled code."""
        for name in names:
            values = Float32Column(batch.column(name) or b"").native
            self._of(name).add(batch.time_ms, values, batch.flags(name), BAD, gaps_are_bad=True)

    def add_total(self, name: str, time_ms: int, found: Statistics) -> None:
        """Add a channel of a batch that lies in the bucket of `time_ms`, if it is wanted. O(1)."""
        if not self._channels or name in self._channels:
            low, high, n = found.low, found.high, found.n
            self._of(name).add_total(time_ms, n, low, high, found.total, found.bad, found.suspect)

    def buckets(self) -> Buckets | None:
        """All of them, channels in the order wanted; None if nothing was added."""
        names = [name for name in dict.fromkeys(self._channels or self._sums) if name in self._sums]
        return of_sums({name: self._sums[name] for name in names}, self._grid) if names else None

    def _of(self, name: str) -> BucketSums:
        found = self._sums.get(name)
        if found is None:
            found = self._sums[name] = BucketSums(*self._grid)
        return found
