"""What a master must find again after a restart: small documents by kind and key, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

# What a power cut may cost of what is not urgent, such as the cursor of a watch.
FLUSH_S = 0.5


class State:
    """Documents by (kind, key). `put` and `remove` are written together after half a second, or by
    `flush`; what must not be lost is flushed before anybody is told.

    A path of None keeps nothing. OSError if the file cannot be used.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._dirty: dict[tuple[str, str], bytes | None] = {}
        self._due: float | None = None
        self._file: sqlite3.Connection | None = None
        self.lost = 0
        if path is None:
            return
        try:
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = FULL")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS document (kind TEXT, key TEXT, body BLOB NOT NULL, "
                "PRIMARY KEY (kind, key)) WITHOUT ROWID"
            )
        except sqlite3.Error as error:
            raise OSError(f"cannot use {path}: {error}") from None

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
        self._dirty[kind, key] = body
        if self._due is None:
            self._due = self._clock() + FLUSH_S

    def flush(self) -> None:
        """Write what waits, in one transaction. A disk that refuses it is told in `lost`."""
        dirty, self._dirty, self._due = self._dirty, {}, None
        if self._file is None or not dirty:
            return
        try:
            self._file.execute("BEGIN IMMEDIATE")
            for (kind, key), body in dirty.items():
                if body is None:
                    self._file.execute(
                        "DELETE FROM document WHERE kind = ? AND key = ?", (kind, key)
                    )
                else:
                    self._file.execute(
                        "INSERT OR REPLACE INTO document VALUES (?, ?, ?)", (kind, key, body)
                    )
            self._file.execute("COMMIT")
        except sqlite3.Error:
            self.lost += len(dirty)
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")

    def close(self) -> None:
        """Write what waits and close the file."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
