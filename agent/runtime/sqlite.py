"""SQLite files of agents: who has one to itself, and what becomes of a broken one."""

# ruff: noqa: PTH104, PTH108, PTH110, PTH118, PTH119, PTH208 - pathlib takes 0.6 MiB of an edge agent

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

LOGS: Final = ("", "-wal", "-shm")  # what SQLite puts after a file's name

# What a damaged file may raise. SQLite quotes it in its messages, which then may be no valid UTF-8.
DAMAGE: Final = (sqlite3.Error, UnicodeError, OverflowError)
# These say that the file cannot be reached now, not that it is broken.
OUT_OF_REACH: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)


def hold(path: str) -> int | None:
    """Keep other processes off the file, as long as the file descriptor returned is open; it
    closes with the process, however that ends. None if another one has it; OSError."""
    holder = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(holder)
        return None
    return holder


class BrokenFileError(Exception):
    """The file is none that can be used; the text says why. It may be put aside."""


def open_alone(
    path: str,
    opened: Callable[[sqlite3.Connection], T],
    broken: Callable[[str, str], object],
    in_use: str,
    *,
    any_thread: bool = False,
) -> tuple[int, sqlite3.Connection, T]:
    """The file for this process alone, in WAL mode, and what `opened` makes of it; the file
    descriptor that holds it comes first.

    With `any_thread` the connection may change threads; whoever has it sees to it that only one
    uses it at a time.

    If `opened` raises BrokenFileError or finds damage, the file is put aside and begun anew;
    `broken` is told why, and under which name it is kept. OSError in one line if it cannot be
    reached; with the text `in_use` if another process has it.
    """
    try:
        holder = hold(path)
    except OSError as error:
        raise OSError(f"cannot use {path}: {error.strerror}") from None
    if holder is None:
        raise OSError(in_use)
    try:
        try:
            file, made = _opened(path, opened, any_thread)
        except BrokenFileError as error:
            broken(str(error), os.path.basename(put_aside(path)))
            file, made = _opened(path, opened, any_thread)
    except (OSError, BrokenFileError, *DAMAGE) as error:
        os.close(holder)
        raise OSError(f"cannot use {path}: {' '.join(str(error).split())}") from None
    return holder, file, made


def _opened(
    path: str, opened: Callable[[sqlite3.Connection], T], any_thread: bool
) -> tuple[sqlite3.Connection, T]:
    file = sqlite3.connect(path, isolation_level=None, check_same_thread=not any_thread)
    try:
        file.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit is on stable storage when it returns. NORMAL syncs at checkpoints only.
        file.execute("PRAGMA synchronous = FULL")
        return file, opened(file)
    except DAMAGE as error:
        file.close()
        if out_of_reach(error):
            raise
        raise BrokenFileError(" ".join(str(error).split())) from None
    except BaseException:
        file.close()
        raise


def require_sound(file: sqlite3.Connection) -> None:
    """BrokenFileError if SQLite finds a fault in it. O(its size)."""
    (verdict,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise BrokenFileError(" ".join(str(verdict).split()))


def out_of_reach(error: Exception) -> bool:
    """Whether the file could not be reached, so that nothing is known of its content."""
    # An error of Python's own making, such as text that is no UTF-8, carries no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # A read beyond the end of the file is damage, though its code is that of a failing device.
    return code != sqlite3.SQLITE_IOERR_SHORT_READ and code & 0xFF in OUT_OF_REACH


def damaged(error: Exception) -> bool:
    """Whether the file turned out to be damaged while it was in use."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def put_aside(path: str, label: str = "broken") -> str:
    """Rename the file, with its log, to a name that says why and when; returns the new path."""
    aside = first = f"{path}.{label}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    # After the highest number: of those before it some may have been deleted.
    folder, name = os.path.split(first)
    there = [each for each in os.listdir(folder or ".") if each.startswith(name)]
    if there:
        aside = f"{first}-{1 + max([_number_last(_without_log(each))[1] for each in there])}"
    # The log first: a cut in between must not leave it to a file that is made anew.
    for suffix in reversed(LOGS):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return aside


def thin_out(path: str, most: int, most_bytes: int) -> int:
    """Delete the oldest of the broken files that were put aside, so that at most `most` of them
    with `most_bytes` in all are left: a card must not fill up. Returns how many went."""
    folder, name = os.path.split(path)
    kept = [each for each in os.listdir(folder or ".") if each.startswith(f"{name}.broken-")]
    files = {
        each: [each + suffix for suffix in LOGS if each + suffix in kept]
        for each in kept
        if not each.endswith(LOGS[1:])
    }
    deleted = total = 0
    newest_first = sorted(files, key=_number_last, reverse=True)
    for n, each in enumerate(newest_first, 1):
        paths = [os.path.join(folder, file) for file in files[each]]
        total += sum(map(os.path.getsize, paths))
        if n > most or total > most_bytes:
            for file in paths:
                os.unlink(file)
            deleted += 1
    return deleted


def _without_log(name: str) -> str:
    return name.removesuffix(LOGS[1]).removesuffix(LOGS[2])


def _number_last(name: str) -> tuple[str, int]:
    """Orders `….broken-<time>` before `….broken-<time>-2`, and that before `…-10`."""
    stamp, _, number = name.rpartition("Z-")
    return (stamp + "Z", int(number)) if number.isdigit() else (name, 1)
