"""Advisory file locks between processes. The kernel releases a lock when its process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone(path: Path, busy: Exception, mode: int = 0o666) -> Iterator[None]:
    """Hold the lock of a folder, or of a file, which is created with `mode` if it is missing.
    Raises `busy` if another process holds the lock. OSError."""
    kind = os.O_DIRECTORY if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    number = os.open(path, kind | os.O_CLOEXEC, mode)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        yield
    finally:
        os.close(number)
