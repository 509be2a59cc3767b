"""Windows of the history: series as they go on the wire, and aggregates.

A series is made by joining byte strings; no number of a group inside the window is looked at. Only
where groups overlap in time, as those of several sensors do, the readings are sorted. What would be
more than a message may hold is known by its groups' rows, before any of it is read.
"""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from operator import attrgetter, itemgetter
from typing import Any, Final, Protocol

from agent.edge.history.columns import (
    Piece,
    Statistics,
    decode,
    in_time_order,
    join,
    series_of,
    statistics_of,
)
from agent.edge.history.file import connect_to_read
from agent.edge.history.group_cache import GroupCache
from agent.edge.history.group_table import columns_problem
from agent.edge.history.row_groups import STATISTICS, channels_of
from agent.edge.history.snapshot import Recent
from agent.edge.history.window_size import check
from agent.wire.base import RAW
from agent.wire.codec import MAX_SUBTASK_SERIES_BYTES
from agent.wire.messages import Aggregate, Series

# The plus keeps SQLite from searching by sequence: the index by time is the selective one.
OVERLAPPING: Final = " FROM groups WHERE last_ms >= ? AND first_ms < ? AND +sequence < ?"
GROUPS: Final = "SELECT sequence, shift_ms, layout, first_ms, last_ms, count" + OVERLAPPING
STATISTICS_TOO: Final = (
    "SELECT sequence, shift_ms, layout, first_ms, last_ms, statistics" + OVERLAPPING
)


