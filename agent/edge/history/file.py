"""The history's SQLite file: integrity checks on opening, renaming of broken files."""

# ruff: noqa: PTH119
# Importing pathlib takes 0.6 MiB, a sizeable part of this agent's memory budget.

from __future__ import annotations

import os
import sqlite3
from typing import Final

from agent.edge.history.database import (
    ADDED_TO_EVENTS,
    BY_TIME,
    COLUMNS,
    COVERED,
    DERIVED,
    META,
    RAISED,
    connect,
    make_tables,
)
from agent.edge.history.row_groups import APPLICATION_ID, VERSION
from agent.runtime import sqlite

MAX_OPENINGS: Final = (
    1 << 21
)  # keeps a sequence within the 53 bits that JSON numbers represent exactly
MAX_ASIDE: Final = 3  # broken files that are kept
MAX_ASIDE_BYTES: Final = 256 << 20
# Files up to this size get a structural check on opening; 10 ms for 5 MB.
CHECKED_BYTES: Final = 64 << 20


class HistoryError(Exception):
    """The history cannot be opened or written; the text is one line."""


class Broken(Exception):
    """The file is not a usable history; the text says why."""


class Newer(Exception):
    """A later version wrote the file, and this one must not touch it; the text says which."""


def hold(path: str) -> int:
    """Lock this history against other agents while the returned file descriptor is open; it closes
    with the process, however that ends. HistoryError if another agent holds the lock; OSError."""
    holder = sqlite.hold(path)
    if holder is None:
        raise HistoryError(f"history {path}: another agent is using it")
    return holder


def open_checked(path: str, history: str) -> sqlite.NamedConnection:
    """Open the database: create it with the id `history` if there is none, migrate and check it.

    Broken and Newer describe an unusable file; sqlite3.Error: it cannot be accessed.
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
    """Add the columns, tables and index that the file's format version predates."""
    there = {name for _, name, *_ in db.execute("PRAGMA table_info(events)")}
    (tables,) = db.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('raised', 'derived')"
    ).fetchone()
    missing = [name for name in ADDED_TO_EVENTS if name not in there]
    indexed = {name for _, _, name in db.execute("PRAGMA index_info(groups_by_time)")}
    if tables == 2 and not missing and indexed.issuperset(COVERED):
        return
    with sqlite.transaction(db):
        for name in missing:
            db.execute(f"ALTER TABLE events ADD COLUMN {name} {ADDED_TO_EVENTS[name]}")
        db.execute(RAISED)
        db.execute(DERIVED)
        if not indexed.issuperset(COVERED):
            db.execute("DROP INDEX IF EXISTS groups_by_time")
            db.execute(BY_TIME)


def _usable(compatible: object) -> bool:
    return isinstance(compatible, int) and compatible <= VERSION


def make(db: sqlite3.Connection, history: str) -> None:
    """Create the tables and metadata of a history in an empty file."""
    with sqlite.transaction(db):
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        make_tables(db)
        meta = META | {"history": history}
        db.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", meta.items())


def put_aside(path: str, label: str) -> str:
    """Rename an unusable file, keeping only the latest few. Returns a line for the operator."""
    aside = os.path.basename(sqlite.put_aside(path, label))
    deleted = sqlite.thin_out(path, MAX_ASIDE, MAX_ASIDE_BYTES) if label == "broken" else 0
    older = f", {deleted} older deleted" if deleted else ""
    return f"kept as {aside}{older}"
