"""SQLite files: exclusive opening, integrity checks, renaming of broken files."""

# ruff: noqa: PTH100, PTH104, PTH108, PTH110, PTH112, PTH114, PTH116, PTH118, PTH119, PTH208 - pathlib takes 0.6 MiB of an edge agent

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

T = TypeVar("T")

LOGS: Final = ("", "-wal", "-shm")  # SQLite's suffixes of a file's name

# Exceptions that a damaged file may cause. SQLite quotes its content in messages, which then may be
# invalid UTF-8.
DAMAGE: Final = (sqlite3.Error, UnicodeError, OverflowError)
# Error codes of a file that cannot be accessed now, which does not mean that it is broken.
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
    """Lock the file against other processes while the returned file descriptor is open; it closes
    with the process, however that ends. None if another process holds the lock; OSError."""
    holder = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(holder)
        return None
    return holder


def is_held(lock: str | os.PathLike[str]) -> bool | None:
    """Whether a process holds this lock, a file of `hold`; None if this user cannot tell. Creates
    no file."""
    try:
        looked = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(looked, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(looked)
    return False


class NamedConnection(sqlite3.Connection):
    """A connection that knows which file it has open, once `name` was called."""

    path = ""
    _identity: tuple[int, int] | None = None

    def name(self, path: str) -> None:
        """Its file is the one that is at `path` now."""
        self.path = os.path.abspath(path)
        self._identity = _identity(self.path)

    def require_there(self) -> None:
        """sqlite3.OperationalError if its file was removed or replaced: whatever is written goes
        with this process. That ends when the file is put back."""
        if self.path and _identity(self.path) != self._identity:
            raise sqlite3.OperationalError(
                f"{os.path.basename(self.path)} was removed or replaced; put it back, or restart "
                "what uses it"
            )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class BrokenFileError(Exception):
    """The file is unusable; the text says why. It may be put aside."""


def open_alone(
    path: str,
    opened: Callable[[sqlite3.Connection], T],
    broken: Callable[[str, str], object],
    in_use: str,
    *,
    any_thread: bool = False,
) -> tuple[int, sqlite3.Connection, T]:
    """Open the file exclusively, in WAL mode: (file descriptor that holds the lock, connection,
    result of `opened`).

    With `any_thread` the connection may change threads; the caller ensures that only one uses it at
    a time.

    If `opened` raises BrokenFileError or finds damage, or the file is empty, as a power cut may
    leave it, the file is put aside and a new one created; `broken` is called with the reason and
    the broken file's new name. OSError in one line if the file cannot be accessed, with the text
    `in_use` if another process holds it.
    """
    try:
        holder = hold(path)
    except OSError as error:
        raise OSError(f"cannot use {path}: {error.strerror}") from None
    if holder is None:
        raise OSError(in_use)
    is_new = not os.path.exists(path)
    try:
        try:
            if not is_new and not os.stat(path).st_size:
                raise BrokenFileError("the file is empty")
            file, made = _opened(path, opened, any_thread)
        except BrokenFileError as error:
            broken(str(error), os.path.basename(put_aside(path)))
            is_new = True
            file, made = _opened(path, opened, any_thread)
    except (OSError, BrokenFileError, *DAMAGE) as error:
        # A full disk may have taken its name alone: it would pass for one that lost all. A link
        # whose target is away, such as a disk that is not mounted, stays: without it a new file
        # would begin here at the next start, without a word.
        if is_new and not os.path.islink(path):
            for suffix in LOGS:
                with suppress(OSError):
                    os.unlink(path + suffix)
        os.close(holder)
        why = " ".join(str(error).split())
        if os.path.isdir(path):  # of both SQLite says only that it cannot open it
            why = "it is a folder; move it away"
        elif is_new and os.path.islink(path):
            why = "it is a link to what is not there; bring that back, or remove the link"
        for log in [path + suffix for suffix in LOGS[1:]]:  # the same
            if os.path.lexists(log) and not os.path.isfile(log):  # noqa: PTH113 - as above
                why = f"{os.path.basename(log)} beside it is no file; move that away"
        raise OSError(f"cannot use {path}: {why}") from None
    return holder, file, made


def _opened(
    path: str, opened: Callable[[sqlite3.Connection], T], any_thread: bool
) -> tuple[sqlite3.Connection, T]:
    file = sqlite3.connect(
        path, isolation_level=None, check_same_thread=not any_thread, factory=NamedConnection
    )
    try:
        file.execute("PRAGMA journal_mode = WAL")
        file.name(path)
        # FULL: a commit is on stable storage when it returns. NORMAL syncs only at checkpoints.
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


@contextmanager
def transaction(file: sqlite3.Connection) -> Iterator[None]:
    """All or nothing: committed at the end of the block, rolled back if that raises. sqlite3.Error
    if the disk takes nothing, or the file is not there any more."""
    if isinstance(file, NamedConnection):
        file.require_there()
    file.execute("BEGIN IMMEDIATE")
    try:
        yield
        file.execute("COMMIT")
    except BaseException:
        if file.in_transaction:
            file.execute("ROLLBACK")
        raise


def require_version(version: int, newest: int) -> None:
    """OSError if a file of this version is newer than what is read here: it is left as it is."""
    if version > newest:
        raise OSError(
            f"written by a newer version of Sanderling (format {version}, this one reads "
            f"{newest}); it is left as it is"
        )


def require_sound(file: sqlite3.Connection) -> None:
    """BrokenFileError if SQLite finds a fault in it. O(its size)."""
    (verdict,) = file.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise BrokenFileError(" ".join(str(verdict).split()))


def out_of_reach(error: Exception) -> bool:
    """Whether the file could not be accessed, so that nothing is known of its content."""
    # An error raised by Python itself, such as invalid UTF-8, has no code.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    # A short read is damage, though its primary code is that of a failing device.
    return code != sqlite3.SQLITE_IOERR_SHORT_READ and code & 0xFF in OUT_OF_REACH


def damaged(error: Exception) -> bool:
    """Whether the file turned out to be damaged while it was in use."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
    return code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def put_aside(path: str, label: str = "broken") -> str:
    """Rename the file and its log to a name with `label` and the time; returns the new path."""
    aside = first = f"{path}.{label}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    # After the highest number: lower ones may have been deleted.
    folder, name = os.path.split(first)
    there = [each for each in os.listdir(folder or ".") if each.startswith(name)]
    if there:
        aside = f"{first}-{1 + max([_number_last(_without_log(each))[1] for each in there])}"
    # The log first: after a power cut in between, a new file must not find the old log.
    for suffix in reversed(LOGS):
        if os.path.exists(path + suffix):
            os.rename(path + suffix, aside + suffix)
    return aside


def thin_out(path: str, most: int, most_bytes: int) -> int:
    """Delete the oldest broken files that were put aside until at most `most` of them with
    `most_bytes` in all are left, so that a card does not fill up. Returns how many were deleted."""
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
    """Sort key: `….broken-<time>` before `….broken-<time>-2`, and that before `…-10`."""
    stamp, _, number = name.rpartition("Z-")
    return (stamp + "Z", int(number)) if number.isdigit() else (name, 1)
