"""The directory on disk: SQLite, so that every acknowledged change survives a restart."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

import msgspec

from agent.directory.directory import Directory, Edit, contradiction
from agent.runtime import sqlite
from agent.runtime.sqlite import BrokenFileError
from agent.wire.directory import DirectoryEntry

SCHEMA_VERSION: Final = 1  # the schema names it again
APPLICATION_ID: Final = 0x53414452  # "SADR"; the schema names it again
# A primary makes its epoch with the file. A mirror has none before its first copy.
SCHEMA: Final = """
BEGIN IMMEDIATE;
PRAGMA application_id = 0x53414452;
CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE entry (name TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT;
INSERT INTO meta VALUES ('schema', 1), ('role', ''), ('epoch', ''), ('version', 0);
COMMIT;
"""


class Store:
    """The directory's file, locked against other processes while it is open.

    A corrupt file is set aside, and `said` is the line for the operator. OSError if the file cannot
    be used.
    """

    def __init__(self, path: Path, *, mirror: bool) -> None:
        self.said = ""
        role = "mirror" if mirror else "primary"

        def broken(why: str, aside: str) -> None:
            self.said = f"directory {path} was broken ({why}); kept as {aside}, started anew"

        self._holder, self._file, self._loaded = sqlite.open_alone(
            str(path),
            lambda file: _loaded(file, role),
            broken,
            f"cannot use {path}: another registration service is using it",
        )

    def load(self) -> Directory:
        """Contents of the file when it was opened."""
        return Directory(self._loaded.epoch, self._loaded.version, self._loaded.entries)

    def write(self, edit: Edit) -> None:
        """Write `edit` atomically; sqlite3.Error if it cannot be written."""
        file = self._file
        with sqlite.transaction(file):
            if edit.whole:
                file.execute("DELETE FROM entry")
            for entry in edit.entries:
                if entry.gone:
                    file.execute("DELETE FROM entry WHERE name = ?", (entry.account.name,))
                else:
                    file.execute(
                        "INSERT OR REPLACE INTO entry VALUES (?, ?)",
                        (entry.account.name, msgspec.msgpack.encode(entry)),
                    )
            _set_meta(file, epoch=edit.epoch, version=edit.version)

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()
        os.close(self._holder)


def _loaded(file: sqlite3.Connection, role: str) -> Edit:
    if not file.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        file.executescript(SCHEMA)
    _check(file)
    _take_role(file, role)
    try:
        return _read(file)
    except msgspec.MsgspecError as error:
        raise BrokenFileError(" ".join(str(error).split())) from None


def _check(file: sqlite3.Connection) -> None:
    if file.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise BrokenFileError("it is not a Sanderling directory")
    sqlite.require_sound(file)
    schema = _meta(file).get("schema")
    if not isinstance(schema, int):
        raise BrokenFileError("the version of its schema is missing")
    sqlite.require_version(schema, SCHEMA_VERSION)


def _take_role(file: sqlite3.Connection, role: str) -> None:
    """A leader starts a new epoch with each opening of its file. In the old epoch another leader
    may still assign versions, if this file is a replica's, or has assigned later ones already, if
    it is an older copy."""
    meta = _meta(file)
    if meta.get("role") == role and (role != "primary" or not meta.get("epoch")):
        return
    epoch = os.urandom(16).hex() if role == "primary" else meta.get("epoch", "")
    with sqlite.transaction(file):
        _set_meta(file, role=role, epoch=epoch)


def _read(file: sqlite3.Connection) -> Edit:
    meta = _meta(file)
    epoch, version = meta.get("epoch"), meta.get("version")
    if not isinstance(epoch, str) or len(epoch) > 64 or not isinstance(version, int):
        raise BrokenFileError("its epoch or version is missing")
    decode = msgspec.msgpack.Decoder(DirectoryEntry).decode
    entries = tuple(decode(body) for (body,) in file.execute("SELECT body FROM entry"))
    edit = Edit(epoch, version, entries)
    if (why := contradiction(edit)) or any(entry.gone for entry in entries):
        raise BrokenFileError(why or "an entry contradicts the rest")
    return edit


def _meta(file: sqlite3.Connection) -> dict[str, object]:
    return dict(file.execute("SELECT key, value FROM meta"))


def _set_meta(file: sqlite3.Connection, **values: object) -> None:
    file.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(values.items()))
