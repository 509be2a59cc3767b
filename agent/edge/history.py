"""The local history: readings in a SQLite file, a row group a row.

One writer appends; any number of readers (`agent.edge.retrieval`) look at the same time, each over
a connection of its own. The group that is still growing stays in memory as a whole and is written
again with each commit; readers take it from there, so that they see a reading at once. A power cut
loses at most `commit_s` seconds of readings.

A reading is known by (history id, sequence). The sequence is the number of times that the file was
opened, times 2³², plus a count: a number that was lost with a power cut is never given again.
"""

from __future__ import annotations

import fcntl
import sqlite3
import struct
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, Final

from agent.edge.groups import Piece, RowGroup, Sample, statistics_of
from agent.wire.packed import Float32Column, Int64Column

VERSION: Final = 1  # of the schema, which names it again
APPLICATION_ID: Final = 0x53414E44  # "SAND"; the schema names it again
OPENING: Final = 1 << 32
MOST_OPENINGS: Final = 1 << 21  # keeps a sequence within the 53 bits that JSON numbers are sure of
# Groups kept in memory while the file cannot be written; older ones are given up and counted.
MOST_UNWRITTEN: Final = 16
STATISTICS: Final = struct.Struct("<q3d")  # readings, lowest, highest, total

# Small columns first: a look at them does not touch the pages that hold the blobs.
SCHEMA: Final = """
BEGIN IMMEDIATE;
PRAGMA application_id = 0x53414E44;
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE groups (
    sequence INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    boot TEXT NOT NULL,
    first_monotonic_ms INTEGER NOT NULL,
    last_monotonic_ms INTEGER NOT NULL,
    synchronised INTEGER,
    channels TEXT NOT NULL,
    statistics BLOB NOT NULL,
    time_ms BLOB NOT NULL CHECK (length(time_ms) = 8 * count),
    source_time_ms BLOB CHECK (source_time_ms IS NULL OR length(source_time_ms) = 8 * count),
    channel_values BLOB NOT NULL CHECK (length(channel_values) = length(statistics) / 8 * count)
) STRICT;
CREATE INDEX groups_by_time ON groups (last_ms, first_ms);
INSERT INTO meta VALUES
    ('version', 1), ('openings', 0), ('history', lower(hex(randomblob(16))));
COMMIT;
"""
# What a damaged file may raise. SQLite quotes it in its messages, which then may be no valid UTF-8.
DAMAGE: Final = (sqlite3.Error, UnicodeError, OverflowError)
# These say that the file cannot be reached now, not that it is broken.
OUT_OF_REACH: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


class HistoryError(Exception):
    """The history cannot be opened or written; the text is one line."""


class _Broken(Exception):
    """The file is no history that can be used; the text says why."""


class History:
    """The history file's one writer. `report` is a line on what was wrong with an older file, if
    one had to be put aside.

    `append` and `commit` are for one thread at a time; readers may look at any time.
    """

    def __init__(
        self,
        path: Path,
        channels: tuple[str, ...],
        boot: str,
        *,
        group_readings: int,
        commit_s: float,
        retention_s: float,
    ) -> None:
        self.path = path
        self.channels = channels
        self.report = ""
        self.given_up = 0  # readings lost because the file could not be written
        self._boot = boot
        self._group_readings = group_readings
        self._commit_ms = round(commit_s * 1000)
        self._retention_ms = round(retention_s * 1000)
        self._lock = threading.Lock()  # holds what readers see: _groups and what is in them
        self._groups: list[RowGroup] = []
        self._waiting_since_ms: int | None = None  # monotonic time of the first uncommitted reading
        self._holder = _hold(path)
        try:
            self._db, self.report = _open_or_rebuild(path)
            self.id, self.empty, self._sequence = _start(self._db)
        except sqlite3.Error as error:
            self._holder.close()
            raise HistoryError(f"history {path}: {error}") from None
        except HistoryError:
            self._holder.close()
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
        """Fill an empty history in one transaction; HistoryError, and no reading, if it fails."""
        assert not self._groups
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for sample in samples:
                self._add(sample)
                if self._complete():
                    self._forget(self._write())
            written = self._write()
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._groups.clear()
            raise HistoryError(f"history {self.path}: {error}") from None
        self._forget(written)
        self.empty = False

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
            raise HistoryError(f"history {self.path}: not written: {error}") from None
        self._forget(written)
        self._waiting_since_ms = None

    def close(self) -> None:
        """Commit and close; HistoryError if the commit fails, the file is closed all the same."""
        try:
            self.commit()
        finally:
            self._db.close()
            self._holder.close()

    def uncommitted(self, start_ms: int, end_ms: int) -> tuple[int, list[Piece]]:
        """For readers: what memory holds of [start_ms, end_ms), and the sequence from which on it
        holds everything; older readings are in the file."""
        with self._lock:
            floor = self._groups[0].sequence if self._groups else self._sequence
            pieces = [group.cut(start_ms, end_ms) for group in self._groups]
        return floor, [piece for piece in pieces if piece is not None]

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
            if self._groups and len(self._groups[-1]) >= self._group_readings:
                self._groups.clear()
            else:
                del self._groups[:-1]

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


