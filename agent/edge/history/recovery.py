"""History recovery: checks or rebuilds the file on opening, and replays the write-ahead log."""

# ruff: noqa: PTH104, PTH108, PTH110 - pathlib takes 0.6 MiB; see history.file

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from agent.edge.history import derived_positions, group_table, wal
from agent.edge.history.columns import decode, merge
from agent.edge.history.event_store import salvage_events
from agent.edge.history.file import Broken, HistoryError, Newer, open_checked, put_aside
from agent.edge.history.group_table import Complete
from agent.edge.history.row_groups import OPENING
from agent.runtime import sqlite

# Errors that may pass: no space, no permission, a failing device. All others are configuration
# errors, such as a missing folder.
PASSING: Final = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EIO,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOSPC,
        errno.EPERM,
        errno.EROFS,
    }
)
PAGE: Final = 4096


class Opened(NamedTuple):
    """An open, writable history: its database and id, the first sequence of this process, and lines
    for the operator."""

    db: sqlite.NamedConnection
    history: str
    sequence: int
    notices: list[str]


def open_history(path: str, history: str, retention_ms: int) -> Opened:
    """Open the file at `path`; a new file gets the id `history`.

    HistoryError: a configuration error; sqlite3.Error and OSError: the file cannot be written now.
    An unusable file is put aside, and its readable content is copied into a new one.
    """
    notices: list[str] = []
    reject(path)
    db, rebuilt = _whole(path, history, notices)
    try:
        found = _wal(path, None if rebuilt else _meta(db, "history"), notices)
        damaged = group_table.problems(db)
        with sqlite.transaction(db):
            group_table.quarantine(db, damaged)
            for group in _groups(found) if found is not None else ():
                group_table.insert_new(db, group)
            for chunk in found.chunks if found is not None else ():
                if chunk.source:
                    derived_positions.keep(db, chunk.source, chunk.position)
            # A damaged SQLite log may have lost an opening that the tail's sequences reveal.
            db.execute(
                "UPDATE meta SET value = 1 + max(value,"
                " (SELECT coalesce(max(sequence), 0) / ? FROM groups)) WHERE key = 'openings'",
                (OPENING,),
            )
            # The tail may contain groups that the file had already dropped.
            group_table.drop_old(db, "", None, retention_ms)
        if found is not None:
            os.unlink(path + wal.SUFFIX)
        notices += [quarantined(path, sequence, reason) for sequence, reason in damaged]
        sequence = int(_meta(db, "openings")) * OPENING
        db.name(path)
        return Opened(db, str(_meta(db, "history")), sequence, notices)
    except BaseException:
        db.close()
        raise


def quarantined(path: str, sequence: int, reason: str) -> str:
    """The operator's line about a damaged group."""
    return f"history {path}: group {sequence} is damaged ({reason}) and left out; kept apart"


def reject(path: str) -> None:
    """HistoryError if no history can exist at `path`, which is a configuration error."""
    folder = os.path.dirname(path) or "."  # noqa: PTH120 - as above
    if not os.path.isdir(folder):  # noqa: PTH112 - as above
        raise HistoryError(f"history {path}: there is no folder {folder}")
    if os.path.isdir(path):  # noqa: PTH112 - as above
        raise HistoryError(f"history {path}: it is a folder")
    target = os.path.realpath(path)
    if not os.path.exists(path) and not os.path.isdir(os.path.dirname(target)):  # noqa: PTH112, PTH120
        raise HistoryError(
            f"history {path}: it is a link to what is not there; "
            "bring that back, or remove the link"
        )
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH113 - as above
        raise HistoryError(f"history {path}: it is no regular file; move it away")


