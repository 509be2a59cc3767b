"""A stream: the readings of one sensor on their way into the history."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from agent.edge.history.memtable import RowGroup, Sample


class Owner(Protocol):
    """What a stream needs of its history."""

    def append(self, stream: Stream, sample: Sample) -> None:
        """As `Stream.append`."""

    def load(self, stream: Stream, samples: Iterable[Sample]) -> None:
        """As `Stream.load`."""

    def lacks(self, sensor: str) -> bool:
        """Whether the file has no reading of a sensor."""


class Stream:
    """`append` and `load` are for one thread at a time; `groups` and `add` belong to the history's
    lock."""

    def __init__(
        self, history: Owner, sensor: str, channels: tuple[str, ...], *, keeps_raw: bool
    ) -> None:
        """By `History.stream`."""
        self.name = sensor
        self.channels = channels
        self.groups: list[RowGroup] = []  # in memory; all but the last are closed
        self.next_ms = 0  # monotonic time of the next reading, by the distance of the last two
        self._last_ms: int | None = None
        self._history = history
        self.keeps_raw = keeps_raw

    @property
    def empty(self) -> bool:
        """Whether the history has no reading of this sensor."""
        return not self.groups and self._history.lacks(self.name)

    def append(self, sample: Sample) -> None:
        """Take in a reading, and commit what is due.

        HistoryError if the commit failed: the reading is in memory, and an append after a pause
        tries again.
        """
        self._history.append(self, sample)

    def load(self, samples: Iterable[Sample]) -> None:
        """Fill an empty stream in one transaction; HistoryError, or what `samples` raises, and no
        reading, if that fails."""
        self._history.load(self, samples)

    def begin(self, sequence: int, sample: Sample) -> RowGroup:
        """A group with its first reading."""
        return RowGroup(sequence, self.name, self.channels, sample, keeps_raw=self.keeps_raw)

    def add(self, sample: Sample, block: Callable[[], int], most: int) -> None:
        """Put a reading at the end of its group of at most `most`, or of one that begins at
        `block()`; raises what `RowGroup.add` does, and changes nothing then."""
        last = self.groups[-1] if self.groups else None
        if last is not None and not last.closed and last.continues(sample):
            last.add(sample)
        else:
            self.groups.append(self.begin(block(), sample))
            if last is not None:
                last.closed = True
        self.groups[-1].closed = len(self.groups[-1]) >= most
        distance_ms = sample.monotonic_ms - self._last_ms if self._last_ms is not None else 0
        self._last_ms, self.next_ms = sample.monotonic_ms, sample.monotonic_ms + distance_ms
