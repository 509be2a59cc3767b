"""What a master must find again after a restart: small documents by kind and key, in SQLite."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from agent import database

# What a power cut may cost of what is not urgent, such as the cursor of a watch.
FLUSH_S = 0.5
TABLE = (
    "CREATE TABLE IF NOT EXISTS document (kind TEXT, key TEXT, body BLOB NOT NULL, "
    "PRIMARY KEY (kind, key)) WITHOUT ROWID"
)


class State:
    """Documents by (kind, key).

    `put` and `remove` are written together after half a second, or by `flush`: what must not be
    lost is flushed before anybody is told. A disk that refuses to write costs what waits, one line
    and `lost`; serving goes on. A file that is broken is put aside: the master starts without its
    services, and says so. A path of None keeps nothing; OSError if the file cannot be used.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Callable[[], float],
        report: Callable[[str], object] = sys.stderr.write,
    ) -> None:
        self._clock = clock
        self._report = report
        self._dirty: dict[tuple[str, str], bytes | None] = {}
        self._due: float | None = None
        self.lost = 0
        self._holder: int | None = None
        self._file = None if path is None else self._open(path)

    def _open(self, path: Path) -> sqlite3.Connection:
        try:
            self._holder = database.hold(str(path))
        except OSError as error:
            raise OSError(f"cannot use {path}: {error.strerror}") from None
        if self._holder is None:
            raise OSError(f"{path} is in use by another process; is this master running twice?")
        try:
            return _connected(path)
        except database.DAMAGE as error:
            if database.out_of_reach(error):
                raise OSError(f"cannot use {path}: {error}") from None
            aside = Path(database.put_aside(str(path)))
            self._report(
                f"{path} is broken ({error}); it is kept as {aside.name}, and this master knows no "
                "services until their owners send them again\n"
            )
            return _connected(path)

    @property
    def next_due(self) -> float | None:
        """When what waits is to be written."""
        return self._due

    def tick(self, _now: float) -> None:
        """Write what waits."""
        self.flush()

    def all(self, kind: str) -> dict[str, bytes]:
        """Every document of a kind, by key."""
        if self._file is None:
            return {}
        self.flush()
        return dict(
            self._file.execute(
                "SELECT key, body FROM document WHERE kind = ? ORDER BY key", (kind,)
            )
        )

    def put(self, kind: str, key: str, body: bytes) -> None:
        """Keep a document, in place of the one before."""
        self._change(kind, key, body)

    def remove(self, kind: str, key: str) -> None:
        """Forget a document; nothing happens if there is none."""
        self._change(kind, key, None)

    def _change(self, kind: str, key: str, body: bytes | None) -> None:
        if self._file is None:
            return
        self._dirty[kind, key] = body
        if self._due is None:
            self._due = self._clock() + FLUSH_S

    def flush(self) -> None:
        """Write what waits, in one transaction."""
        dirty, self._dirty, self._due = self._dirty, {}, None
        if self._file is None or not dirty:
            return
        try:
            with self._file:
                self._file.execute("BEGIN IMMEDIATE")
                self._file.executemany(
                    "DELETE FROM document WHERE kind = ? AND key = ?", list(dirty)
                )
                self._file.executemany(
                    "INSERT INTO document VALUES (?, ?, ?)",
                    [(*name, body) for name, body in dirty.items() if body is not None],
                )
        except sqlite3.Error as error:
            self.lost += len(dirty)
            self._report(f"state: {len(dirty)} changes could not be written: {error}\n")

    def close(self) -> None:
        """Write what waits and close the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._holder is not None:
            os.close(self._holder)
            self._holder = None


def _connected(path: Path) -> sqlite3.Connection:
    file = sqlite3.connect(path, isolation_level=None)
    try:
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        file.execute(TABLE)
        [(verdict,)] = file.execute("PRAGMA quick_check(1)")
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
    except database.DAMAGE:
        file.close()
        raise
    return file
