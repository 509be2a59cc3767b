"""Reads files that somebody else may have named or made."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read(path: Path, most: int) -> bytes:
    """A file's content. OSError, also for what is no regular file, as a pipe would be waited for
    and a device may be endless, and for more than `most` bytes."""
    with open(path, "rb", opener=_at_once) as file:
        require_regular(path, os.fstat(file.fileno()), most)
        return file.read(most)


def first_line(path: Path, most: int) -> str:
    """The first line of a text, up to `most` characters, without its end; also of a pipe. OSError,
    also for what is no UTF-8."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(most).rstrip("\n")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, "it is no text", str(path)) from None


def require_regular(path: Path, status: os.stat_result, most: int) -> None:
    """OSError unless it is a regular file of at most `most` bytes."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if status.st_size > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
