"""The history's file: its schema, what is checked at the start, what happens to a broken one."""

# ruff: noqa: PTH119
# pathlib takes 0.6 MiB, which is a sizeable part of what this agent may add to its bare parts.

from __future__ import annotations

import os
import sqlite3
import struct
from typing import Final

from agent import database

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
        holder = database.hold(path)
    except OSError as error:
        raise HistoryError(f"history {path}: {error.strerror}") from None
    if holder is None:
        raise HistoryError(f"history {path}: another agent is using it")
    return holder


def open_or_rebuild(path: str) -> tuple[sqlite3.Connection, str]:
    """The checked database and a line on what was wrong with the file before, if anything."""
    try:
        return _open(path), ""
    except _Broken as error:
        aside = database.put_aside(path)
        return _open(
            path
        ), f"history {path} was broken ({error}); kept as {os.path.basename(aside)}, started anew"


def _open(path: str) -> sqlite3.Connection:
    db = None
    try:
        db = connect(path)
        _check(db, path)
    except database.DAMAGE as error:
        _close(db)
        if database.out_of_reach(error):
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
    except database.DAMAGE:
        db.close()
        raise
    return db
