"""A folder of secrets: accessible to its owner only, each file replaced atomically."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import Final

from fleet.common import locks
from fleet.common.durable import sync
from fleet.common.files import read
from fleet.keys.errors import KeyStoreError

# Prefix of the remains of an interrupted write.
PART: Final = ".part-"
LOCK: Final = ".lock"
IGNORE_FILE: Final = ".gitignore"
# That of all revocations is the largest.
MAX_FILE: Final = 64 << 20


def make_private(folder: Path) -> None:
    """Create a folder for this user alone; KeyStoreError if one exists that others can access."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KeyStoreError(f"cannot make the folder {folder}: {error.strerror}") from None
    require_private(folder)


def keep_from_git(folder: Path) -> None:
    """Make git ignore everything in a folder, this file included, whatever else is ignored."""
    if not (path := folder / IGNORE_FILE).exists():
        write_file(path, b"*\n")


def require_private(path: Path) -> None:
    """KeyStoreError unless a folder or file belongs to this user and is closed to all others."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise KeyStoreError(f"{path} is a symbolic link; keys are only taken from the place itself")
    if status.st_uid != os.geteuid():
        raise KeyStoreError(
            f"{path} belongs to user {status.st_uid}; run this as that user, "
            f"or chown -R {os.geteuid()} {path}"
        )
    if status.st_mode & 0o077:
        mode = "700" if stat.S_ISDIR(status.st_mode) else "600"
        raise KeyStoreError(
            f"others may read or change {path} (mode {stat.S_IMODE(status.st_mode):04o}); "
            f"chmod {mode} {path}"
        )


def read_private(path: Path) -> bytes | None:
    """A file's content; None if it does not exist. KeyStoreError if others may read it."""
    try:
        require_private(path)
        return read(path, MAX_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeyStoreError(f"cannot read {path}: {error.strerror}") from None


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically and durably: after a power cut it is the old one or the new one.

    KeyStoreError if it cannot be written.
    """
    part = path.with_name(f"{PART}{path.name}-{os.getpid()}-{get_ident()}")
    try:
        # A new file: the folder of a backup may be everybody's, and who has put a file of this name
        # there could read what is written to it.
        part.unlink(missing_ok=True)
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            os.fchmod(file, mode)  # independent of the umask
            with open(file, "wb", closefd=False) as opened:
                opened.write(content)
            os.fsync(file)
        finally:
            os.close(file)
        part.replace(path)
        sync(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise KeyStoreError(f"cannot write {path}: {error.strerror}") from None


def remove_file(path: Path) -> None:
    """Remove a file durably, if it exists."""
    try:
        path.unlink(missing_ok=True)
        sync(path.parent)
    except OSError as error:
        raise KeyStoreError(f"cannot remove {path}: {error.strerror}") from None


@contextmanager
def locked(path: Path, doing: str) -> Iterator[None]:
    """Hold the lock at `path`; KeyStoreError if another process has it. It is released when the
    process ends, however it ends."""
    busy = KeyStoreError(f"another command is {doing}; try again when it is done")
    with ExitStack() as held:
        try:
            held.enter_context(locks.alone(path, busy, 0o600))
        except OSError as error:
            raise KeyStoreError(f"cannot open {path}: {error.strerror}") from None
        yield
