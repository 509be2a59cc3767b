"""The history's file: its schema, what is checked at the start, what happens to a broken one."""

# ruff: noqa: PTH119
# pathlib takes 0.6 MiB, which is a sizeable part of what this agent may add to its bare parts.

from __future__ import annotations

import os
import sqlite3
from functools import partial
from typing import Final

from agent.edge.history.row_groups import APPLICATION_ID, ROW, VERSION
from agent.runtime import sqlite

MAX_OPENINGS: Final = 1 << 21  # keeps a sequence within the 53 bits that JSON numbers are sure of
MAX_ASIDE: Final = 3  # broken files that are kept
MAX_ASIDE_BYTES: Final = 256 << 20
MAX_QUARANTINED: Final = 32  # damaged groups that are kept
# Up to this size the structure of the file is checked at the start; 10 ms for 5 MB.
CHECKED_BYTES: Final = 64 << 20

# Small rows and packed columns are apart: a look for times, or at statistics, touches no page of
# numbers, and a correction of the clock writes none. The index has all that a series needs to know.
SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE groups (
    sequence INTEGER PRIMARY KEY,
    sensor TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,
    last_ms INTEGER NOT NULL,
    shift_ms INTEGER NOT NULL,
    boot TEXT NOT NULL,
    first_monotonic_ms INTEGER NOT NULL,
    last_monotonic_ms INTEGER NOT NULL,
    synchronised INTEGER NOT NULL,
    layout TEXT NOT NULL,
    statistics BLOB NOT NULL,
    crc INTEGER NOT NULL
) STRICT;
CREATE INDEX groups_by_time ON groups (last_ms, first_ms, shift_ms, layout);
CREATE TABLE columns (
    sequence INTEGER PRIMARY KEY, crc INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE quarantine (
    sequence INTEGER PRIMARY KEY, reason TEXT NOT NULL, layout TEXT, statistics BLOB, data BLOB
) STRICT;
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    time_ms INTEGER NOT NULL,
    boot TEXT NOT NULL,
    monotonic_ms INTEGER NOT NULL,
    synchronised INTEGER NOT NULL,
    sensor TEXT NOT NULL,
    channel TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
"""
# What files of this format get when they are opened, for it came later. Code that does not know it
# leaves it alone, so it makes no other format. Areas have a space between.
ADDED_TO_EVENTS: Final = {
    "trigger": "TEXT NOT NULL DEFAULT ''",
    "value": "REAL",
    "areas": "TEXT NOT NULL DEFAULT ''",
}
RAISED: Final = """
CREATE TABLE IF NOT EXISTS raised (
    trigger TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    sensor TEXT NOT NULL,
    channel TEXT NOT NULL,
    areas TEXT NOT NULL
) STRICT, WITHOUT ROWID
"""
META: Final = {"version": VERSION, "compatible": VERSION, "openings": 0, "events_dropped": 0}

# What every file has; damage to the schema may take a column away.
COLUMNS: Final = (
    f"{ROW}, crc FROM groups",
    "sequence, crc, data FROM columns",
    "sequence, reason, layout, statistics, data FROM quarantine",
    "sequence, kind, time_ms, boot, monotonic_ms, synchronised, sensor, channel, text FROM events",
    f"{', '.join(ADDED_TO_EVENTS)} FROM events",
    "trigger, definition, sensor, channel, areas FROM raised",
)


class HistoryError(Exception):
    """The history cannot be opened or written; the text is one line."""


class Broken(Exception):
    """The file is no history that can be used; the text says why."""


class Newer(Exception):
    """A later version wrote the file, and this one must not touch it; the text says which."""


def hold(path: str) -> int:
    """Keep other agents off this history, as long as the file descriptor returned is open; it
    closes with the process, however that ends. HistoryError if another agent has it; OSError."""
    holder = sqlite.hold(path)
    if holder is None:
        raise HistoryError(f"history {path}: another agent is using it")
    return holder


def open_checked(path: str, history: str) -> sqlite3.Connection:
    """The database: made with the id `history` if there is none, migrated if old, and checked.

    Broken and Newer say what is wrong with the file, sqlite3.Error that it cannot be reached.
    """
    db = None
    try:
        db = connect(path)
        _check(db, path, history)
    except sqlite.DAMAGE as error:
        _close(db)
        if sqlite.out_of_reach(error):
            raise
        raise Broken(" ".join(str(error).split())) from None
    except (Broken, Newer):
        _close(db)
        raise
    return db


def _close(db: sqlite3.Connection | None) -> None:
    if db is not None:
        db.close()


def _check(db: sqlite3.Connection, path: str, new: str) -> None:
    db.execute("PRAGMA journal_mode=WAL")
    # FULL: a commit is on stable storage when it returns. NORMAL would sync at checkpoints only.
    db.execute("PRAGMA synchronous=FULL")
    if not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        make(db, new)
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise Broken("it is not a Sanderling history")
    meta = dict(db.execute("SELECT key, value FROM meta"))
    version = meta.get("version")
    if not isinstance(version, int):
        raise Broken("its version is missing")
    if version > VERSION and not _usable(meta.get("compatible")):
        raise Newer(f"format {version}, this version reads {VERSION}")
    history, openings = meta.get("history"), meta.get("openings")
    if not isinstance(history, str) or not 0 < len(history) <= 64:
        raise Broken("its id is missing")
    if not isinstance(openings, int) or not 0 <= openings < MAX_OPENINGS:
        raise Broken("the count of its openings is wrong")
    if os.path.getsize(path) <= CHECKED_BYTES:  # noqa: PTH202 - as above
        (problem,) = db.execute("PRAGMA integrity_check(1)").fetchone()
        if problem != "ok":
            raise Broken(" ".join(str(problem).split()))
    if version < VERSION:
        from agent.edge.history.migration import migrate  # once in the life of a file

        migrate(db)
    _add_missing(db)
    for what in COLUMNS:
        db.execute(f"SELECT {what} LIMIT 0")


def _add_missing(db: sqlite3.Connection) -> None:
    """Give the file what came later than its format."""
    there = {name for _, name, *_ in db.execute("PRAGMA table_info(events)")}
    (raised,) = db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'raised'").fetchone()
    missing = [name for name in ADDED_TO_EVENTS if name not in there]
    if raised and not missing:
        return
    with transaction(db):
        for name in missing:
            db.execute(f"ALTER TABLE events ADD COLUMN {name} {ADDED_TO_EVENTS[name]}")
        db.execute(RAISED)


def _usable(compatible: object) -> bool:
    return isinstance(compatible, int) and compatible <= VERSION


def make(db: sqlite3.Connection, history: str) -> None:
    """Make an empty file a history."""
    with transaction(db):
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        make_tables(db)
        meta = META | {"history": history}
        db.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", meta.items())


def make_tables(db: sqlite3.Connection) -> None:
    """Make the tables, in the open transaction."""
    for statement in SCHEMA.split(";\n")[:-1]:
        db.execute(statement)


class transaction:  # noqa: N801 - reads like contextlib's, whose import costs memory
    """Commits what is done inside, or rolls it back."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
        finally:
            # SQLite has rolled back by itself after some errors.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


def put_aside(path: str, label: str) -> str:
    """Rename the file; of broken ones only some are kept. The line says what became of it."""
    aside = os.path.basename(sqlite.put_aside(path, label))
    deleted = sqlite.thin_out(path, MAX_ASIDE, MAX_ASIDE_BYTES) if label == "broken" else 0
    older = f", {deleted} older deleted" if deleted else ""
    return f"kept as {aside}{older}"


def connect(path: str) -> sqlite3.Connection:
    """A connection in autocommit mode, with a small cache: the pages are in the kernel's anyway."""
    return _connected(path, uri=False)


def connect_to_read(path: str, *, immutable: bool = False) -> sqlite3.Connection:
    """A connection that cannot write. `immutable`: on a file system without room for its log."""
    if immutable:
        from urllib.parse import quote  # rarely needed

        db = _connected(f"file:{quote(os.path.abspath(path))}?immutable=1", uri=True)  # noqa: PTH100 - as above
    else:
        db = _connected(path, uri=False)
    db.execute("PRAGMA query_only=ON")
    return db


def _connected(path: str, *, uri: bool) -> sqlite3.Connection:
    db = sqlite3.connect(
        path,
        timeout=5.0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=16,
        uri=uri,
    )
    try:
        # Damaged text is found by a checksum, not by an error in the middle of a query.
        db.text_factory = partial(str, encoding="utf-8", errors="replace")
        db.execute("PRAGMA cache_size=-64")
    except sqlite.DAMAGE:
        db.close()
        raise
    return db
