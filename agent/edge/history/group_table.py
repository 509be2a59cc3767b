"""Row-group table: inserts, drops, shifts, checks and quarantines groups in the history's file."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from agent.edge.history.columns import RecordBatch, encode, statistics_of
from agent.edge.history.database import connect_to_read
from agent.edge.history.row_groups import ROW, STATISTICS, row_crc, row_problem
from agent.edge.timebase import STEP_MS
from agent.runtime import sqlite

if TYPE_CHECKING:
    from agent.edge.history.memtable import RowGroup
    from agent.edge.timebase import Correction

# Bytes of value columns that are checked during startup, newest first.
CHECKED_COLUMNS: Final = 16 << 20
INSERT: Final = f"INSERT INTO groups ({ROW}, crc) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - a constant
INSERT_COLUMNS: Final = "INSERT INTO columns (sequence, crc, data) VALUES (?, ?, ?)"


class Complete(Struct, frozen=True):
    """A complete row group; `batch` has all its readings, with the times of its boot."""

    sequence: int
    sensor: str
    boot: str
    first_monotonic_ms: int
    last_monotonic_ms: int
    synchronised: bool
    batch: RecordBatch


def insert(db: sqlite3.Connection, group: Complete) -> None:
    """Store a group, in the open transaction."""
    layout, data = encode(group.batch)
    found = [
        statistics_of(column, group.batch.quality.get(name))
        for name, column in group.batch.values.items()
    ]
    row = (
        group.sequence,
        group.sensor,
        len(group.batch),
        group.batch.first_ms,
        group.batch.last_ms,
        0,
        group.boot,
        group.first_monotonic_ms,
        group.last_monotonic_ms,
        int(group.synchronised),
        layout,
        b"".join([STATISTICS.pack(*each.stored) for each in found]),
    )
    db.execute(INSERT, (*row, row_crc(row)))
    db.execute(INSERT_COLUMNS, (group.sequence, zlib.crc32(data), data))


def insert_new(db: sqlite3.Connection, group: Complete) -> None:
    """Store a group of the tail, unless it was stored before. A sensor's groups enter the file in
    order, so if a group is present, the earlier ones were stored too and may have been dropped."""
    if not db.execute(
        "SELECT 1 FROM groups WHERE sensor = ? AND sequence + count > ? LIMIT 1",
        (group.sensor, group.sequence),
    ).fetchone():
        insert(db, group)


def latest_ms(db: sqlite3.Connection) -> int | None:
    """Time of the latest reading, None if there is none."""
    found: int | None = db.execute("SELECT max(last_ms) FROM groups").fetchone()[0]
    return found


class WallAge:
    """The wall clock by which groups of earlier boots age. It runs by the earliest offset to the
    monotonic clock at which it was synchronised since the process began: a clock that somebody sets
    forward meanwhile drops nothing, even if the kernel calls it synchronised."""

    def __init__(self) -> None:
        self._offset_ms: int | None = None

    def now_ms(self, newest: RowGroup) -> int | None:
        """The time at the end of the newest group; None while the clock is not synchronised."""
        if not newest.first.synchronised:
            return None
        offset_ms: int = newest.time_ms[-1] - newest.last_monotonic_ms
        if self._offset_ms is None or offset_ms < self._offset_ms:
            self._offset_ms = offset_ms
        return newest.last_monotonic_ms + self._offset_ms


def drop_old(
    db: sqlite3.Connection, boot: str, synchronised_ms: int | None, retention_ms: int
) -> None:
    """Drop groups by age, in a way that a wrong clock never drops a reading.

    A group's age is the time recorded since: by the monotonic clock in its boot, plus the duration
    of each later boot. A synchronised group of an earlier boot also ages by the wall clock, while
    that is synchronised: `synchronised_ms`, None if it is not. O(groups).
    """
    boots = db.execute(
        # Derived values may be from before the boot in which they came.
        "SELECT boot, min(max(first_monotonic_ms, 0)), max(max(last_monotonic_ms, 0)) FROM groups"
        " GROUP BY boot ORDER BY max(sequence) DESC"
    ).fetchall()
    later_ms = 0  # how long the boots after this one lasted
    for each, first_ms, last_ms in boots:
        oldest_ms = None
        if each != boot and synchronised_ms is not None:
            oldest_ms = synchronised_ms - retention_ms
        _drop(
            db,
            db.execute(
                "SELECT sequence FROM groups WHERE boot = ?"
                " AND (last_monotonic_ms < ? OR (synchronised AND last_ms < ?))",
                (each, last_ms + later_ms - retention_ms, oldest_ms),
            ).fetchall(),
        )
        later_ms += last_ms - first_ms


def drop_beyond(db: sqlite3.Connection, most_bytes: int) -> None:
    """Drop the oldest groups until the pages in use take at most `most_bytes`."""
    (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
    while _used_pages(db) * page_bytes > most_bytes:
        oldest = db.execute("SELECT sequence FROM groups ORDER BY sequence LIMIT 1").fetchall()
        if not oldest:
            return
        _drop(db, oldest)


def _used_pages(db: sqlite3.Connection) -> int:
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    (free,) = db.execute("PRAGMA freelist_count").fetchone()
    return int(pages) - int(free)


def _drop(db: sqlite3.Connection, sequences: list[tuple[int]]) -> None:
    db.executemany("DELETE FROM columns WHERE sequence = ?", sequences)
    db.executemany("DELETE FROM groups WHERE sequence = ?", sequences)


def move(db: sqlite3.Connection, boot: str, correction: Correction) -> int:
    """Shift the groups of `boot` that a correction covers, in the open transaction; returns the
    largest shift in ms. A shift smaller than a step is skipped where nothing else changes."""
    rows = db.execute(
        f"SELECT {ROW} FROM groups WHERE boot = ? AND first_monotonic_ms >= ?"  # noqa: S608 - a constant
        " AND first_monotonic_ms < ? AND (? OR NOT synchronised)",
        # Derived values may be from before the boot: a correction of all of it is one of theirs.
        (
            boot,
            correction.since_monotonic_ms or -(1 << 62),
            correction.until_monotonic_ms,
            correction.every,
        ),
    ).fetchall()
    moved = []
    farthest_ms = 0
    for row in rows:
        by_ms = correction.offset_ms(row[7]) - (row[3] - row[7])
        if abs(by_ms) <= STEP_MS and row[9] == correction.synchronised:
            continue
        farthest_ms = max(farthest_ms, abs(by_ms))
        times = (row[3] + by_ms, row[4] + by_ms, row[5] + by_ms)
        later = (*row[:3], *times, *row[6:9], int(correction.synchronised), *row[10:])
        moved.append((*times, correction.synchronised, row_crc(later), row[0]))
    db.executemany(
        "UPDATE groups SET first_ms = ?, last_ms = ?, shift_ms = ?, synchronised = ?, crc = ?"
        " WHERE sequence = ?",
        moved,
    )
    return farthest_ms


def problems(db: sqlite3.Connection) -> list[tuple[int, str]]:
    """Damaged groups: (sequence, reason). Checks all rows, and the newest columns."""
    found = []
    room = CHECKED_COLUMNS
    query = f"SELECT {ROW}, crc FROM groups ORDER BY sequence DESC"  # noqa: S608 - a constant
    for *fields, crc in db.execute(query):
        row = tuple(fields)
        problem = row_problem(row, crc)
        if not problem and room > 0:
            columns = db.execute("SELECT crc, data FROM columns WHERE sequence = ?", row[:1])
            stored = columns.fetchone()
            problem = columns_problem(stored)
            room -= len(stored[1]) if not problem else 0
        if problem:
            found.append((row[0], problem))
    return found


def columns_problem(stored: Sequence[Any] | None) -> str:
    """The fault of a row of `columns`, (crc, data), or ""."""
    if stored is None:
        return "its columns are missing"
    crc, data = stored
    if not isinstance(data, bytes) or zlib.crc32(data) != crc:
        return "the checksum of its columns is wrong"
    return ""


def quarantine(db: sqlite3.Connection, found: Iterable[tuple[int, str]]) -> None:
    """Move damaged groups to quarantine, which keeps only the latest; in the open transaction."""
    for sequence, reason in found:
        db.execute(
            "INSERT OR REPLACE INTO quarantine (sequence, reason, layout, statistics, data)"
            " SELECT groups.sequence, ?, layout, statistics, data"
            " FROM groups LEFT JOIN columns USING (sequence) WHERE groups.sequence = ?",
            (reason, sequence),
        )
        _drop(db, [(sequence,)])
    db.execute(
        "DELETE FROM quarantine WHERE sequence NOT IN"
        " (SELECT sequence FROM quarantine ORDER BY sequence DESC LIMIT ?)",
        (MAX_QUARANTINED,),
    )


def salvage(db: sqlite3.Connection, aside: str) -> int:
    """Copy the groups that pass their checks out of a broken file, in the open transaction; returns
    the number of readings. An error of the broken file ends the search, not the startup."""
    readings = 0
    try:
        old = connect_to_read(aside)
    except sqlite.DAMAGE:
        return 0
    for order in ("ASC", "DESC"):  # from both sides of a page that cannot be read
        try:
            query = f"SELECT {ROW}, crc FROM groups ORDER BY sequence {order}"  # noqa: S608 - constants
            for *fields, crc in old.execute(query):
                readings += _take_over(db, old, tuple(fields), crc)
        except sqlite.DAMAGE:
            continue
        break
    old.close()
    return readings


def _take_over(
    db: sqlite3.Connection, old: sqlite3.Connection, row: tuple[Any, ...], crc: int
) -> int:
    known = db.execute("SELECT 1 FROM groups WHERE sequence = ?", row[:1]).fetchone()
    if known or row_problem(row, crc):
        return 0
    try:
        stored = old.execute("SELECT crc, data FROM columns WHERE sequence = ?", row[:1]).fetchone()
    except sqlite.DAMAGE:
        return 0
    if columns_problem(stored):
        return 0
    db.execute(INSERT, (*row, crc))
    db.execute(INSERT_COLUMNS, (row[0], *stored))
    return int(row[2])


MAX_QUARANTINED: Final = 32  # damaged groups that are kept
