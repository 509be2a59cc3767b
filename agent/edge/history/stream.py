"""Stream: appends one sensor's readings to the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from agent.edge.history.memtable import RowGroup, Sample


class Owner(Protocol):
    """The part of `History` that a stream uses."""

    def append(self, stream: Stream, sample: Sample) -> None:
        """As `Stream.append`."""

    def load(self, stream: Stream, samples: Iterable[Sample]) -> None:
        """As `Stream.load`."""

    def lacks(self, sensor: str) -> bool:
        """Whether the file has no reading of a sensor."""


class Stream:
    """One sensor's stream. `append` and `load` are for one thread at a time, which may change
    `channels`; `groups` and `add` are protected by the history's lock."""

    def __init__(
        self, history: Owner, sensor: str, channels: tuple[str, ...], *, keeps_raw: bool
    ) -> None:
        """Called by `History.stream`."""
        self.name = sensor
        self.channels = channels
        self.groups: list[RowGroup] = []  # in memory; all but the last are closed
        self.next_ms = 0  # expected monotonic time of the next reading
        self._last_ms: int | None = None
        self._history = history
        self.keeps_raw = keeps_raw

    @property
    def empty(self) -> bool:
        """Whether the history has no reading of this sensor."""
        return not self.groups and self._history.lacks(self.name)

    def append(self, sample: Sample) -> None:
        """Add a reading, and commit if that is due.

        HistoryError if the commit failed: the reading stays in memory, and a later append tries
        again after a pause.
        """
        self._history.append(self, sample)

    def load(self, samples: Iterable[Sample]) -> None:
        """Fill an empty stream in one transaction. HistoryError, or an exception of `samples`,
        leaves it empty."""
        self._history.load(self, samples)

    def begin(self, sequence: int, sample: Sample) -> RowGroup:
        """A new group with its first reading."""
        return RowGroup(sequence, self.name, self.channels, sample, keeps_raw=self.keeps_raw)

    def add(self, sample: Sample, block: Callable[[], int], most: int) -> None:
        """Append a reading to the open group, of at most `most` readings, or to a new one that
        begins at `block()`. Raises as `RowGroup.add`, and changes nothing then."""
        last = self.groups[-1] if self.groups else None
        if last is not None and not last.closed and self._fits(last) and last.continues(sample):
            last.add(sample)
        else:
            self.groups.append(self.begin(block(), sample))
            if last is not None:
                last.closed = True
        self.groups[-1].closed = len(self.groups[-1]) >= most
        distance_ms = sample.monotonic_ms - self._last_ms if self._last_ms is not None else 0
        self._last_ms, self.next_ms = sample.monotonic_ms, sample.monotonic_ms + distance_ms

    def _fits(self, group: RowGroup) -> bool:
        return group.channels == self.channels
