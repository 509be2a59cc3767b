"""Windows of the history: series as they go on the wire, and aggregates.

A series is made by joining byte strings; no number of a group inside the window is looked at. Only
where the wall clock was set back do groups overlap in time, and then the readings are sorted.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterable
from itertools import pairwise, starmap
from operator import attrgetter, itemgetter
from typing import Any, Protocol

from agent.edge.groups import (
    NAN32,
    NOTHING,
    Piece,
    Statistics,
    cut_packed,
    statistics_of,
)
from agent.edge.history_file import STATISTICS, connect
from agent.wire.messages import Aggregate, Series
from agent.wire.packed import Float32Column, Int64Column

# The plus keeps SQLite from searching by sequence: the index by time is the selective one.
OVERLAPPING = " FROM groups WHERE last_ms >= :start AND first_ms < :end AND +sequence < :floor"
SERIES = (
    "SELECT sequence, first_ms, last_ms, channels, time_ms, source_time_ms, channel_values"
    + OVERLAPPING
)
# A group inside the window is answered from its statistics; its blobs are not read.
AGGREGATE = (
    "SELECT first_ms, last_ms, channels, statistics,"
    " CASE WHEN inside THEN NULL ELSE time_ms END,"
    " CASE WHEN inside THEN NULL ELSE channel_values END"
    " FROM (SELECT *, first_ms >= :start AND last_ms < :end AS inside FROM groups)"
    " WHERE last_ms >= :start AND first_ms < :end AND +sequence < :floor"
)


class Source(Protocol):
    """What a reader needs of a history."""

    @property
    def path(self) -> str:
        """The file."""

    def recent(self, start_ms: int, end_ms: int) -> tuple[list[Piece], int | None]:
        """As `History.recent`."""


class Reader:
    """One thread's view of a history. O(groups in the window) plus the bytes copied."""

    def __init__(self, history: Source) -> None:
        self._history = history
        self._db: sqlite3.Connection | None = None

    def series(self, start_ms: int, end_ms: int, channels: tuple[str, ...] = ()) -> Series | None:
        """The readings of [start_ms, end_ms) in time order, equal times in the order taken.

        `channels` are the columns wanted, () for all; one that a group of the window lacks is NaN
        there, one that all lack is left out. None if there is no reading or no such channel.
        """
        rows, recent = self._look(SERIES, start_ms, end_ms)
        found = [(row[0], _cut(start_ms, end_ms, *row[1:])) for row in rows]
        found.sort(key=itemgetter(0))
        pieces = [piece for _, piece in found if piece is not None] + recent
        names = _wanted((piece.columns for piece in pieces), channels)
        if not names:
            return None
        in_order = sorted(pieces, key=attrgetter("first_ms"))
        if all(a.last_ms < b.first_ms for a, b in pairwise(in_order)):
            return _joined(in_order, names)
        return _sorted(_joined(pieces, names))

    def aggregate(
        self, start_ms: int, end_ms: int, channels: tuple[str, ...] = ()
    ) -> Aggregate | None:
        """Count, lowest, mean and highest reading of each channel in [start_ms, end_ms).

        Channels without a reading are left out; None if that leaves none.
        """
        rows, recent = self._look(AGGREGATE, start_ms, end_ms)
        totals: dict[str, Statistics] = {}
        first_ms: list[int] = []
        last_ms: list[int] = []
        for first, last, names, statistics, time_ms, values in rows:
            if time_ms is None:
                first_ms.append(first)
                last_ms.append(last)
                parts = STATISTICS.iter_unpack(statistics)
                _add_up(totals, zip(names.split(","), starmap(Statistics, parts), strict=True))
            elif piece := _cut(start_ms, end_ms, first, last, names, time_ms, None, values):
                recent.append(piece)
        for piece in recent:
            first_ms.append(piece.first_ms)
            last_ms.append(piece.last_ms)
            _add_up(totals, _count_out(piece))
        found = {
            name: totals[name].aggregate() for name in _wanted([totals], channels) if totals[name].n
        }
        return Aggregate(min(first_ms), max(last_ms), found) if found else None

    def close(self) -> None:
        """Close the connection, if there is one; by the thread that used it."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _look(self, query: str, start_ms: int, end_ms: int) -> tuple[list[Any], list[Piece]]:
        """The rows of the file, and what is in memory only."""
        # Memory first: what is committed in between is in both then, and its sequence tells.
        recent, floor = self._history.recent(start_ms, end_ms)
        if floor is None:
            return [], recent
        if self._db is None:
            self._db = connect(self._history.path)
            self._db.execute("PRAGMA query_only=ON")
        window = {"start": start_ms, "end": end_ms, "floor": floor}
        return self._db.execute(query, window).fetchall(), recent


def _cut(
    start_ms: int,
    end_ms: int,
    first_ms: int,
    last_ms: int,
    channels: str,
    time_ms: bytes,
    source_time_ms: bytes | None,
    values: bytes,
) -> Piece | None:
    width = len(time_ms) // 2  # bytes of one channel: four a reading, where a time has eight
    columns = {
        name: values[i * width : (i + 1) * width] for i, name in enumerate(channels.split(","))
    }
    return cut_packed(start_ms, end_ms, first_ms, last_ms, time_ms, source_time_ms, columns)


def _wanted(found: Iterable[Iterable[str]], channels: tuple[str, ...]) -> list[str]:
    """The channels found, each once; those asked for, in the order asked, unless all were."""
    there = dict.fromkeys(name for names in found for name in names)
    return [name for name in dict.fromkeys(channels) if name in there] if channels else [*there]


def _joined(pieces: list[Piece], names: list[str]) -> Series:
    sources = None
    if any(piece.source_time_ms is not None for piece in pieces):
        # A reading that was no replay was first recorded when it was taken.
        sources = Int64Column(b"".join([piece.source_time_ms or piece.time_ms for piece in pieces]))
    values = {
        name: Float32Column(
            b"".join([p.columns.get(name) or NAN32 * (len(p.time_ms) // 8) for p in pieces])
        )
        for name in names
    }
    return Series(Int64Column(b"".join([piece.time_ms for piece in pieces])), values, sources)


def _sorted(series: Series) -> Series:
    """The same readings in time order; O(n log n), for the rare window with a clock set back."""
    times = series.time_ms.numbers()
    order = sorted(range(len(times)), key=times.__getitem__)

    def reorder(numbers: array[Any]) -> Iterable[Any]:
        return map(numbers.__getitem__, order)

    return Series(
        Int64Column.of(reorder(times)),
        {
            name: Float32Column.of(reorder(column.numbers()))
            for name, column in series.values.items()
        },
        series.source_time_ms and Int64Column.of(reorder(series.source_time_ms.numbers())),
    )


def _count_out(piece: Piece) -> Iterable[tuple[str, Statistics]]:
    for name, data in piece.columns.items():
        yield name, statistics_of(Float32Column(data).numbers())


def _add_up(totals: dict[str, Statistics], found: Iterable[tuple[str, Statistics]]) -> None:
    for name, statistics in found:
        totals[name] = totals.get(name, NOTHING).join(statistics)
