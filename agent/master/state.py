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
        def broken(why: str, aside: str) -> None:
            self._report(
                f"{path} is broken ({why}); it is kept as {aside}, and this master knows no "
                "services until their owners send them again\n"
            )

        in_use = f"{path} is in use by another process; is this master running twice?"
        self._holder, file, _ = database.open_alone(str(path), _prepare, broken, in_use)
        return file

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

    def flush(self) -> bool:
        """Write what waits, in one transaction; whether that went well."""
        dirty, self._dirty, self._due = self._dirty, {}, None
        if self._file is None or not dirty:
            return True
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
            return False
        return True

    def close(self) -> None:
        """Write what waits and close the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._holder is not None:
            os.close(self._holder)
            self._holder = None


def _prepare(file: sqlite3.Connection) -> None:
    file.execute(TABLE)
    database.require_sound(file)
