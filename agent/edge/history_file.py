"""The history's file: its schema, what is checked at the start, what happens to a broken one."""

# ruff: noqa: PTH104, PTH110, PTH119
# pathlib takes 0.6 MiB, which is a sizeable part of what this agent may add to its bare parts.

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import time
from typing import Final

VERSION: Final = 1  # of the schema, which names it again
APPLICATION_ID: Final = 0x53414E44  # "SAND"; the schema names it again
OPENING: Final = 1 << 32
MOST_OPENINGS: Final = 1 << 21  # keeps a sequence within the 53 bits that JSON numbers are sure of
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


def start(db: sqlite3.Connection) -> tuple[str, int, int | None]:
    """Count a new opening: (history id, first sequence, time of the latest reading or None)."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE meta SET value = value + 1 WHERE key = 'openings'")
        meta = dict(db.execute("SELECT key, value FROM meta"))
        (latest_ms,) = db.execute("SELECT max(last_ms) FROM groups").fetchone()
    return meta["history"], meta["openings"] * OPENING, latest_ms


def hold(path: str) -> int:
    """Keep other agents off this history, as long as the file descriptor returned is open; it
    closes with the process, however that ends. HistoryError if another agent has it."""
    try:
        holder = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise HistoryError(f"history {path}: {error.strerror}") from None
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(holder)
        raise HistoryError(f"history {path}: another agent is using it") from None
    return holder


def open_or_rebuild(path: str) -> tuple[sqlite3.Connection, str]:
    """The checked database and a line on what was wrong with the file before, if anything."""
    try:
        return _open(path), ""
    except _Broken as error:
        aside = _put_aside(path)
        return _open(
            path
        ), f"history {path} was broken ({error}); kept as {os.path.basename(aside)}, started anew"


def _open(path: str) -> sqlite3.Connection:
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


def _check(db: sqlite3.Connection, path: str) -> None:
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


def connect(path: str) -> sqlite3.Connection:
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


def _put_aside(path: str) -> str:
    """Rename the file, with its log, to a name that says when; returns the new path."""
    aside = first = f"{path}.broken-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    n = 1
    while os.path.exists(aside):
        n += 1
        aside = f"{first}-{n}"
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return aside
