"""SQLite files of agents: who has one to itself, and what becomes of a broken one."""

# ruff: noqa: PTH104, PTH110 - pathlib takes 0.6 MiB of an edge agent

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from typing import Final

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


def out_of_reach(error: Exception) -> bool:
    """Whether the file could not be reached, so that nothing is known of its content."""
    # An error of Python's own making, such as text that is no UTF-8, carries no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # A read beyond the end of the file is damage, though its code is that of a failing device.
    return code != sqlite3.SQLITE_IOERR_SHORT_READ and code & 0xFF in OUT_OF_REACH


def put_aside(path: str) -> str:
    """Rename the file, with its log, to a name that says when; returns the new path."""
    aside = first = f"{path}.broken-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    n = 1
    while os.path.exists(aside):
        n += 1
        aside = f"{first}-{n}"
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return aside