def _hold(path: Path) -> IO[bytes]:
    """Keep other agents off this history. The lock goes with the process, however it ends."""
    try:
        holder = path.with_name(path.name + ".lock").open("ab")
    except OSError as error:
        raise HistoryError(f"history {path}: {error.strerror}") from None
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder.close()
        raise HistoryError(f"history {path}: another agent is using it") from None
    return holder


def _open_or_rebuild(path: Path) -> tuple[sqlite3.Connection, str]:
    """The checked database and a line on what was wrong with the file before, if anything."""
    try:
        return _open(path), ""
    except _Broken as error:
        aside = _put_aside(path)
        return _open(
            path
        ), f"history {path} was broken ({error}); kept as {aside.name}, started anew"


def _open(path: Path) -> sqlite3.Connection:
    db = None
    try:
        db = connect(path)
        _check(db, path)
    except DAMAGE as error:
        _close(db)
        if _out_of_reach(error):
            raise
        raise _Broken(" ".join(str(error).split())) from None
    except (_Broken, HistoryError):
        _close(db)
        raise
    return db


def _close(db: sqlite3.Connection | None) -> None:
    if db is not None:
        db.close()


def _check(db: sqlite3.Connection, path: Path) -> None:
    db.execute("PRAGMA journal_mode=WAL")
    # FULL: a commit is on stable storage when it returns. NORMAL would sync at checkpoints only.
    db.execute("PRAGMA synchronous=FULL")
    if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        db.executescript(SCHEMA)
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise _Broken("it is not a Sanderling history")
    (problem,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if problem != "ok":
        raise _Broken(" ".join(str(problem).split()))
    meta = dict(db.execute("SELECT key, value FROM meta"))
    version, history, openings = map(meta.get, ("version", "history", "openings"))
    if not isinstance(version, int):
        raise _Broken("its version is missing")
    if version > VERSION:
        raise HistoryError(
            f"history {path}: written by a newer version of Sanderling (format {version}, "
            f"this one reads {VERSION}); it is left as it is"
        )
    if not isinstance(history, str) or not 0 < len(history) <= 64:
        raise _Broken("its id is missing")
    if not isinstance(openings, int) or not 0 <= openings < MOST_OPENINGS:
        raise _Broken("the count of its openings is wrong")
    # Damage inside a row is nothing to SQLite. Readers must be able to rely on these.
    for first_ms, last_ms, channels, size in db.execute(
        "SELECT first_ms, last_ms, channels, length(statistics) FROM groups"
    ):
        if first_ms > last_ms or STATISTICS.size * (channels.count(",") + 1) != size:
            raise _Broken("a row group contradicts itself")


def _start(db: sqlite3.Connection) -> tuple[str, bool, int]:
    """(history id, whether there is no reading, first sequence) of a new opening."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE meta SET value = value + 1 WHERE key = 'openings'")
        meta = dict(db.execute("SELECT key, value FROM meta"))
        some = db.execute("SELECT EXISTS (SELECT 1 FROM groups)").fetchone()[0]
    return meta["history"], not some, meta["openings"] * OPENING


def connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode, with a small cache: the pages are in the kernel's anyway."""
    db = sqlite3.connect(
        path, timeout=5.0, isolation_level=None, check_same_thread=False, cached_statements=8
    )
    try:
        db.execute("PRAGMA cache_size=-128")
    except DAMAGE:
        db.close()
        raise
    return db


def _out_of_reach(error: Exception) -> bool:
    # An error of Python's own making, such as text that is no UTF-8, carries no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # A read beyond the end of the file is damage, though its code is that of a failing device.
    return code != sqlite3.SQLITE_IOERR_SHORT_READ and code & 0xFF in OUT_OF_REACH


def _put_aside(path: Path) -> Path:
    """Rename the file, with its log, to a name that says when; returns the new path."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name = f"{path.name}.broken-{stamp}"
    n = 1
    while path.with_name(name).exists():
        n += 1
        name = f"{path.name}.broken-{stamp}-{n}"
    for suffix in ("", "-wal", "-shm"):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(path.with_name(name + suffix))
    return path.with_name(name)
