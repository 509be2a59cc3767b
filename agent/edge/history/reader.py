"""History reader: answers windows as series in wire form, or as aggregates.

Columns are merged in compiled code; values of groups inside the window are not unpacked. A series
too large for a message is detected from its groups' rows, before any column is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, Protocol

from agent.edge.history.columns import (
    RecordBatch,
    Statistics,
    decode,
    merge,
    series_of,
    statistics_of,
)
from agent.edge.history.database import connect_to_read
from agent.edge.history.group_cache import GroupCache
from agent.edge.history.group_table import columns_problem
from agent.edge.history.row_groups import STATISTICS, channels_of
from agent.edge.history.snapshot import Recent
from agent.edge.history.window_size import check
from agent.wire.base import RAW
from agent.wire.buckets import Buckets, Grid
from agent.wire.codec import MAX_SUBTASK_SERIES_BYTES
from agent.wire.messages import Aggregate, Series

# The plus keeps SQLite from using the sequence: the index by time is more selective.
OVERLAPPING: Final = " FROM groups WHERE last_ms >= ? AND first_ms < ? AND +sequence < ?"
GROUPS: Final = "SELECT sequence, shift_ms, layout, first_ms, last_ms, count" + OVERLAPPING
STATISTICS_TOO: Final = (
    "SELECT sequence, shift_ms, layout, first_ms, last_ms, statistics" + OVERLAPPING
)
# So many groups are read with one statement. One text for all numbers: SQLite compiles it once.
TOGETHER: Final = 32
COLUMNS: Final = {
    count: f"SELECT sequence, crc, data FROM columns WHERE sequence IN ({', '.join('?' * count)})"  # noqa: S608 - a constant
    for count in (1, TOGETHER)
}


class Source(Protocol):
    """The part of `History` that a reader uses."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def cache(self) -> GroupCache:
        """The cache of the file's groups."""

    def recent(self, start_ms: int, end_ms: int) -> Recent:
        """As `History.recent`."""

    def doubt(self, sequence: int, reason: str) -> None:
        """As `History.doubt`."""


