"""State of a master that survives restarts: small documents by kind and key, in SQLite."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from agent.runtime import console, sqlite
from agent.runtime.disk_writer import DiskWriter, InlineDiskWriter
from agent.runtime.outage import Outage

T = TypeVar("T")

# Delay of writes that are not urgent, such as the cursor of a watch; a power cut may lose them.
FLUSH_S: Final = 0.5
RETRY_S: Final = 1.0
# Waiting continuations beyond which nothing new may begin, because the disk is slow.
MAX_WAITING: Final = 1_024
# What all files until now have: a later format gets a higher one, and is left as it is here.
SCHEMA_VERSION: Final = 0
TABLE = (
    "CREATE TABLE IF NOT EXISTS document (kind TEXT, key TEXT, body BLOB NOT NULL, "
    "PRIMARY KEY (kind, key)) WITHOUT ROWID"
)
ROWS = (
    "SELECT typeof(key) = 'text', CAST(key AS BLOB), CAST(body AS BLOB) FROM document "
    "WHERE kind = ?"
)


# Why a change is refused while the disk refuses; what is said of one that it refused to store.
NOT_NOW: Final = "this master's disk takes nothing now; try again later"
LATER: Final = "this master's disk takes nothing now; what was asked is done as soon as it does"


class _Waiting(NamedTuple):
    """What is called when changes are durable; `otherwise` if the disk refuses them first."""

    then: Callable[[], object]
    otherwise: Callable[[], object] | None


class State:
    """Documents by (kind, key).

    `put` and `remove` are written together after half a second, or at the end of the turn in which
    a caller waits for them with `when_durable`. A refused transaction is retried every second: its
    changes are kept, and no waiting callback is called; those for a refusal are, so that what can
    be undone is refused without further delay, and clients are told. While the disk refuses, or
    many callbacks wait, `takes` is False: whatever would have to be stored is to be refused. A
    corrupt file is set aside: the master starts without its services, and reports it. A path of
    None keeps nothing; OSError if the file cannot be used.

    `writer` runs the transactions; it alone uses the file, except for `all`, which waits for it.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Callable[[], float],
        report: Callable[[str], object] = console.write,
        writer: DiskWriter | None = None,
    ) -> None:
        self._clock = clock
        self._report = report
        self._writer = writer or InlineDiskWriter()
        self._dirty: dict[tuple[str, str], bytes | None] = {}
        self._waiting: list[_Waiting] = []
        # The same for the transaction that is in progress.
        self._writing: dict[tuple[str, str], bytes | None] = {}
        self._waiting_for_it: list[_Waiting] = []
        self._under_way = False
        self._outage = Outage(report, "state: changes are written again\n")
        self._when_refused: list[Callable[[], object]] = []
        self._due: float | None = None
        self._left_out: set[tuple[str, str]] = set()
        self._holder: int | None = None
        self._file = None if path is None else self._open(path)

    def _open(self, path: Path) -> sqlite3.Connection:
        def broken(why: str, aside: str) -> None:
            self._report(
                f"{path} is broken ({why}); it is kept as {aside}, and this master knows no "
                "services until their owners send them again\n"
            )

        in_use = f"{path} is in use by another process; is this master running twice?"
        self._holder, file, _ = sqlite.open_alone(
            str(path), _prepare, broken, in_use, any_thread=True
        )
        return file

    @property
    def takes(self) -> bool:
        """Whether new documents can be stored, as far as is known."""
        waiting = len(self._waiting) + len(self._waiting_for_it)
        return not self._outage.lasts and waiting < MAX_WAITING

    @property
    def next_due(self) -> float | None:
        """When waiting changes are to be written."""
        return None if self._under_way else self._due

    def tick(self, _now: float) -> None:
        """Write the waiting changes."""
        self._write()

    def all(self, kind: str) -> dict[str, bytes]:
        """Every document of a kind, by key. It waits for the disk: use at start only."""
        if self._file is None:
            return {}
        self._writer.drain()
        found: dict[str, bytes] = {}
        for is_text, key, body in self._file.execute(ROWS, (kind,)).fetchall():
            try:
                # SQLite holds any bytes to be text, and a flipped bit turns text into a blob.
                name = key.decode()
            except UnicodeDecodeError as error:
                self.left_out(kind, ascii(key), error)
                continue
            if is_text:
                found[name] = body
            else:
                self.left_out(kind, ascii(key), "its name is no text")
        for (its_kind, key), body in self._dirty.items():
            if its_kind == kind and body is not None:
                found[key] = body
            elif its_kind == kind:
                found.pop(key, None)
        return dict(sorted(found.items()))

    def read(self, kind: str, decode: Callable[[bytes], T]) -> dict[str, T]:
        """The same, decoded. What cannot be, perhaps because a later version wrote it, is left out
        with a line, and stays on disk."""
        found = {}
        for key, body in self.all(kind).items():
            try:
                found[key] = decode(body)
            except (ValueError, msgspec.MsgspecError) as error:
                self.left_out(kind, key, error)
        return found

    def left_out(self, kind: str, key: str, why: object) -> None:
        """Report a document that cannot be read, once."""
        if (kind, key) in self._left_out:
            return
        self._left_out.add((kind, key))
        self._report(f"{kind} {key} on disk cannot be read and is left out: {why}\n")

    def put(self, kind: str, key: str, body: bytes) -> None:
        """Store a document, in place of an earlier one."""
        self._change(kind, key, body)

    def remove(self, kind: str, key: str) -> None:
        """Remove a document; nothing happens if there is none."""
        self._change(kind, key, None)

    def _change(self, kind: str, key: str, body: bytes | None) -> None:
        if self._file is None:
            return
        self._dirty[kind, key] = body
        if self._due is None:
            self._due = self._clock() + FLUSH_S

    def when_durable(
        self, then: Callable[[], object], otherwise: Callable[[], object] | None = None
    ) -> None:
        """Call `then` as soon as all changes made until now are on stable storage, after the
        callbacks that were registered before. At once, if they are. If the disk refuses them first,
        `otherwise` is called in its place."""
        if self._dirty:
            self._waiting.append(_Waiting(then, otherwise))
            if not self._outage.lasts:
                self._due = self._clock()
        elif self._under_way:
            self._waiting_for_it.append(_Waiting(then, otherwise))
        else:
            then()

    def when_refused(self, then: Callable[[], object]) -> None:
        """Call `then` each time the disk refuses a transaction, before it is tried again."""
        self._when_refused.append(then)

    def flush(self) -> bool:
        """Write the waiting changes now, and wait for the disk: for start and end only. Returns
        whether all is on stable storage."""
        self._writer.drain()
        self._write()
        self._writer.drain()
        return not self._dirty

    def _write(self) -> None:
        if self._under_way or not self._dirty or self._file is None:
            return
        self._writing, self._dirty = self._dirty, {}
        self._waiting_for_it, self._waiting = self._waiting, []
        self._due = None
        self._under_way = True
        self._writer.submit(partial(_transact, self._file, self._writing), self._written)

    def _written(self, problem: str) -> None:
        writing, self._writing = self._writing, {}
        waited, self._waiting_for_it = self._waiting_for_it, []
        self._under_way = False
        if problem:
            self._outage.fail(
                f"state: changes (now {len(writing)}) could not be written: {problem}; "
                "nothing new is begun until they are\n"
            )
            self._dirty = writing | self._dirty
            waited += self._waiting
            self._waiting = [each for each in waited if each.otherwise is None]
            self._due = self._clock() + RETRY_S
            for tell in [*self._when_refused, *(each.otherwise for each in waited)]:
                if tell is not None:
                    tell()
            return
        self._outage.succeed()
        if self._waiting:
            self._due = self._clock()
        for each in waited:
            each.then()

    def close(self) -> None:
        """Write the waiting changes and close the file."""
        self._when_refused.clear()
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._holder is not None:
            os.close(self._holder)
            self._holder = None


def _transact(file: sqlite3.Connection, changes: dict[tuple[str, str], bytes | None]) -> str:
    """Write the changes atomically; returns the reason if that fails."""
    try:
        with sqlite.transaction(file):
            file.executemany("DELETE FROM document WHERE kind = ? AND key = ?", list(changes))
            file.executemany(
                "INSERT INTO document VALUES (?, ?, ?)",
                [(*name, body) for name, body in changes.items() if body is not None],
            )
    except sqlite3.Error as error:
        return str(error) or type(error).__name__
    return ""


def _prepare(file: sqlite3.Connection) -> None:
    (version,) = file.execute("PRAGMA user_version").fetchone()
    sqlite.require_version(version, SCHEMA_VERSION)
    tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema")]
    # Such as after a restore under the wrong name, or from another file's log beside this one.
    if tables and "document" not in tables:
        raise sqlite.BrokenFileError(f"it has the tables of another file, such as {tables[0]}")
    file.execute(TABLE)
    file.execute(ROWS, ("",))  # a damaged schema may have other columns
    sqlite.require_sound(file)