def _whole(path: str, history: str, notices: list[str]) -> tuple[sqlite.NamedConnection, bool]:
    """A checked database, and whether it replaces the one that was there."""
    new = path + "-new"
    if not os.path.exists(path) and os.path.exists(new):
        os.rename(new, path)  # a power cut came between the two names of a rebuilt file
    existed = os.path.exists(path)
    try:
        if existed and not os.path.getsize(path):  # noqa: PTH202 - as above
            raise Broken("it is empty")  # as a power cut may leave it, or another program
        try:
            db = open_checked(path, history)
        except (sqlite3.Error, OSError):
            # A full disk may have taken its name alone: it would pass for one that lost all.
            if not existed and os.path.exists(path) and not os.path.getsize(path):  # noqa: PTH202
                os.unlink(path)
            raise
        if not existed:
            wal.sync_folder(path)
            if os.path.islink(path):  # noqa: PTH114 - as above
                notices.append(
                    f"history {path} is a link to what was not there: a new one began; if it is on "
                    "a disk that is not mounted, mount that, and start the agent anew"
                )
        return db, False
    except Newer as error:
        aside = put_aside(path, "newer")
        notices.append(f"history {path} was written by a later version ({error}); {aside}, ")
        notices[-1] += "started anew"
    except Broken as error:
        readings = _rebuild(path, new, history)
        aside = put_aside(path, "broken")
        if os.path.exists(new):
            os.rename(new, path)
        notices.append(f"history {path} was broken ({error}); {aside}, started anew")
        if readings:
            notices[-1] += f" with {readings} readings of it"
    db = open_checked(path, history)
    wal.sync_folder(path)
    return db, True


def write_log_again(path: str) -> None:
    """Rewrite SQLite's log into a new, synced file that replaces the old one.

    After a failed sync in an earlier process, parts of the log may exist only in the page cache,
    and no later sync reports that; everything logged after them would be lost, too. Call this only
    while no connection is open; OSError leaves the log unchanged.
    """
    log = path + "-wal"
    if not os.path.exists(log):
        return
    new = log + "-new"
    source = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    target = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        at = 0
        while page := os.pread(source, PAGE, at):
            at += os.pwrite(target, page, at)
        os.fsync(target)
        os.rename(new, log)
    except OSError:
        os.unlink(new)  # its room is needed
        raise
    finally:
        os.close(source)
        os.close(target)
    wal.sync_folder(log)


def _rebuild(path: str, new: str, history: str) -> int:
    """Build a new file from what is readable of a broken one; returns the number of readings."""
    for suffix in sqlite.LOGS:
        if os.path.exists(new + suffix):
            os.unlink(new + suffix)
    try:
        db = open_checked(new, history)
        try:
            with sqlite.transaction(db):
                readings = group_table.salvage(db, path)
                salvage_events(db, path)
                db.execute(
                    "UPDATE meta SET value ="
                    " (SELECT coalesce(max(sequence), 0) / ? FROM groups) WHERE key = 'openings'",
                    (OPENING,),
                )
        finally:
            db.close()
    except (sqlite3.Error, Broken):
        # No space for both: starting matters more than the broken file's content.
        if os.path.exists(new):
            os.unlink(new)
        return 0
    return readings


def _wal(path: str, history: str | None, notices: list[str]) -> wal.Found | None:
    """The tail's content if it belongs to `history` (None: any); an unusable tail is put aside."""
    try:
        found = wal.read(path + wal.SUFFIX)
        if found is not None and history is not None and found.head.history != history:
            raise wal.WalError("it belongs to another history")
    except wal.WalError as error:
        notices.append(
            f"history {path}: the tail was broken ({error}); "
            + put_aside(path + wal.SUFFIX, "broken")
        )
        return None
    if found is not None and found.damaged:
        notices.append(f"history {path}: {found.damaged} damaged records of the tail left out")
    return found


def _groups(found: wal.Found) -> Iterator[Complete]:
    """Assemble groups from a tail's chunks; a new group begins after a gap."""
    chunks = sorted(found.chunks, key=attrgetter("sequence", "start"))
    for _, of_group in groupby(chunks, attrgetter("sequence")):
        open_: Complete | None = None
        for chunk in of_group:
            try:
                batch = decode(chunk.layout, chunk.data)
            except (ValueError, KeyError):
                continue
            at = chunk.sequence + chunk.start
            group = Complete(
                at,
                chunk.sensor,
                found.head.boot,
                chunk.first_monotonic_ms,
                chunk.last_monotonic_ms,
                chunk.synchronised,
                batch,
            )
            if open_ is None:
                open_ = group
            elif at == open_.sequence + len(open_.batch):
                open_ = replace(
                    open_,
                    batch=merge([open_.batch, batch]),
                    last_monotonic_ms=chunk.last_monotonic_ms,
                )
            elif at > open_.sequence + len(open_.batch):
                yield open_
                open_ = group
        if open_ is not None:
            yield open_


def _meta(db: sqlite3.Connection, key: str) -> Any:
    return db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0]