class Reader:
    """One thread's view of a history. O(groups in the window) plus the bytes copied.

    A group of the file that fails its checks is omitted and reported to the history.
    """

    def __init__(self, history: Source, most_bytes: int = MAX_SUBTASK_SERIES_BYTES) -> None:
        """`most_bytes` bounds a series on the wire."""
        self.most_bytes = most_bytes
        self._history = history
        self._db: sqlite3.Connection | None = None
        self._immutable = False

    def series(self, start_ms: int, end_ms: int, channels: tuple[str, ...] = ()) -> Series | None:
        """The readings of [start_ms, end_ms) in time order, equal times in the order taken.

        `channels` are the columns wanted, () for all but the raw ones. Readings that have none of
        them and columns that no reading has are omitted; a column that only some readings have is
        NaN elsewhere. None if nothing is left. Raises TooLargeError, before reading any column, if
        the series does not fit a message.
        """
        rows, found = self._look(GROUPS, start_ms, end_ms, channels)
        check(rows, [batch for _, batch in found], start_ms, end_ms, channels, self.most_bytes)
        if rows:
            for row, batch in zip(rows, self._batches(rows), strict=True):
                if batch is not None and (part := batch.cut(start_ms, end_ms)) is not None:
                    found.append((row[0], part))
        found.sort(key=itemgetter(0))
        batches = [batch for _, batch in found]
        if len(batches) == 1 and not channels:
            return series_of(batches[0])
        names = _wanted(batches, channels)
        if not names:
            return None
        return series_of(merge(batches, names))

    def aggregate(
        self, start_ms: int, end_ms: int, channels: tuple[str, ...] = ()
    ) -> Aggregate | None:
        """Aggregates of the channels with a reading in [start_ms, end_ms), bad ones included; None
        if there are none.

        A group inside the window is answered from its statistics, without reading its values,
        unless it may have the newest one.
        """
        rows, found = self._look(STATISTICS_TOO, start_ms, end_ms, channels)
        totals: dict[str, Statistics] = {}
        bounds: list[tuple[int, int]] = []
        to_read = []
        known: list[tuple[Any, str]] = []
        for row in rows:
            _, _, _, first_ms, last_ms, _ = row
            if first_ms < start_ms or last_ms >= end_ms or any(n.endswith(RAW) for n in channels):
                to_read.append(row)
                continue
            bounds.append((first_ms, last_ms))
            for name, part in _statistics(row):
                _add(totals, name, part)
                if part.n and (not channels or name in channels):
                    known.append((row, name))
        for batch in [*self._batches(to_read), *[batch for _, batch in found]]:
            if batch is None or (cut := batch.cut(start_ms, end_ms)) is None:
                continue
            bounds.append((cut.first_ms, cut.last_ms))
            for name in _wanted([cut], channels):
                _add(totals, name, _statistics_in(cut, name))
        names = [name for name in dict.fromkeys(channels or totals) if name in totals]
        if not names:
            return None
        self._find_newest(known, totals)
        first_ms, last_ms = zip(*bounds, strict=True)
        aggregates = {name: totals[name].aggregate() for name in names}
        return Aggregate(min(first_ms), max(last_ms), aggregates)

    def _find_newest(self, known: list[tuple[Any, str]], totals: dict[str, Statistics]) -> None:
        """Read the groups with values of a channel that may have a newer one than was read so far:
        mostly none, as the newest are in memory, else one."""
        for row, name in sorted(known, key=lambda each: -each[0][4]):
            newest = totals[name].newest
            if newest is not None and newest[0] > row[4]:
                continue
            [batch] = self._batches([row])
            if batch is not None and (there := _statistics_in(batch, name).newest) is not None:
                totals[name] = totals[name]._replace(newest=max(newest or there, there))

    def buckets(
        self, start_ms: int, end_ms: int, channels: tuple[str, ...], grid: Grid
    ) -> Buckets | None:
        """The readings of [start_ms, end_ms) in the buckets of `grid`, channels as in `aggregate`.

        A group inside one bucket is answered from its statistics; others are read one by one.
        """
        from agent.edge.history.bucket_sums import Sums  # 60 KiB that few nodes need

        rows, found = self._look(STATISTICS_TOO, start_ms, end_ms, channels)
        sums = Sums(grid, channels)
        with_raw = any(name.endswith(RAW) for name in channels)
        for row in rows:
            first_ms, last_ms = row[3:5]
            inside = first_ms >= start_ms and last_ms < end_ms
            if inside and not with_raw and grid.place(first_ms) == grid.place(last_ms):
                for name, part in _statistics(row):
                    sums.add_total(name, first_ms, part)
                continue
            [batch] = self._batches([row])
            if batch is not None and (cut := batch.cut(start_ms, end_ms)) is not None:
                sums.add(cut, _wanted([cut], channels))
        for _, batch in found:
            if (cut := batch.cut(start_ms, end_ms)) is not None:
                sums.add(cut, _wanted([cut], channels))
        return sums.buckets()

    def close(self) -> None:
        """Close the connection, if it is open; call it in the thread that used it."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _look(
        self, query: str, start_ms: int, end_ms: int, channels: tuple[str, ...]
    ) -> tuple[list[Any], list[tuple[int, RecordBatch]]]:
        """The rows of the file's groups in the window, and the batches that are only in memory."""
        # Memory first: a group committed in between is in both then, with the same sequence.
        recent = self._history.recent(start_ms, end_ms)
        batches = [each for each in recent.batches if not channels or _wanted([each[1]], channels)]
        if recent.before is None:
            return [], batches
        rows = self._connected(immutable=recent.immutable).execute(
            query, (start_ms, end_ms, recent.before)
        )
        held = set(recent.held)
        wanted = {name.removesuffix(RAW) for name in channels} | set(channels)
        return [
            row
            for row in rows
            if row[0] not in held and (not wanted or not wanted.isdisjoint(channels_of(row[2])))
        ], batches

    def _connected(self, *, immutable: bool) -> sqlite3.Connection:
        if self._db is not None and self._immutable != immutable:
            self.close()
        if self._db is None:
            self._db = connect_to_read(self._history.path, immutable=immutable)
            self._immutable = immutable
        return self._db

    def _batches(self, rows: list[Any]) -> list[RecordBatch | None]:
        """The batches of the rows' groups; None for a group damaged, or dropped meanwhile."""
        found = self._history.cache.take([row[:2] for row in rows])
        missing = [place for place, batch in enumerate(found) if batch is None]
        for start in range(0, len(missing), TOGETHER):
            places = missing[start : start + TOGETHER]
            read = self._read([rows[place] for place in places])
            for place in places:
                found[place] = read.get(rows[place][:2])
        return found

    def _read(self, rows: list[Any]) -> dict[tuple[int, int], RecordBatch]:
        """The groups of at most `TOGETHER` rows by sequence and shift, from the file."""
        assert self._db is not None
        known = {row[0]: row for row in rows}
        sequences = list(known)
        if len(sequences) > 1:  # SQLite reads a repeated one once
            sequences += sequences[-1:] * (TOGETHER - len(sequences))
        found: dict[tuple[int, int], RecordBatch] = {}
        for sequence, *stored in self._db.execute(COLUMNS[len(sequences)], sequences):
            _, shift_ms, layout, first_ms, last_ms = known[sequence][:5]
            problem = columns_problem(stored)
            if not problem:
                try:
                    batch = decode(layout, stored[1], shift_ms)
                except (ValueError, KeyError) as error:
                    problem = str(error)
                else:
                    if (batch.first_ms, batch.last_ms) == (first_ms, last_ms):
                        found[sequence, shift_ms] = batch
                        continue
                    problem = "its times contradict its columns"
            self._history.doubt(sequence, problem)
        self._history.cache.put(found)
        return found


def _wanted(batches: list[RecordBatch], channels: tuple[str, ...]) -> list[str]:
    """The channels found, each once; requested ones in the order requested."""
    if not channels:
        return list(dict.fromkeys([name for batch in batches for name in batch.values]))
    return [
        name
        for name in dict.fromkeys(channels)
        if any(batch.column(name) is not None for batch in batches)
    ]


def _statistics(row: Any) -> Iterator[tuple[str, Statistics]]:
    """Those of each channel of a group, from its row."""
    for name, part in zip(channels_of(row[2]), STATISTICS.iter_unpack(row[5]), strict=True):
        yield name, Statistics(*part)


def _statistics_in(batch: RecordBatch, name: str) -> Statistics:
    return statistics_of(batch.column(name) or b"", batch.flags(name), batch.time_ms)


def _add(totals: dict[str, Statistics], name: str, found: Statistics) -> None:
    before = totals.get(name)
    totals[name] = found if before is None else before.join(found)