class Source(Protocol):
    """What a reader needs of a history."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def cache(self) -> GroupCache:
        """Groups of the file that were read before."""

    def recent(self, start_ms: int, end_ms: int) -> Recent:
        """As `History.recent`."""

    def doubt(self, sequence: int, reason: str) -> None:
        """As `History.doubt`."""


class Reader:
    """One thread's view of a history. O(groups in the window) plus the bytes copied.

    A group of the file that does not pass its checks is left out, and reported to the history.
    """

    def __init__(self, history: Source, most_bytes: int = MAX_SUBTASK_SERIES_BYTES) -> None:
        """`most_bytes` are what a series may take on the wire."""
        self.most_bytes = most_bytes
        self._history = history
        self._db: sqlite3.Connection | None = None
        self._immutable = False

    def series(self, start_ms: int, end_ms: int, channels: tuple[str, ...] = ()) -> Series | None:
        """The readings of [start_ms, end_ms) in time order, equal times in the order taken.

        `channels` are the columns wanted, () for all but the raw ones. Readings that have none of
        them are left out, as are columns that no reading has; what only some have is NaN elsewhere.
        None if nothing is left; TooLargeError, before anything is read, if no message could hold
        it.
        """
        rows, found = self._look(GROUPS, start_ms, end_ms, channels)
        check(rows, [piece for _, piece in found], start_ms, end_ms, channels, self.most_bytes)
        if rows:
            for row, piece in zip(rows, self._pieces(rows), strict=True):
                if piece is not None and (part := piece.cut(start_ms, end_ms)) is not None:
                    found.append((row[0], part))
        found.sort(key=itemgetter(0))
        pieces = [piece for _, piece in found]
        if len(pieces) == 1 and not channels:
            return series_of(pieces[0])
        names = _wanted(pieces, channels)
        if not names:
            return None
        in_order = sorted(pieces, key=attrgetter("first_ms"))
        if all(a.last_ms < b.first_ms for a, b in pairwise(in_order)):
            return series_of(join(in_order, names))
        return series_of(in_time_order(join(pieces, names)))

    def aggregate(
        self, start_ms: int, end_ms: int, channels: tuple[str, ...] = ()
    ) -> Aggregate | None:
        """Aggregate of each channel that has a reading in [start_ms, end_ms), bad ones too; None if
        none has.

        A group inside the window is answered from its statistics; its numbers are not read.
        """
        rows, found = self._look(STATISTICS_TOO, start_ms, end_ms, channels)
        totals: dict[str, Statistics] = {}
        bounds: list[tuple[int, int]] = []
        to_read = []
        for row in rows:
            _, _, layout, first_ms, last_ms, statistics = row
            if first_ms < start_ms or last_ms >= end_ms or any(n.endswith(RAW) for n in channels):
                to_read.append(row)
                continue
            bounds.append((first_ms, last_ms))
            for name, part in zip(
                channels_of(layout), STATISTICS.iter_unpack(statistics), strict=True
            ):
                _add(totals, name, Statistics(*part))
        for piece in [*self._pieces(to_read), *[piece for _, piece in found]]:
            if piece is None or (cut := piece.cut(start_ms, end_ms)) is None:
                continue
            bounds.append((cut.first_ms, cut.last_ms))
            for name in _wanted([cut], channels):
                _add(totals, name, statistics_of(cut.column(name) or b"", cut.flags(name)))
        names = [name for name in dict.fromkeys(channels or totals) if name in totals]
        if not names:
            return None
        first_ms, last_ms = zip(*bounds, strict=True)
        aggregates = {name: totals[name].aggregate() for name in names}
        return Aggregate(min(first_ms), max(last_ms), aggregates)

    def close(self) -> None:
        """Close the connection, if there is one; by the thread that used it."""
        if self._db is not None:
            self._db.close()
            self._db = None

    def _look(
        self, query: str, start_ms: int, end_ms: int, channels: tuple[str, ...]
    ) -> tuple[list[Any], list[tuple[int, Piece]]]:
        """The groups of the file that are wanted, as rows, and what is in memory only."""
        # Memory first: what is committed in between is in both then, and its sequence tells.
        recent = self._history.recent(start_ms, end_ms)
        pieces = [each for each in recent.pieces if not channels or _wanted([each[1]], channels)]
        if recent.before is None:
            return [], pieces
        rows = self._connected(immutable=recent.immutable).execute(
            query, (start_ms, end_ms, recent.before)
        )
        held = set(recent.held)
        wanted = {name.removesuffix(RAW) for name in channels} | set(channels)
        return [
            row
            for row in rows
            if row[0] not in held and (not wanted or not wanted.isdisjoint(channels_of(row[2])))
        ], pieces

    def _connected(self, *, immutable: bool) -> sqlite3.Connection:
        if self._db is not None and self._immutable != immutable:
            self.close()
        if self._db is None:
            self._db = connect_to_read(self._history.path, immutable=immutable)
            self._immutable = immutable
        return self._db

    def _pieces(self, rows: list[Any]) -> list[Piece | None]:
        """The groups of rows; None for one that is damaged, or was dropped meanwhile."""
        found = self._history.cache.take([row[:2] for row in rows])
        return [
            piece if piece is not None else self._read(row)
            for row, piece in zip(rows, found, strict=True)
        ]

    def _read(self, row: Any) -> Piece | None:
        sequence, shift_ms, layout, first_ms, last_ms = row[:5]
        assert self._db is not None
        stored = self._db.execute(
            "SELECT crc, data FROM columns WHERE sequence = ?", (sequence,)
        ).fetchone()
        if stored is None:
            return None
        problem = columns_problem(stored)
        if not problem:
            try:
                piece = decode(layout, stored[1], shift_ms)
            except (ValueError, KeyError) as error:
                problem = str(error)
            else:
                if (piece.first_ms, piece.last_ms) == (first_ms, last_ms):
                    self._history.cache.put((sequence, shift_ms), piece)
                    return piece
                problem = "its times contradict its columns"
        self._history.doubt(sequence, problem)
        return None


def _wanted(pieces: list[Piece], channels: tuple[str, ...]) -> list[str]:
    """The channels found, each once; those asked for, in the order asked, unless all were."""
    if not channels:
        return list(dict.fromkeys([name for piece in pieces for name in piece.values]))
    return [
        name
        for name in dict.fromkeys(channels)
        if any(piece.column(name) is not None for piece in pieces)
    ]


def _add(totals: dict[str, Statistics], name: str, found: Statistics) -> None:
    before = totals.get(name)
    totals[name] = found if before is None else before.join(found)
