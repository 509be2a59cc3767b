"""The history's SQLite database: its tables, and connections to it."""

# Importing pathlib takes 0.6 MiB, a sizeable part of this agent's memory budget.

from __future__ import annotations

import os
import sqlite3
from typing import Final

from agent.edge.history.row_groups import ROW, VERSION
from agent.runtime import sqlite

# Small rows and packed columns are separate tables: reading times or statistics touches no page of
# values, and a clock correction writes none.
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


# The index covers all that planning a series needs; one that covers less, of an earlier version, is
# replaced on opening.
COVERED: Final = ("last_ms", "first_ms", "shift_ms", "layout", "count")
BY_TIME: Final = f"CREATE INDEX groups_by_time ON groups ({', '.join(COVERED)})"

# Columns added on opening to files made before these existed. Older code ignores them, so the
# format version stays. Areas are separated by spaces.
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


# How far the derived values of each source are in this history: moved in the transactions that
# store them.
DERIVED: Final = """
CREATE TABLE IF NOT EXISTS derived (
    source TEXT NOT NULL UNIQUE,
    position INTEGER NOT NULL
) STRICT
"""


META: Final = {"version": VERSION, "compatible": VERSION, "openings": 0, "events_dropped": 0}


# Columns that every file must have; a damaged schema may lack one.
COLUMNS: Final = (
    f"{ROW}, crc FROM groups",
    "sequence, crc, data FROM columns",
    "sequence, reason, layout, statistics, data FROM quarantine",
    "sequence, kind, time_ms, boot, monotonic_ms, synchronised, sensor, channel, text FROM events",
    f"{', '.join(ADDED_TO_EVENTS)} FROM events",
    "trigger, definition, sensor, channel, areas FROM raised",
    "source, position FROM derived",
)


MAX_TEXTS: Final = 64  # that a connection remembers


def make_tables(db: sqlite3.Connection) -> None:
    """Create the tables, in the open transaction."""
    for statement in SCHEMA.split(";\n")[:-1]:
        db.execute(statement)
    db.execute(BY_TIME)


class Texts(dict[bytes, str]):
    """Texts by their bytes: of a text that is in many rows there is one object, decoded and hashed
    once. Damaged text must not raise in the middle of a query; the checksum detects it."""

    def __missing__(self, stored: bytes) -> str:
        if len(self) >= MAX_TEXTS:
            self.clear()
        return self.setdefault(stored, str(stored, encoding="utf-8", errors="replace"))


def connect(path: str) -> sqlite.NamedConnection:
    """A connection in autocommit mode, with a small cache: the kernel caches the pages anyway."""
    return _connected(path, uri=False)


def connect_to_read(path: str, *, immutable: bool = False) -> sqlite3.Connection:
    """A read-only connection. `immutable`: for a file system without room for SQLite's log, where
    no file is made, either: it would be empty."""
    if immutable:
        from urllib.parse import quote  # rarely needed

        db = _connected(f"file:{quote(os.path.abspath(path))}?immutable=1&mode=ro", uri=True)  # noqa: PTH100 - as above
    else:
        db = _connected(path, uri=False)
    db.execute("PRAGMA query_only=ON")
    return db


def _connected(path: str, *, uri: bool) -> sqlite.NamedConnection:
    db = sqlite3.connect(
        path,
        timeout=5.0,
        isolation_level=None,
        check_same_thread=False,
        factory=sqlite.NamedConnection,
        cached_statements=16,
        uri=uri,
    )
    try:
        db.text_factory = Texts().__getitem__
        db.execute("PRAGMA cache_size=-64")
    except sqlite.DAMAGE:
        db.close()
        raise
    return db
