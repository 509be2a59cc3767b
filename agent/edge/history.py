"""The local history: readings in a SQLite file, a row group a row.

One writer appends; any number of readers (`agent.edge.retrieval`) look at the same time, each over
a connection of its own. The group that is still growing stays in memory as a whole and is written
again with each commit; readers take it from there, so that they see a reading at once. A power cut
loses at most `commit_s` seconds of readings.

A reading is known by (history id, sequence). The sequence is the number of times that the file was
opened, times 2³², plus a count: a number that was lost with a power cut is never given again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable
from typing import Any, Final

from agent.edge.groups import Piece, RowGroup, Sample, statistics_of
from agent.edge.history_file import STATISTICS, HistoryError, hold, open_or_rebuild, start
from agent.wire.packed import Float32Column, Int64Column

# Groups kept in memory while the file cannot be written; older ones are given up and counted.
MOST_UNWRITTEN: Final = 16


class History:
    """The history file's one writer. `report` is a line on what was wrong with an older file, if
    one had to be put aside.

    `append` and `commit` are for one thread at a time; readers may look at any time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        channels: tuple[str, ...],
        boot: str,
        *,
        group_readings: int,
        commit_s: float,
        retention_s: float,
    ) -> None:
        self.path = os.fspath(path)
        self.channels = channels
        self.report = ""
        self.given_up = 0  # readings lost because the file could not be written
        self._boot = boot
        self._group_readings = group_readings
        self._commit_ms = round(commit_s * 1000)
        self._retention_ms = round(retention_s * 1000)
        self._lock = threading.Lock()  # holds what readers see: _groups and what is in them
        self._groups: list[RowGroup] = []
        self._filed_until_ms: int | None = None  # latest time that is in the file and not in memory
        self._waiting_since_ms: int | None = None  # monotonic time of the first uncommitted reading
        self._holder = hold(self.path)
        try:
            self._db, self.report = open_or_rebuild(self.path)
            self.id, self._sequence, self._filed_until_ms = start(self._db)
        except sqlite3.Error as error:
            os.close(self._holder)
            raise HistoryError(f"history {path}: {error}") from None
        except HistoryError:
            os.close(self._holder)
            raise

    def append(self, sample: Sample) -> None:
        """Take in a reading and commit what is due.

        HistoryError if the commit failed: the reading is kept in memory, and the next append
        tries again.
        """
        self._add(sample)
        if self._waiting_since_ms is None:
            self._waiting_since_ms = sample.monotonic_ms
        if self._complete() or sample.monotonic_ms - self._waiting_since_ms >= self._commit_ms:
            self.commit()

    def load(self, samples: Iterable[Sample]) -> None:
        """Fill an empty history in one transaction; HistoryError, or what `samples` raises, and no
        reading, if that fails."""
        assert not self._groups
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for sample in samples:
                self._add(sample)
                if self._complete():
                    self._forget(self._write())
            written = self._write()
            self._db.execute("COMMIT")
        except Exception as error:
            self._roll_back()
            self._groups.clear()
            self._filed_until_ms = None
            if isinstance(error, sqlite3.Error):
                raise HistoryError(f"history {self.path}: {error}") from None
            raise
        self._forget(written)

    def commit(self) -> None:
        """Put every reading on stable storage and drop what is too old; HistoryError if it fails.

        What is too old goes whenever a group is complete. Readings of this boot age by the
        monotonic clock, so that a jump of the wall clock drops none of them.
        """
        if not self._groups:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            written = self._write()
            if self._complete():
                self._drop_old(self._groups[-1].last)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            for group in self._groups[:-MOST_UNWRITTEN]:
                self.given_up += len(group) - group.written
            with self._lock:
                del self._groups[:-MOST_UNWRITTEN]
            given_up = f"; {self.given_up} readings given up so far" if self.given_up else ""
            raise HistoryError(f"history {self.path}: not written: {error}{given_up}") from None
        self._forget(written)
        self._waiting_since_ms = None

    def close(self) -> None:
        """Commit and close; HistoryError if the commit fails, the file is closed all the same."""
        try:
            self.commit()
        finally:
            self._db.close()
            os.close(self._holder)

    @property
    def empty(self) -> bool:
        """Whether there is no reading."""
        return self._filed_until_ms is None and not self._groups

    def holds(self, start_ms: int, most: int) -> bool:
        """Whether memory has all readings since `start_ms`, and no more than `most` in all."""
        with self._lock:
            filed_until_ms = self._filed_until_ms
            readings = sum([len(group) for group in self._groups])
        return (filed_until_ms is None or filed_until_ms < start_ms) and readings <= most

    def recent(self, start_ms: int, end_ms: int) -> tuple[list[Piece], int | None]:
        """For readers: what memory holds of [start_ms, end_ms), and the sequence from which on it
        holds everything. Older readings are in the file; None if none of them is in the window."""
        with self._lock:
            floor = self._groups[0].sequence if self._groups else self._sequence
            filed_until_ms = self._filed_until_ms
            pieces = [group.cut(start_ms, end_ms) for group in self._groups]
        in_file = filed_until_ms is not None and filed_until_ms >= start_ms
        return [piece for piece in pieces if piece is not None], floor if in_file else None

    def _add(self, sample: Sample) -> None:
        with self._lock:
            last = self._groups[-1] if self._groups else None
            if last and len(last) < self._group_readings and last.continues(sample):
                last.add(sample)
            else:
                self._groups.append(RowGroup(self._sequence, self.channels, sample))
            self._sequence += 1

    def _complete(self) -> bool:
        return len(self._groups) > 1 or len(self._groups[-1]) >= self._group_readings

    def _write(self) -> list[tuple[RowGroup, int]]:
        """Write, in the open transaction, the groups that have something new."""
        written = [(group, len(group)) for group in self._groups if group.written < len(group)]
        self._db.executemany(
            "INSERT OR REPLACE INTO groups VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            [_row(group, self._boot) for group, _ in written],
        )
        return written

    def _forget(self, written: list[tuple[RowGroup, int]]) -> None:
        """Let go of what is in the file and will not grow any more."""
        for group, count in written:
            group.written = count
        with self._lock:
            growing = [g for g in self._groups[-1:] if len(g) < self._group_readings]
            for group in self._groups[: len(self._groups) - len(growing)]:
                self._filed_until_ms = max(self._filed_until_ms or 0, group.last.time_ms)
            self._groups[:] = growing

    def _drop_old(self, now: Sample) -> None:
        self._db.execute(
            "DELETE FROM groups WHERE CASE WHEN boot = ? THEN last_monotonic_ms < ?"
            " ELSE last_ms < ? END",
            (
                self._boot,
                now.monotonic_ms - self._retention_ms,
                now.time_ms - self._retention_ms,
            ),
        )

    def _roll_back(self) -> None:
        # SQLite has rolled back by itself after some errors.
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def _row(group: RowGroup, boot: str) -> tuple[Any, ...]:
    first, last = group.first, group.last
    source = group.source_time_ms
    return (
        group.sequence,
        len(group),
        first.time_ms,
        last.time_ms,
        boot,
        first.monotonic_ms,
        last.monotonic_ms,
        first.synchronised,
        ",".join(group.channels),
        b"".join([STATISTICS.pack(*statistics_of(column)) for column in group.values]),
        Int64Column.of(group.time_ms).data,
        Int64Column.of(source).data if source is not None else None,
        b"".join([Float32Column.of(column).data for column in group.values]),
    )
